"""A load's mean turn, read off events."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from appliance import events
from appliance.bench.workload import gather, profile, profiles
from appliance.capacity.predict import TurnProfile
from appliance.events import LatencyParts, TurnRecord

PARTS = LatencyParts(200.0, 0.0, 100.0, 50.0, 5.0)


def turn(number: int, last_speech: float, *, speech_ms: float = 2000.0, tokens: int = 20) -> list[events.Event]:
    """Drafted from 80 ms on for 140 ms, over at 200 ms, audible at 500 ms, heard to the end 4 s later."""
    who = {"session": "a", "turn": number}
    said, record = "x", TurnRecord("a", number, "", "x", "x", "x", False, PARTS, tokens=tokens)
    return [
        events.Transcribed(
            at=last_speech + 0.22, kind="draft", text=said, language="en", audio_ms=speech_ms, took_ms=140.0, **who
        ),
        events.TurnEnded(at=last_speech + 0.2, last_speech_at=last_speech, reason="score", **who),
        events.FirstToken(at=last_speech + 0.3, ttft_ms=80.0, prompt_tokens=12, **who),
        events.ClauseReady(at=last_speech + 0.4, index=0, text=said, tokens=7, **who),
        events.ClauseReady(at=last_speech + 0.6, index=1, text=said, tokens=20, **who),
        events.ClauseSynthesized(at=last_speech + 0.6, index=0, audio_ms=1200.0, took_ms=130.0, **who),
        events.PlaybackStarted(at=last_speech + 0.5, **who),
        events.TurnFinished(at=last_speech + 4.5, record=record, **who),
    ]


def test_the_mean_turn_is_what_was_asked_for_and_not_how_long_it_took() -> None:
    found = profile([*turn(1, 10.0), *turn(2, 18.5, speech_ms=3000.0, tokens=30)])
    assert found == TurnProfile(
        speech_s=2.5,
        answer_s=pytest.approx(4.0),
        pause_s=pytest.approx(1.5),  # 4 s from the end of the answer to that of the next question's 2.5 s of speech
        prompt_tokens=12,
        answer_tokens=25,
        first_clause_tokens=7,
        first_clause_s=1.2,
        asr_runs=1.0,
        held=1.0,
        draft_after_ms=pytest.approx(80.0),
        endpoint_ms=pytest.approx(200.0),
        output_ms=5.0,
        spread=0.2,
    )


def test_each_turn_by_itself_asks_for_its_own() -> None:
    short, long = profiles([*turn(1, 10.0), *turn(2, 18.5, speech_ms=3000.0, tokens=30), *turn(3, 30.0)[:-1]])
    assert (short.speech_s, short.answer_tokens, long.speech_s, long.answer_tokens) == (2.0, 20, 3.0, 30)
    assert 0 < short.spread == long.spread < 0.2  # the length is known, how long the same work takes varies a little


def test_without_a_finished_turn_it_is_the_usual_one() -> None:
    assert profile(turn(1, 10.0)[:-1]) == TurnProfile()


def test_only_what_is_read_is_gathered() -> None:
    async def come() -> AsyncIterator[events.Event]:
        yield events.Level(at=1.0, input_dbfs=-30.0, speech=0.5)
        for event in turn(1, 10.0):
            yield event

    assert asyncio.run(gather(come())) == turn(1, 10.0)
