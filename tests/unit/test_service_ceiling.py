"""The number of sessions that `run` lets in: memory, predicted speed, and what a load test saw."""

from dataclasses import replace
from pathlib import Path

import pytest

from appliance.capacity.cap import configured
from appliance.capacity.predict import Calibration
from appliance.config import load
from appliance.service.calibrate import fingerprint, read, remember
from appliance.service.ceiling import ceiling
from appliance.setup.sums import tier_sum

QUICK = Calibration(((1, 8.0), (8, 20.0)), 300.0, 0.02, 0.08, 40.0, 20.0, asr_threads=1)


@pytest.mark.parametrize(("carried", "sessions", "by"), [(None, 8, "config"), (4, 4, "load test"), (0, 1, "load test")])
def test_what_a_load_test_saw_fail_is_not_let_in(carried: int | None, sessions: int, by: str) -> None:
    config = load(tier="tiny")
    memory = replace(tier_sum(config), cap=configured(8))
    cap = ceiling(config, memory, replace(QUICK, carried=carried))
    assert (cap.sessions, cap.limited_by) == (sessions, by)
    assert any("load test" in line for line in cap.lines) == (carried is not None)


def test_it_is_remembered_with_the_speeds(tmp_path: Path) -> None:
    config, path = load(tier="tiny"), tmp_path / "calibration.json"
    remember(config, QUICK, path=path)
    assert read(path, fingerprint(config)) == QUICK
    remember(config, replace(QUICK, carried=4), path=path)
    assert read(path, fingerprint(config)) == replace(QUICK, carried=4)
    assert read(path, fingerprint(load(tier="starter"))) is None
    stricter = replace(config, objectives=replace(config.objectives, v2v_ms_p95=500.0))
    assert read(path, fingerprint(stricter)) is None
