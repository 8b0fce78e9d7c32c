"""What a person on the rig gets, in figures: measured from recordings alone, on a machine that does nothing else.

APPLIANCE_REPEAT says how often; without it these are left out.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from house import CALM, COUNTER, House, answers, house, question
from rig import RATE, Rig

from appliance.audio.resample import resample
from appliance.bench.quiet import quiet

pytestmark = [
    pytest.mark.box,
    pytest.mark.models,
    pytest.mark.timeout(300 + 60 * int(os.environ.get("APPLIANCE_REPEAT", "0"))),
]

REPEAT = int(os.environ.get("APPLIANCE_REPEAT", "0"))
V2V_MS = {"starter": (1300, 1900), "tiny": (1000, 1500)}  # p50 and p95
IDLE_S = 60.0


@pytest.fixture(scope="module", params=["starter", "tiny"])
def measured(
    request: pytest.FixtureRequest, rig: Rig, state: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, House]]:
    if not REPEAT:
        pytest.skip("a measurement for a quiet machine: set APPLIANCE_REPEAT")
    tier = str(request.param)
    with house(rig, tmp_path_factory.mktemp(tier), state, CALM + COUNTER, tier=tier) as the:
        yield tier, the


def test_listening_to_silence_costs_little(rig: Rig, measured: tuple[str, House]) -> None:
    tier, the = measured
    rig.passes(3.0)
    before = cpu_s(the.process.pid)
    time.sleep(IDLE_S)  # what is measured is processor time in so much real time
    share = (cpu_s(the.process.pid) - before) / IDLE_S
    print(f"{tier}: {share:.1%} of a core while listening to silence")
    assert share <= 0.10


def test_what_is_no_speech_is_no_turn(rig: Rig, measured: tuple[str, House]) -> None:
    """As many minutes as there are repetitions, ten at most: silence, noises, music."""
    tier, the = measured
    known = len(the.turns())
    for name, sound in quiet(5.0 * min(10, REPEAT)):
        rig.say(resample(sound, 16_000, RATE), RATE).wait()
        print(f"{tier}: {name}: {len(the.turns()) - known} turns so far")
    rig.passes(3.0)
    assert len(the.turns()) == known, [turn["heard"] for turn in the.turns()[known:]]


def test_from_the_last_word_to_the_first_sound(rig: Rig, measured: tuple[str, House]) -> None:
    tier, the = measured
    known = len(the.turns())
    with rig.hear_both() as heard:
        for n in range(10 * max(1, REPEAT // 50)):
            rig.say(question(n), RATE).wait()
            the.turn(known + n + 1)
            rig.passes(0.8)
    turns, found = the.turns()[known:], answers(heard.audio)
    assert len(found) == len(turns)
    recorded = [answer.ms for answer in found]
    apart = [answer.ms - turn["v2v"] for answer, turn in zip(found, turns, strict=True)]
    p50, p95 = np.percentile(recorded, (50, 95))
    print(f"{tier}: recorded p50 {p50:.0f}, p95 {p95:.0f} ms; minus stored {np.round(apart)}")
    assert abs(np.median(apart)) <= 60
    assert p50 <= V2V_MS[tier][0]
    assert p95 <= V2V_MS[tier][1]


def test_a_microphone_that_comes_and_goes_loses_no_question(rig: Rig, measured: tuple[str, House]) -> None:
    """Asked the moment it is back, in the same session each time."""
    _, the = measured
    rig.say(question(1), RATE).wait()
    session = the.turn(len(the.turns()) + 1)["session"]
    for _ in range(min(20, REPEAT)):
        known = len(the.turns())
        rig.unplug()
        rig.passes(0.5)
        rig.plug_in()
        rig.say(question(1), RATE).wait()
        turn = the.turn(known + 1)
        assert "France" in turn["heard"]
        assert turn["session"] == session


def cpu_s(pid: int) -> float:
    """Processor seconds of a process, all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
