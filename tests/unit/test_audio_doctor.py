"""The doctor's measure of the way from speaker to microphone, and the advice that follows from it."""

import numpy as np
import pytest

from appliance.setup.audio_doctor import Loopback, find, judge, sweep


def test_sweep_is_found_under_noise_where_it_lies() -> None:
    rng = np.random.default_rng(1)
    reference = sweep(16_000)
    recording = rng.normal(0, 0.02, 32_000).astype(np.float32)
    recording[5_000 : 5_000 + len(reference)] += 0.1 * reference
    at, sure = find(recording, reference)
    assert at == pytest.approx(5_000, abs=3)
    assert sure > 12
    _, unsure = find(rng.normal(0, 0.02, 32_000).astype(np.float32), reference)
    assert unsure < 12


@pytest.mark.parametrize(
    ("result", "advice", "status"),
    [
        (Loopback(False, noise_dbfs=-60), "off", "ok"),
        (Loopback(True, 80, 150, 20, -60, -30), "cancel", "ok"),
        (Loopback(True, 80, 150, -4, -60, -10), "half-duplex", "warn"),
        (Loopback(True, 80, 150, 10, -60, -3, clipped=True), "half-duplex", "warn"),
    ],
)
def test_advice_follows_from_the_measurement(result: Loopback, advice: str, status: str) -> None:
    assert result.advice == advice
    findings = judge(result)
    assert next(finding for finding in findings if finding.name == "echo").status == status
    assert all(finding.hint for finding in findings if finding.status != "ok")
