"""Whole conversations over files, through every real stage of the tiny pack."""

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from appliance.app import Appliance
from appliance.audio.files import open_audio
from appliance.audio.resample import resample
from appliance.audio.sink import FileSink
from appliance.audio.source import FileSource
from appliance.config import Config, load
from appliance.conversation.alert import Alert
from appliance.converse import Talk, hold_in
from appliance.demo import questions
from appliance.engines.piper import Piper
from appliance.engines.ports import BLOCK, RATE, CancelToken, Priority
from appliance.engines.worker import Worker
from appliance.events import (
    BargeIn,
    ClauseReady,
    EndpointLooked,
    Event,
    PlaybackStarted,
    SessionClosed,
    State,
    StateChanged,
    Transcribed,
    TurnDropped,
    TurnEnded,
    TurnFinished,
    TurnRecord,
)
from appliance.models.shelf import Shelf

pytestmark = pytest.mark.models


def tiny() -> Config:
    return load(tier="tiny")


def speech(*texts: str, gap_s: float = 0.0) -> np.ndarray:
    """The demo questions with these words, one after another, at 16 kHz."""
    by_text = {q.text: q for q in questions()}
    parts = []
    for text in texts:
        parts += [by_text[text].open().read(), np.zeros(int(gap_s * RATE), np.float32)]
    return np.concatenate(parts)


async def converse(config: Config, audio: list[np.ndarray], *, paced: bool = False) -> list[TurnRecord]:
    async with Appliance(config) as box:
        return await hold_in(box, Talk(audio, paced=paced))


async def listen_to(
    config: Config, script: "list[tuple[str, float, np.ndarray]]", *, linger_s: float = 1.0
) -> tuple[list[Event], FileSink]:
    """Speak each piece in real time, so many seconds after "then" (the last one) or "audible" (an answer began).

    Returns every event, and the sink.
    """
    async with Appliance(config) as box:
        heard: list[Event] = []
        subscription = box.bus.subscribe(limit=10_000, durable=True)
        cues = box.bus.subscribe(limit=1000)
        source = FileSource([], box.clock, pace=True)
        sink = FileSink(box.voice_rate, box.clock)
        conversation = await box.open(sink)

        async def drive() -> None:
            for cue, after_s, audio in script:
                if cue == "audible":
                    async for event in cues:
                        if isinstance(event, PlaybackStarted):
                            break
                source.say(audio, after_ms=after_s * 1000)
                await source.drained()
            idle_since = box.clock.now()
            while box.clock.now() - idle_since < linger_s:
                await box.clock.sleep_until(box.clock.now() + 0.05)
                if not conversation.idle:
                    idle_since = box.clock.now()
            source.end()

        async with asyncio.TaskGroup() as group:
            group.create_task(conversation.run(source))
            group.create_task(drive())
        subscription.close()
        heard += [event async for event in subscription]
        return heard, sink


def of(events: list[Event], kind: type) -> list:
    return [event for event in events if isinstance(event, kind)]


def test_every_question_is_heard_answered_and_recorded(run, tmp_path: Path) -> None:
    files = [q.open() for q in questions()][:3]

    async def talk() -> tuple[list[TurnRecord], Path]:
        out = tmp_path / "answers.wav"
        async with Appliance(tiny()) as box:
            box.keep(tmp_path / "store.db")
            records = await hold_in(box, Talk(files, out=out, paced=False))
            assert box.store is not None
            await box.store.flush()
            kept = await box.store.turns()
        assert [t.record.heard for t in kept] == [r.heard for r in records]
        return records, out

    records, out = run(talk())
    assert [r.turn for r in records] == [1, 2, 3]
    assert all(r.heard and r.reply and r.spoken == r.reply and not r.interrupted for r in records)
    assert all(r.ms is None for r in records)  # nothing was paced, so nothing was timed
    answers = open_audio(out).read()
    assert len(answers) > RATE  # three answers take more than a second
    assert np.isfinite(answers).all()


def test_the_five_parts_add_up_and_are_in_order(run) -> None:
    events, _ = run(listen_to(tiny(), [("then", 0.3, speech(questions()[0].text))]))
    (finished,) = of(events, TurnFinished)
    parts = finished.record.ms
    assert parts is not None
    assert min(parts.endpoint, parts.asr, parts.llm, parts.tts, parts.output) >= 0
    (ended,), (audible,) = of(events, TurnEnded), of(events, PlaybackStarted)
    assert parts.voice_to_voice == pytest.approx((audible.at - ended.last_speech_at) * 1000, abs=0.01)
    assert parts.endpoint == pytest.approx((ended.at - ended.last_speech_at) * 1000, abs=0.01)
    assert 150 <= parts.voice_to_voice < 10_000


def test_speech_that_goes_on_in_the_pause_is_one_turn(run) -> None:
    paused = next(q for q in questions() if q.pause_ms)
    events, _ = run(listen_to(tiny(), [("then", 0.3, paused.open().read())]))
    finished = of(events, TurnFinished)
    assert len(finished) == 1, [f.record.heard for f in finished]
    words = finished[0].record.heard.lower()
    assert paused.text.lower().split()[0] in words
    assert paused.text.lower().rstrip("?.").split()[-1] in words


def test_an_interruption_keeps_what_was_heard(run) -> None:
    config = tiny()
    wordy = replace(config.llm, system_prompt="You are a storyteller. Answer at length, in many long sentences.")
    answer = replace(config.talk.answer, max_tokens=80)
    config = replace(config, llm=wordy, talk=replace(config.talk, answer=answer))
    script = [("then", 0.3, speech("How do you make toast?")), ("audible", 1.2, speech("Who wrote Hamlet?"))]
    events, sink = run(listen_to(config, script))
    (record,) = [f.record for f in of(events, TurnFinished) if f.record.interrupted]
    assert record.reply.startswith(record.spoken)
    assert 0 < len(record.spoken) < len(record.reply)
    assert record.barge_in_ms is not None
    assert any(event.action == "interrupt" for event in of(events, BargeIn))
    last = of(events, TurnFinished)[-1].record
    assert "hamlet" in last.heard.lower()
    assert last.turn > record.turn
    assert sink.played() > 0


def test_a_hum_holds_the_answer_and_all_work_on_it_and_then_it_goes_on(run) -> None:
    config = tiny()
    wordy = replace(config.llm, system_prompt="You are a storyteller. Answer at length, in many long sentences.")
    answer = replace(config.talk.answer, max_tokens=80)
    config = replace(config, llm=wordy, talk=replace(config.talk, answer=answer))
    hum = run(said_by_piper(config, "Mm-hmm."))
    events, _ = run(listen_to(config, [("then", 0.3, speech("How do you make toast?")), ("audible", 0.8, hum)]))
    (record,) = [f.record for f in of(events, TurnFinished)]
    assert not record.interrupted
    assert record.spoken == record.reply
    sides = of(events, BargeIn)
    held = list(zip(sides[::2], sides[1::2], strict=True))  # on a busy machine its first sound may hold it apart
    assert held
    for ducked, resumed in held:
        assert (ducked.action, resumed.action) == ("duck", "resume")
        assert not [c for c in of(events, ClauseReady) if ducked.at < c.at < resumed.at]


def test_an_answer_that_is_held_when_the_input_ends_is_still_spoken(run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The input ends with the first sound of somebody over the answer: there is nothing left to wait for."""

    def hold(self, answering, position, tape):
        if answering is not None and answering.audible:
            answering.duck(tape.instant(position))

    monkeypatch.setattr(Alert, "weigh", hold)

    async def scene() -> list[Event]:
        async with asyncio.timeout(60):
            question = speech("Who wrote Hamlet?")
            events, _ = await listen_to(
                tiny(), [("then", 0.3, question), ("audible", 0.1, question[:BLOCK])], linger_s=0
            )
            return events

    events = run(scene())
    (record,) = [f.record for f in of(events, TurnFinished)]
    assert [b.action for b in of(events, BargeIn)] == ["duck", "resume"]
    assert record.spoken == record.reply


async def said_by_piper(config: Config, text: str) -> np.ndarray:
    worker = Worker("tts")
    voice = await asyncio.to_thread(Piper, Shelf().path(config.models.tts), config.piper, worker)
    speech = voice.synthesize(text, priority=Priority.FINAL, deadline=0.0, cancel=CancelToken())
    audio = np.concatenate([piece.audio async for piece in speech])
    await asyncio.to_thread(worker.stop)
    return resample(audio, voice.sample_rate, RATE)


def test_a_turn_begun_too_early_is_reopened_before_anything_sounds(run) -> None:
    """The person goes on right after the turn was declared over: both parts are one turn, answered once."""
    config = tiny()
    hasty = replace(config.talk.endpoint, least_ms=100.0, middle_ms=110.0, most_ms=120.0)
    config = replace(config, talk=replace(config.talk, endpoint=hasty))
    paused = next(q for q in questions() if q.pause_ms)
    events, _ = run(listen_to(config, [("then", 0.3, paused.open().read())]))
    assert len(of(events, TurnEnded)) >= 2
    last = of(events, TurnFinished)[-1].record
    assert paused.text.lower().rstrip("?.").split()[-1] in last.heard.lower()


def test_a_turn_held_for_over_stays_open_until_its_answer_can_sound(run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The voice waits for it: who goes on speaking half a second after a whole question has not been cut off."""
    from appliance.conversation.hearing import Hearing
    from appliance.engines.piper import Piper

    synthesize, resume, gone_on = Piper.synthesize, Hearing.resume, asyncio.Event()

    async def late(self, text, **rest):
        await gone_on.wait()
        async for piece in synthesize(self, text, **rest):
            yield piece

    async def resumed(self):
        if self.over_since is not None:
            gone_on.set()
        await resume(self)

    monkeypatch.setattr(Piper, "synthesize", late)
    monkeypatch.setattr(Hearing, "resume", resumed)
    first, more = questions()[1].text, questions()[2].text
    events, _ = run(listen_to(tiny(), [("then", 0.3, speech(first)), ("then", 0.0, speech(more))]))
    assert any(e.state is State.THINKING for e in of(events, StateChanged))
    assert not of(events, BargeIn)
    (ended,), (finished,) = of(events, TurnEnded), of(events, TurnFinished)
    heard = finished.record.heard.lower()
    assert first.lower().rstrip("?.").split()[-1] in heard
    assert more.lower().rstrip("?.").split()[-1] in heard
    # The record says when it was over, not when it was closed.
    assert (ended.at - ended.last_speech_at) * 1000 == pytest.approx(finished.record.ms.endpoint, abs=0.01)
    assert finished.record.ms.voice_to_voice - finished.record.ms.endpoint > 20  # the voice alone takes longer


def test_words_that_end_a_turn_end_it_when_they_come(run) -> None:
    """Not with the next block of sound, up to 32 ms later."""
    config = tiny()
    by_words = replace(config.talk.endpoint, least_ms=20.0, unopposed_ms=20.0, middle_ms=1600.0, slope=0.01)
    answer = replace(config.talk.answer, max_tokens=3)
    config = replace(config, talk=replace(config.talk, endpoint=by_words, answer=answer))
    late_ms = []
    for question in questions()[1:4]:
        events, _ = run(listen_to(config, [("then", 0.3, question.open().read())], linger_s=0.2))
        drafts = [e.at for e in of(events, Transcribed) if e.kind == "draft"]
        (ended,) = of(events, TurnEnded)
        late_ms.append((ended.at - drafts[-1]) * 1000)
    assert min(late_ms) >= 0
    assert np.median(late_ms) < 3, late_ms


def test_the_model_is_asked_what_it_thinks_of_the_end_where_it_may_not_answer_yet(run) -> None:
    config = tiny()
    never_ahead = replace(config.talk.speculation, min_done=1.0)
    slow = replace(config.talk.endpoint, least_ms=700.0, middle_ms=700.0)
    config = replace(config, talk=replace(config.talk, speculation=never_ahead, endpoint=slow))
    events, _ = run(listen_to(config, [("then", 0.3, questions()[1].open().read())], linger_s=0.2))
    (ended,), (finished,) = of(events, TurnEnded), of(events, TurnFinished)
    opinions = [e.llm_score for e in of(events, EndpointLooked) if e.at < ended.at]
    assert opinions[0] is None
    assert opinions[-1] == pytest.approx(0.9, abs=0.1)  # "What is the capital of France?"
    assert not finished.record.speculation.held
    assert finished.record.reply


@pytest.mark.parametrize("kind", ["silence", "hiss", "click"])
def test_nothing_is_answered_that_nobody_said(run, kind: str) -> None:
    rng = np.random.default_rng(7)
    audio = np.zeros(6 * RATE, np.float32)
    if kind == "hiss":
        audio = rng.normal(0, 0.02, len(audio)).astype(np.float32)
    elif kind == "click":
        audio[2 * RATE : 2 * RATE + 400] = 0.8
    assert run(converse(tiny(), [audio])) == []


def test_the_monologue_is_heard_whole(run) -> None:
    text = questions()[1].text
    audio = np.concatenate([speech(text, gap_s=0.1)] * 3)
    records = run(converse(tiny(), [audio]))
    heard = " ".join(r.heard for r in records).lower()
    last = text.lower().rstrip("?.").split()[-1]
    assert heard.count(last) == 3, heard


def test_an_engine_that_fails_does_not_end_the_conversation(run, monkeypatch: pytest.MonkeyPatch) -> None:
    from appliance.engines.piper import Piper
    from appliance.errors import EngineError

    real, calls = Piper.synthesize, iter([True, False, False, False, False, False])

    def failing(self, text, **rest):
        if next(calls, False):
            raise EngineError("the voice broke")
        return real(self, text, **rest)

    monkeypatch.setattr(Piper, "synthesize", failing)
    texts = [q.text for q in questions()[:2]]

    async def talk() -> list[Event]:
        async with Appliance(tiny()) as box:
            subscription = box.bus.subscribe(limit=10_000, durable=True)
            await hold_in(box, Talk([speech(t) for t in texts], paced=False))
            subscription.close()
            return [event async for event in subscription]

    events = run(talk())
    assert [d.reason for d in of(events, TurnDropped)] == ["engine error"]
    assert len(of(events, TurnFinished)) == 1
    assert of(events, SessionClosed)[-1].reason == "end of input"


def test_a_long_turn_is_transcribed_along_the_way(run) -> None:
    """After a pause late in a long turn only what follows is transcribed again; no word is lost at the seam."""
    config = tiny()
    patient = replace(config.talk.endpoint, least_ms=3500.0, middle_ms=3500.0, most_ms=3600.0, unopposed_ms=3600.0)
    config = replace(config, talk=replace(config.talk, endpoint=patient))
    texts = [q.text for q in questions()[:6]]
    long = np.concatenate([speech(text, gap_s=0.05) for text in texts[:4]])
    events, _ = run(listen_to(config, [("then", 0.3, long), ("then", 2.2, speech(texts[4]))]))
    finished = of(events, TurnFinished)
    drafts = [e for e in of(events, Transcribed) if e.kind != "partial"]
    assert len(finished) == 1
    assert drafts[-1].audio_ms < 0.6 * max(d.audio_ms for d in drafts)
    heard = finished[0].record.heard.lower()
    assert "hamlet" in heard
    assert "france" in heard
    assert "12" in heard or "twelve" in heard
