"""`appliance run` as people meet it: asked through the microphone, heard at the speaker, stopped, unplugged."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from house import CALM, COUNTER, ROOM, House, answers, house, question, stretches, until
from rig import RATE, Rig

from appliance.service.reception import REFUSED

pytestmark = [pytest.mark.box, pytest.mark.models]


@pytest.fixture(scope="module")
def talker(rig: Rig, state: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(rig, tmp_path_factory.mktemp("talker"), state, CALM + COUNTER) as the:
        yield the


def test_questions_are_answered_aloud_and_the_recording_agrees_with_the_store(rig: Rig, talker: House) -> None:
    with rig.hear_both() as heard:
        for n in range(3):
            rig.say(question(n), RATE).wait()
            talker.turn(n + 1)
            rig.passes(0.8)
    turns, measured = talker.turns(), answers(heard.audio)
    assert "hamlet" in turns[0]["heard"].lower()
    assert all(turn["spoken"] == turn["reply"] and not turn["interrupted"] for turn in turns)
    assert len(measured) == 3
    apart = [answer.ms - turn["v2v"] for answer, turn in zip(measured, turns, strict=True)]
    print("recorded minus stored, ms:", [round(ms) for ms in apart])
    assert abs(np.median(apart)) < 60


def test_muted_it_hears_nothing_until_it_is_unmuted(rig: Rig, talker: House) -> None:
    known = len(talker.turns())
    talker.do("mute")
    rig.say(question(0), RATE).wait()
    with rig.hear() as heard:
        rig.passes(2.5)
    talker.do("mute")
    assert not stretches(heard.audio[:, 0])
    rig.say(question(1), RATE).wait()
    assert "France" in talker.turn(known + 1)["heard"]
    assert len(talker.turns()) == known + 1


def test_a_microphone_and_a_sound_server_that_come_back_go_on_with_the_same_session(rig: Rig, talker: House) -> None:
    known = len(talker.turns())
    rig.unplug()  # this server gives the stream another microphone, and the old one back
    rig.passes(0.5)
    rig.plug_in()
    rig.say(question(0), RATE).wait()
    assert talker.turn(known + 1)["session"] == talker.turns()[0]["session"]
    known, since = known + 1, len(talker.lines)
    rig.kill()
    try:
        talker.said("input=counter_mic lost", 15, since)
    finally:
        rig.start()
    talker.said("input=counter_mic open", 15, since)
    talker.said("output=counter_spk open", 15, since)
    rig.say(question(2), RATE).wait()
    assert talker.turn(known + 1)["session"] == talker.turns()[0]["session"]


def test_told_to_stop_it_ends_the_answer_it_is_giving(rig: Rig, talker: House) -> None:
    known = len(talker.turns())
    with rig.hear() as heard:
        rig.say(question(2), RATE).wait()
        until(lambda: stretches(heard.so_far()[:, 0]), 20)
        assert talker.stop() == 0
    turn = talker.turn(known + 1)
    assert turn["spoken"] == turn["reply"]
    assert not turn["interrupted"]
    assert all(session["closed"] for session in talker.sessions())
    _, end = stretches(heard.audio[:, 0], gap_s=1.0)[-1]
    assert end - stretches(heard.audio[:, 0])[0][0] > 0.4


def test_without_a_microphone_it_is_ready_says_so_and_listens_once_there_is_one(
    rig: Rig, state: Path, tmp_path: Path
) -> None:
    rig.unplug("mic2")
    try:
        with house(rig, tmp_path, state, CALM + ROOM, ready=False) as the:
            the.said("ready")
            assert "input=room_mic waiting" in the.said("input=room_mic")
            rig.plug_in("mic2", "micfeed2")
            the.said("input=room_mic open", 15)
            rig.say(question(1), RATE, "micfeed2").wait()
            assert "France" in the.turn(1)["heard"]
    finally:
        if "mic2" not in rig.plugged:
            rig.plug_in("mic2", "micfeed2")


def test_two_stations_are_two_sessions_and_leave_nothing_behind(rig: Rig, state: Path, tmp_path: Path) -> None:
    visits = "[visits]\nidle_s = 4.0\nwipe = true\n"
    with house(rig, tmp_path, state, CALM + visits + COUNTER + ROOM) as the:
        with rig.hear("spk.monitor") as counter, rig.hear("spk2.monitor") as room:
            for voice in (rig.say(question(1), RATE, "micfeed"), rig.say(question(0), RATE, "micfeed2")):
                voice.wait()
            for name in ("counter-1", "room-1"):
                the.said(f"turn session={name} turn=1", 40)
        assert {session["station"] for session in the.sessions()} == {"counter", "room"}
        for heard in (counter, room):
            assert sum(end - begin for begin, end in stretches(heard.audio[:, 0])) > 0.2
        for name in ("counter-1", "room-1"):
            the.said(f"closed session={name}", 30)
        until(lambda: not the.turns() and not the.sessions(), 10, the.why)
        since = len(the.lines)
        rig.say(question(0), RATE, "micfeed2").wait()
        the.said("turn session=room-2 turn=1", 40, since)
        assert the.stop() == 0
    words = the.db.read_bytes() + b"".join(p.read_bytes() for p in the.db.parent.glob("turns.db-*"))
    assert b"amlet" not in words


def test_when_all_places_are_taken_a_visitor_is_told_so_at_once_and_only_once(
    rig: Rig, state: Path, tmp_path: Path
) -> None:
    limits = "[capacity]\nmax_sessions = 1\nqueue_length = 0\n"
    with house(rig, tmp_path, state, CALM + limits + COUNTER + ROOM) as the:
        rig.say(question(1), RATE, "micfeed").wait()
        the.turn(1)
        with rig.hear("spk2.monitor") as heard:
            begin = heard.seconds
            rig.say(question(3), RATE, "micfeed2").wait()  # it goes on for longer than it takes to be refused
            until(lambda: stretches(heard.so_far()[:, 0]), 10)
            rig.passes(6.0)
        told = stretches(heard.audio[:, 0], gap_s=0.6)
        print(f"refusal heard {told[0][0] - begin:.2f} s after the visitor began to speak")
        assert len(told) == 1
        assert 2.5 < told[0][1] - told[0][0] < 6.0  # the sentence, once
        assert REFUSED.startswith("Sorry")
        assert told[0][0] - begin < 2.0
        rig.say(question(0), RATE, "micfeed").wait()
        assert "amlet" in the.turn(2)["heard"]  # who is inside notices nothing
        assert {turn["session"] for turn in the.turns()} == {the.turns()[0]["session"]}
        assert the.stop() == 0
