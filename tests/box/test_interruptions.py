"""Talking over the answer on the rig: how soon it is silent, what is kept of it, and what does not disturb it.

APPLIANCE_REPEAT sets how often each is tried; without it those on the rig are left out, for they want a quiet
machine. The figures are printed with `-s`.
"""

import asyncio
import os
import random
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from house import CALM, COUNTER, Audio, House, answers, house, question, stretches, until, words
from rig import RATE, Recording, Rig

from appliance.app import Appliance
from appliance.audio.resample import resample
from appliance.audio.sink import FileSink
from appliance.audio.source import FileSource
from appliance.config import load
from appliance.demo import questions
from appliance.engines.piper import Piper
from appliance.engines.ports import CancelToken, Priority
from appliance.engines.whisper import Whisper
from appliance.engines.worker import Worker
from appliance.events import PlaybackStarted, SessionClosed, TurnFinished
from appliance.models.shelf import Shelf

pytestmark = [
    pytest.mark.box,
    pytest.mark.models,
    pytest.mark.timeout(300 + 60 * int(os.environ.get("APPLIANCE_REPEAT", "0"))),
]

REPEAT = int(os.environ.get("APPLIANCE_REPEAT", "3"))
SKY, HAMLET, WEEK = 3, 0, 2
# Answers long enough to be interrupted anywhere; what they say does not matter. The small model's become short after
# some turns, so that sessions are short too.
LONG = (
    "[visits]\nidle_s = 1.5\n"
    '[llm]\nsystem_prompt = "You are a storyteller. Answer with a long story of many sentences."\n'
    "[talk.answer]\nmax_tokens = 48\ntemperature = 0.9\n"
)


@pytest.fixture(scope="module")
def teller(rig: Rig, state: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    if "APPLIANCE_REPEAT" not in os.environ:
        pytest.skip("a measurement for a quiet machine: set APPLIANCE_REPEAT")
    with house(rig, tmp_path_factory.mktemp("teller"), state, CALM + LONG + COUNTER) as the:
        yield the


def new_session(teller: House) -> None:
    """Cut what is being said and wait until the visit is over."""
    teller.do("interrupt")
    until(lambda: sum("opened" in x for x in teller.lines) == sum("closed" in x for x in teller.lines), 30, teller.why)


def ask_and_wait_for_sound(rig: Rig, heard: Recording, number: int) -> float:
    """Ask; the second of the recording at which the answer was first seen to sound."""
    rig.say(question(number), RATE).wait()
    return wait_for_sound(heard, heard.seconds)


def wait_for_sound(heard: Recording, since: float, why: Callable[[], str] = lambda: "") -> float:
    begin = int(since * RATE)
    until(lambda: np.any(np.abs(heard.so_far()[begin:, 1]) > 0.01), 30, why)
    return heard.seconds


def wait_for_silence(heard: Recording, seconds: float = 1.0) -> None:
    count = int(seconds * RATE)
    until(lambda: not np.any(np.abs(heard.so_far()[-count:, 1]) > 0.003), 60)


def test_interrupted_it_is_soon_silent_keeps_what_was_heard_and_answers_the_interruption(
    rig: Rig, teller: House
) -> None:
    chance = random.Random(5)
    told: list[tuple[float, float, dict[str, Any]]] = []  # from when to when it was said, and the turn it ended
    with rig.hear_both() as heard:
        ask_and_wait_for_sound(rig, heard, SKY)
        for n in range(REPEAT):
            if n % 4 == 3:
                new_session(teller)
                ask_and_wait_for_sound(rig, heard, SKY)
            rig.passes(chance.uniform(0.05, 0.9))
            count, at = len(teller.turns()), heard.seconds
            rig.say(question((SKY, HAMLET)[n % 2]), RATE).wait()
            said = heard.seconds
            wait_for_sound(heard, said)
            told.append((at, said, teller.turn(count + 1)))
        new_session(teller)
    both = heard.audio
    sounds = stretches(both[:, 1], gap_s=0.25)
    over, turns = [], []
    for at, said, turn in told:
        [(begin, end)] = stretches(both[int(at * RATE) : int(said * RATE), 0], gap_s=0.9, frames_db=30.0)
        if any(a < at + begin < b - 0.02 for a, b in sounds):
            over.append((at + begin, at + end))
            turns.append(turn)
    to_silence = [next(b - begin for a, b in sounds if a < begin < b) * 1000 for begin, _ in over]
    stale = 0.0  # a second after the cut, until the interruption ends
    for begin, end in over:
        stale += sum(max(0.0, min(b, end) - max(a, begin + 1.0)) for a, b in sounds)
    errors = asyncio.run(words_apart(both[:, 1], over, sounds, turns))
    p50, p95 = np.percentile(to_silence, (50, 95))
    print(f"to silence ms: p50 {p50:.0f}, p95 {p95:.0f}, most {max(to_silence):.0f}, n {len(to_silence)}")
    print(f"sounds during the interruption: {stale * 1000:.0f} ms; words apart: {errors}")
    assert len(over) >= REPEAT / 2  # the others found the answer at its end
    assert all(turn["interrupted"] or turn["spoken"] == turn["reply"] for turn in turns)  # or just then at its end
    assert p95 < 200
    assert max(to_silence) < 500
    assert stale == 0
    assert np.mean(np.abs(errors) <= 1) >= 0.9


async def words_apart(
    loudspeaker: Audio,
    over: list[tuple[float, float]],
    sounds: list[tuple[float, float]],
    turns: list[dict[str, Any]],
) -> list[int]:
    """Each interrupted answer as whisper hears it, against the store: by how many words the latter goes further.

    Stories of a small model have words in them that nobody knows, and whisper writes others that sound alike: where
    the recording ends is the end of that part of the whole reply which differs least from its transcript, by letter.
    """
    worker = Worker("asr")
    ears = await asyncio.to_thread(Whisper, Shelf().folder("whisper-base"), load(tier="starter").asr, worker)
    out = []
    try:
        for (begin, _), turn in zip(over, turns, strict=False):
            before = max((end for _, end in over if end < begin), default=0.0)
            mine = [(a, b) for a, b in sounds if before <= a < begin]
            cut = loudspeaker[int(max(0.0, mine[0][0] - 0.3) * RATE) : int((mine[-1][1] + 0.3) * RATE)]
            told = await ears.transcribe(resample(cut, RATE, 16_000), priority=Priority.FINAL, cancel=CancelToken())
            whole = words(turn["reply"])
            apart = distances("".join(words(told.text)), "".join(whole))
            reached = min(range(len(whole) + 1), key=lambda k: apart[len("".join(whole[:k]))])
            out.append(len(words(turn["spoken"])) - reached)
            if abs(out[-1]) > 1:
                print(f"stored {turn['spoken']!r}, recorded {told.text!r}")
    finally:
        await asyncio.to_thread(worker.stop)
    return out


def distances(said: str, whole: str) -> list[int]:
    """Levenshtein distance of `said` to each beginning of `whole`, by the latter's length."""
    row = list(range(len(whole) + 1))
    for n, letter in enumerate(said, 1):
        above, row = row, [n]
        for k, other in enumerate(whole):
            row.append(min(above[k] + (letter != other), above[k + 1] + 1, row[k] + 1))
    return row


def test_a_cough_and_an_mm_hm_leave_the_answer_whole(rig: Rig, teller: House) -> None:
    rng = np.random.default_rng(2)
    fade = np.hanning(int(0.25 * RATE))
    cough = (0.3 * rng.standard_normal(len(fade)) * fade).astype(np.float32)
    hum = asyncio.run(spoken("Mm-hmm."))
    whole = 0
    for _ in range(REPEAT):
        new_session(teller)
        known = len(teller.turns())
        with rig.hear_both() as heard:
            ask_and_wait_for_sound(rig, heard, SKY)
            for noise in (cough, hum):
                rig.passes(0.6)
                rig.say(noise, RATE).wait()
                rig.passes(1.5)
            wait_for_silence(heard, 2.5)
        turns = teller.turns()[known:]
        whole += [(t["spoken"] == t["reply"], t["interrupted"]) for t in turns] == [(True, 0)]
    print(f"with a cough and an mm-hm in it, {whole} of {REPEAT} answers stayed whole")
    assert whole == REPEAT


async def spoken(text: str) -> Audio:
    """`text` in the answers' voice, at the rig's rate."""
    worker = Worker("tts")
    path = Shelf().path(load(tier="tiny").models.tts)
    voice = await asyncio.to_thread(Piper, path, load(tier="tiny").piper, worker)
    speech = voice.synthesize(text, priority=Priority.FINAL, deadline=0.0, cancel=CancelToken())
    pieces = [piece async for piece in speech]
    await asyncio.to_thread(worker.stop)
    return resample(np.concatenate([p.audio for p in pieces]), pieces[0].sample_rate, RATE)


def test_it_neither_interrupts_nor_answers_itself_and_still_hears_others(rig: Rig, teller: House) -> None:
    known = len(teller.turns())
    since = len(teller.lines)
    with rig.hear_both() as heard, rig.echo(-10.0, 80):
        rig.passes(0.5)
        # Until now there was no echo: the first answer tells the canceller, and does not count.
        ask_and_wait_for_sound(rig, heard, WEEK)
        wait_for_silence(heard, 2.5)
        known = len(teller.turns())
        for n in range(REPEAT):
            ask_and_wait_for_sound(rig, heard, SKY if n % 2 else WEEK)
            wait_for_silence(heard, 2.5)
            new_session(teller)
        alone = teller.turns()[known:]
        tried = got = 0
        chance = random.Random(6)
        while tried < max(1, REPEAT // 2):
            count = len(teller.turns())
            ask_and_wait_for_sound(rig, heard, SKY)
            rig.passes(chance.uniform(0.3, 1.0))
            sounding = len(teller.turns()) == count  # or the answer was a short one
            rig.say(question(HAMLET), RATE).wait()
            cut = teller.turn(count + 1)
            tried += sounding
            got += sounding and bool(cut["interrupted"])
            wait_for_silence(heard, 2.5)
            new_session(teller)
    print("dropped by itself:", sum("dropped" in line for line in teller.lines[since:]))
    print(f"{len(alone)} answers over their echo; {got} of {tried} interruptions heard")
    assert len(alone) == REPEAT, [turn["heard"] for turn in alone]
    assert not any(turn["interrupted"] for turn in alone)
    assert got >= 0.9 * tried


def test_interruptions_in_a_row_leave_no_task_and_no_thread_behind(bounded: Callable[..., None]) -> None:
    async def scene() -> None:
        async with Appliance(load(tier="tiny")) as box:
            tasks, threads = 0, 0
            source = FileSource([], box.clock, pace=True)
            conversation = await box.open(FileSink(box.voice_rate, box.clock))
            listening = box.bus.subscribe(limit=4000, durable=True)
            talk = asyncio.create_task(conversation.run(source))
            finished = 0

            async def heard(kind: type) -> None:
                nonlocal finished
                async for event in listening:
                    finished += isinstance(event, TurnFinished)
                    if isinstance(event, kind):
                        return

            source.say(questions()[HAMLET].open(), after_ms=300)
            for n in range(2 * REPEAT):
                await asyncio.wait_for(heard(PlaybackStarted), 30)
                if n == 1:  # everything that is made once has been made
                    tasks, threads = len(asyncio.all_tasks()), threading.active_count()
                source.say(questions()[(HAMLET, WEEK)[n % 2]].open(), after_ms=30)
            await asyncio.wait_for(heard(PlaybackStarted), 30)
            assert len(asyncio.all_tasks()) <= tasks + 3
            assert threading.active_count() <= threads
            source.end()
            await talk
            listening.close()
            async for event in listening:
                finished += isinstance(event, TurnFinished)
                assert not isinstance(event, SessionClosed) or event.reason == "end of input"
            assert finished >= REPEAT + 1
            async with asyncio.timeout(10):
                while len(left := asyncio.all_tasks()) >= tasks:
                    await asyncio.wait(left - {asyncio.current_task()}, return_when=asyncio.FIRST_COMPLETED)

    bounded(scene(), 60.0 + 12.0 * REPEAT)


@pytest.fixture
def bounded(run: Callable[..., None]) -> Callable[..., None]:
    return run


def test_the_measure_itself() -> None:
    """What the figures rest on: edges of a tone at both ends are found to 10 ms, and letters are compared."""
    assert distances("abd", "abcdef") == [3, 2, 1, 1, 1, 2, 3]
    both = np.zeros((4 * RATE, 2), dtype=np.float32)
    wave = 0.2 * np.sin(2 * np.pi * 300 * np.arange(RATE) / RATE).astype(np.float32)
    both[RATE // 2 : RATE // 2 + RATE, 0] = wave
    both[2 * RATE : 3 * RATE, 1] = wave
    (answer,) = answers(both)
    assert answer.ms == pytest.approx(500, abs=10)
    assert all(a < b for a, b in pairwise((answer.asked_until, answer.heard_from, answer.heard_until)))
