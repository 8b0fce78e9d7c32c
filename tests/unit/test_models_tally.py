"""How far a pull is: sums, rates and what is left, told by a clock that the test turns."""

import hashlib
from pathlib import Path

import pytest

from appliance.models.fetch import Puller
from appliance.models.manifest import parse_manifest
from appliance.models.progress import Progress
from appliance.models.shelf import Shelf
from appliance.models.tally import Arrived, Tally, missing

MB = 1_000_000


class Watch:
    at = 0.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Watch:
    return Watch()


def test_a_rate_and_what_is_left(clock: Watch) -> None:
    tally = Tally([Arrived("one", 0, 100 * MB), Arrived("two", 20 * MB, 120 * MB)], clock)
    assert tally.standing().rate is None
    assert (tally.standing().done_bytes, tally.standing().total_bytes) == (20 * MB, 220 * MB)
    for second in range(11):
        clock.at = float(second)
        tally.feed(Progress("one", "a.gguf", second * 10 * MB, 100 * MB))
    standing = tally.standing()
    assert standing.current == "one/a.gguf"
    assert standing.rate == pytest.approx(10 * MB)
    assert standing.models == (Arrived("one", 100 * MB, 100 * MB), Arrived("two", 20 * MB, 120 * MB))
    assert standing.left_s == pytest.approx(10.0)


def test_what_was_here_before_did_not_arrive_now(clock: Watch) -> None:
    tally = Tally([Arrived("one", 0, 100 * MB)], clock)
    tally.feed(Progress("one", "a", 90 * MB, 100 * MB))
    clock.at = 1.0
    tally.feed(Progress("one", "a", 91 * MB, 100 * MB))
    assert tally.standing().rate == pytest.approx(MB)
    assert tally.standing().left_s == pytest.approx(9.0)


def test_a_damaged_file_that_is_fetched_anew_runs_back(clock: Watch) -> None:
    tally = Tally([Arrived("one", 0, 10 * MB)], clock)
    for second, done in enumerate((10, 0, 1)):
        clock.at = float(second)
        tally.feed(Progress("one", "a", done * MB, 10 * MB))
    assert tally.standing().done_bytes == MB
    assert tally.standing().rate == pytest.approx(MB / 2)


def test_a_source_that_stalls_has_no_rate(clock: Watch) -> None:
    tally = Tally([Arrived("one", 0, 10 * MB)], clock)
    for second in range(3):
        clock.at = float(second)
        tally.feed(Progress("one", "a", second * MB, 10 * MB))
    clock.at = 4.0
    assert tally.standing().rate == pytest.approx(MB / 2)
    clock.at = 20.0
    assert tally.standing().rate is None
    assert tally.standing().left_s is None


def test_notes_and_models_nobody_announced(clock: Watch) -> None:
    tally = Tally([], clock)
    tally.feed(Progress("three", "", 0, 0, "another pull is fetching three; waiting for it"))
    tally.feed(Progress("three", "a", 5, 9))
    assert tally.standing().models == (Arrived("three", 5, 9),)
    assert tally.standing().notes == ("another pull is fetching three; waiting for it",)


def test_the_end_of_a_real_pull_is_the_whole(tmp_path: Path, clock: Watch) -> None:
    text = '[[models]]\nid = "toy"\nkind = "llm"\nlicence = "MIT"\n'
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(name.encode() * 3000)
        sha = hashlib.sha256(name.encode() * 3000).hexdigest()
        text += f'[[models.files]]\nname = "{name}"\nsha256 = "{sha}"\nbytes = 3000\nsources = ["file:{name}"]\n'
    (tmp_path / "manifest.toml").write_text(text)
    shelf = Shelf(tmp_path / "weights", parse_manifest(text, tmp_path / "manifest.toml"))
    assert missing(shelf, ["toy"]) == [Arrived("toy", 0, 6000)]
    Puller(shelf).pull(["toy"])
    assert missing(shelf, ["toy"]) == []
    (shelf.root / "toy" / "b").unlink()
    assert missing(shelf, ["toy"]) == [Arrived("toy", 3000, 6000)]
    tally = Tally(missing(shelf, ["toy"]), clock)
    Puller(shelf, tally.feed).pull(["toy"])
    assert tally.standing().done_bytes == tally.standing().total_bytes == 6000
