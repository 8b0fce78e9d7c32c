"""The end-of-turn benchmark's arithmetic on traces made by hand, and the corpus's promises."""

import math

import numpy as np
import pytest

from appliance.bench import corpus
from appliance.bench.endpoint import (
    Costs,
    Point,
    curve,
    cut_at,
    delay_at,
    delays,
    inputs_of,
    point,
    policy,
    stock,
    summary,
    voice_activity,
)
from appliance.bench.quiet import short_answers
from appliance.bench.traces import Cache, PauseTrace, Trace
from appliance.engines.ports import BLOCK, RATE, Audio, Word
from appliance.turns.endpoint import Endpoint, EndpointSettings

FREE = Costs(0.0, 0.0, 0.0, 0.0, fade_ms=0.0)


def trace(name: str, *, inner: float, end: float, pause_blocks: int = 20) -> Trace:
    """Half a second of speech, a pause with score `inner`, half a second, the end with score `end`."""
    half = RATE // 2
    looks = (1, 6, 9, 13, 18, 25)
    scores = {b: inner for b in looks if b < pause_blocks}
    first = PauseTrace(half, half, half + pause_blocks * BLOCK, scores, scores)
    finish = 2 * half + pause_blocks * BLOCK
    last = PauseTrace(finish, finish, None, dict.fromkeys(looks, end), dict.fromkeys(looks, end))
    return Trace(name, "question", False, "report", "en", False, finish, 0, [first, last])


SURE = [trace("a", inner=0.01, end=0.99), trace("b", inner=0.01, end=0.99)]


def test_voice_activity_trades_cuts_for_delay() -> None:
    assert point(SURE, voice_activity(320.0)) == Point(0.0, 1.0, 320.0, 0.0)
    assert point(SURE, voice_activity(640.0)).cut == 0.0
    assert point(SURE, voice_activity(640.0)).delay_ms == 640.0


def test_stock_ends_on_a_good_score_and_else_waits_for_its_fallback() -> None:
    assert point(SURE, stock(192.0, FREE)) == Point(0.0, 0.0, 192.0, 1.0)
    doubtful = [trace("a", inner=0.01, end=0.2)]
    assert point(doubtful, stock(192.0, FREE)).delay_ms == 3000.0
    fooled = [trace("a", inner=0.9, end=0.9)]
    assert point(fooled, stock(192.0, FREE)).cut == 1.0
    assert point(SURE, stock(192.0, Costs(stock_ms=110.0))).delay_ms == 320.0


def test_the_policy_pays_for_its_engines() -> None:
    endpoint = Endpoint(EndpointSettings())
    free = point(SURE, policy(endpoint, FREE))
    slow = point(SURE, policy(endpoint, Costs(audio_ms=600.0)))
    assert free.cut == 0.0
    assert free.delay_ms < slow.delay_ms


def test_after_a_yes_no_question_the_same_turn_ends_sooner() -> None:
    endpoint, doubtful = Endpoint(EndpointSettings()), [trace("a", inner=0.01, end=0.9)]
    (usual,) = delays(doubtful, policy(endpoint, FREE))
    (short,) = delays(doubtful, policy(endpoint, FREE, yes_no=True))
    assert 0 < short < usual


def test_short_answers_are_known_to_the_sample() -> None:
    def speak(speaker: str, text: str) -> tuple[Audio, tuple[Word, ...]]:
        quiet, (tone, _) = np.zeros(RATE // 5, np.float32), _beeps(speaker, text)
        return np.concatenate((quiet, tone, quiet)), ()

    said = list(short_answers(speak))
    assert len(said) == 10
    for turn in said:
        assert turn.asked
        assert np.abs(turn.audio[turn.end - RATE // 25 : turn.end]).max() > 0.1
        assert np.abs(turn.audio[turn.end + RATE // 50 :]).max() < 0.05


def test_what_is_known_arrives_in_order_and_one_look_at_a_time() -> None:
    told = trace("a", inner=0.1, end=0.9)
    told.pauses[1].draft, told.pauses[1].llm = "What time is it?", 0.5
    steps = inputs_of(told, told.pauses[1], Costs(110.0, 110.0, draft_ms=330.0, llm_ms=120.0, fade_ms=40.0))
    assert [s.since_ms for s in steps] == sorted(s.since_ms for s in steps)
    assert (steps[0].audio_score, steps[0].text, steps[0].llm_score) == (None, None, None)
    with_text = next(s for s in steps if s.text is not None)
    assert (with_text.since_ms, with_text.llm_score) == (322.0, None)
    assert next(s for s in steps if s.llm_score is not None).since_ms == 442.0


def test_speech_that_resumes_before_the_wait_is_no_cut() -> None:
    short = [trace("a", inner=0.99, end=0.99, pause_blocks=3)]
    assert point(short, voice_activity(128.0)).cut == 0.0


def test_curves_are_read_between_their_points() -> None:
    points = [Point(1, 0.4, 200.0), Point(2, 0.2, 400.0), Point(3, 0.0, 800.0), Point(4, 0.5, 500.0)]
    assert cut_at(points, 300.0) == pytest.approx(0.3)
    assert cut_at(points, 5000.0) == 0.0
    assert math.isnan(cut_at(points, 100.0))
    assert delay_at(points, 0.05) == pytest.approx(700.0)
    assert delay_at(points[:2], 0.05) == math.inf
    assert summary(points[:2]) == {"cut_at_300": 0.3, "cut_at_600": 0.2, "delay_ms_at_5pct": None}


def test_a_longer_silence_never_cuts_more() -> None:
    cuts = [p.cut for p in curve(SURE, voice_activity, (100.0, 300.0, 600.0, 900.0))]
    assert cuts == sorted(cuts, reverse=True)


def test_the_plan_is_the_same_every_time_and_its_halves_share_no_sentence() -> None:
    lines = corpus.plan()
    assert lines == corpus.plan()
    assert lines != corpus.plan(seed=9)
    by_half = {
        half: {" ".join(x.chunks) for x in lines if x.half == half and not _filled(x)} for half in ("fit", "report")
    }
    assert by_half["fit"].isdisjoint(by_half["report"])
    assert min(len(sentences) for sentences in by_half.values()) > 50
    assert all(p == 0 or corpus.PAUSE_MS[0] <= p <= corpus.PAUSE_MS[1] for x in lines for p in x.pauses_ms)


def test_the_plan_alone_has_nearly_400_ends_and_more_than_400_pauses() -> None:
    lines = corpus.plan()
    assert len(lines) >= 390  # with about a hundred recordings of people: more than 400 ends
    assert sum(p > 0 for x in lines for p in x.pauses_ms) >= 400


@pytest.mark.parametrize("whole", [True, False])
def test_a_composed_turn_has_its_pauses_and_its_end_where_it_says(whole: bool) -> None:
    line = corpus.Line("x", "question", "joe", ("aa bb", "cc"), (500.0,), whole, 60.0, False, "fit")
    turn = corpus.speak_line(line, _beeps)
    ((begin, end),) = turn.pauses
    assert (end - begin) * 1000 / RATE == 500.0
    assert np.abs(turn.audio[begin + 160 : end - 160]).max() < 0.01
    assert np.abs(turn.audio[turn.end - 800 : turn.end]).max() > 0.05
    assert np.abs(turn.audio[turn.end + 160 :]).max() < 0.01
    assert np.array_equal(turn.audio, corpus.speak_line(line, _beeps).audio)


def test_a_kept_trace_comes_back_as_it_was(tmp_path: object) -> None:
    cache = Cache("models", tmp_path)  # type: ignore[arg-type]
    kept = trace("a/b c", inner=0.1, end=0.9)
    cache.keep(kept)
    assert cache.trace("a/b c") == kept
    assert cache.trace("other") is None
    assert Cache("others", tmp_path).traces() == []  # type: ignore[arg-type]


def _beeps(_: str, text: str) -> tuple[Audio, tuple[Word, ...]]:
    """A quarter second of tone a word, with short gaps."""
    count = sum(any(c.isalnum() for c in w) for w in text.split())
    tone = np.sin(np.arange(RATE // 4) * 0.2).astype(np.float32) * 0.2
    gap = np.zeros(RATE // 50, np.float32)
    length = (len(tone) + len(gap)) / RATE
    words = tuple(Word("w", i * length, i * length + 0.25) for i in range(count))
    return np.concatenate([part for _ in range(count) for part in (tone, gap)]), words


def _filled(line: corpus.Line) -> bool:
    """Whether a filler was put in, which makes the words differ from the sentence."""
    return any(chunk.split()[-1] in ("um", "uh", "er") for chunk in line.chunks)
