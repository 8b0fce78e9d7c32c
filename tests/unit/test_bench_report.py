"""The pages of the benches: complete, self-contained, and readable as XML where they are drawn."""

import re
from pathlib import Path
from xml.etree import ElementTree

from appliance.bench.load import Attempted, Point
from appliance.bench.report import write_load
from appliance.config import load


def test_a_page_of_load_draws_what_was_measured_and_predicted_and_loads_nothing(tmp_path: Path) -> None:
    config = load(tier="tiny")
    points = [Point(n, True, (Attempted("a", 3),), config.objectives) for n in (1.0, 2.0)]
    write_load(tmp_path / "page.html", points, config, {1.0: 460.0, 2.0: 580.0})
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Nothing was measured" in page  # no turn was answered, and the page still stands
    assert not re.search(r"(src|href)=|@import|url\((?!#)", page)

    class Timed(Point):
        v2v_ms_p95 = 500.0
        starvation_ms_p95 = 0.0

    timed = [Timed(n, True, (Attempted("a", 3),), config.objectives) for n in (1.0, 2.0)]
    write_load(tmp_path / "page.html", timed, config, {1.0: 460.0, 2.0: 580.0})
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    drawings = re.findall(r"<svg.*?</svg>", page)
    assert len(drawings) == 2
    latency = ElementTree.fromstring(drawings[0])
    assert len(latency.findall("polyline")) == 2  # measured and predicted
    assert [text.text for text in latency.findall("text") if text.text == "500"] == ["500", "500"]
    assert "conversations at once" in drawings[0]
