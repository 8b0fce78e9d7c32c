"""Without an echo nothing is cancelled; with one it is noticed at once."""

import numpy as np
import pytest

from appliance.audio.isolation import Isolation, alike
from appliance.audio.levels import dbfs
from appliance.demo import questions
from appliance.engines.ports import RATE, Audio

FRAME = RATE // 100


@pytest.fixture(scope="module")
def voices() -> list[Audio]:
    return [np.concatenate([question.open().read()] * 3)[: 6 * RATE] for question in questions()[:4]]


def run(isolation: Isolation, near: Audio, far: Audio) -> list[bool]:
    """The verdict after each frame."""
    verdicts = []
    for at in range(0, min(len(near), len(far)) - FRAME, FRAME):
        here, there = near[at : at + FRAME], far[at : at + FRAME]
        verdicts.append(isolation.feed(here, there, dbfs(here), dbfs(there)))
    return verdicts


def test_a_headset_is_known_within_a_second_and_a_person_speaking_does_not_change_it(voices: list[Audio]) -> None:
    near = np.zeros(6 * RATE, np.float32)
    near[3 * RATE : 4 * RATE] = voices[1][RATE // 2 : RATE // 2 + RATE]
    verdicts = run(Isolation(), near, voices[0])
    first = verdicts.index(True)
    assert first < 140
    assert all(verdicts[first:])


def test_answers_that_are_all_talked_over_do_not_change_it_either(voices: list[Audio]) -> None:
    """A second of answer, then a person; the answer falls silent 150 ms later and the person goes on."""
    cut, near = voices[0].copy(), np.zeros(6 * RATE, np.float32)
    for begin in range(0, 6 * RATE, 2 * RATE):
        cut[begin + RATE * 115 // 100 : begin + 2 * RATE] = 0
        near[begin + RATE : begin + 2 * RATE] = voices[1][RATE // 2 : RATE // 2 + RATE]
    isolation = Isolation()
    run(isolation, np.zeros(3 * RATE, np.float32), voices[0])
    for _ in range(4):
        assert all(run(isolation, near, cut))


@pytest.mark.parametrize("gain_db", [-10.0, -20.0, -30.0])
@pytest.mark.parametrize("delay_ms", [20, 80, 180])
def test_with_an_echo_it_never_holds(voices: list[Audio], gain_db: float, delay_ms: int) -> None:
    far = voices[0]
    late = np.concatenate([np.zeros(RATE * delay_ms // 1000, np.float32), 10 ** (gain_db / 20) * far])[: len(far)]
    assert not any(run(Isolation(), late, far))


def test_an_echo_that_begins_is_noticed_within_300_ms_of_sound(voices: list[Audio]) -> None:
    far = voices[2]
    late = np.concatenate([np.zeros(RATE // 12, np.float32), 0.3 * far])[: len(far)]
    late[: 3 * RATE] = 0
    isolation = Isolation()
    verdicts = run(isolation, late, far)
    assert verdicts[290]
    sounding = np.array([dbfs(late[k * FRAME : (k + 1) * FRAME]) > -60 for k in range(len(verdicts))])
    ended = 290 + verdicts[290:].index(False)
    assert sounding[290:ended].sum() <= 30
    assert not any(verdicts[ended:])


def test_likeness_is_of_shape_not_of_level(voices: list[Audio]) -> None:
    far = voices[0][RATE : 2 * RATE]
    likeness, lag = alike(0.01 * far[3000:6200], far)
    assert likeness == pytest.approx(1.0, abs=0.01)
    assert lag == len(far) - 6200
    assert alike(voices[3][RATE : RATE + 3200], far)[0] < Isolation.ALIKE
    assert alike(np.zeros(3200, np.float32), far)[0] == 0.0
