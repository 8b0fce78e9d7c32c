"""The gate and the end-of-turn policy on real silero and smart-turn, with a real voice."""

import asyncio

import numpy as np
import pytest

from appliance.audio.resample import resample
from appliance.bench.quiet import commands, quiet
from appliance.engines.piper import Piper, PiperSettings
from appliance.engines.ports import BLOCK, RATE, Audio, CancelToken, Word
from appliance.engines.silero import SileroVad
from appliance.engines.smart_turn import SmartTurn
from appliance.engines.worker import Worker
from appliance.models.shelf import Shelf
from appliance.turns.endpoint import Endpoint, EndpointSettings, Look
from appliance.turns.gate import Gate, GateEvent, GateSettings, Pause, SpeechStart, last_voiced

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def worker():  # type: ignore[no-untyped-def]
    worker = Worker("test")
    yield worker
    worker.stop()


@pytest.fixture(scope="module")
def vad(worker: Worker) -> SileroVad:
    return SileroVad(Shelf().path("silero-vad"), worker)


@pytest.fixture(scope="module")
def voice(worker: Worker) -> Piper:
    """Without chance: each run hears the same."""
    return Piper(Shelf().path("piper-en_US-joe-medium"), PiperSettings(noise_scale=0.0, noise_w=0.0), worker)


def said(voice: Piper, text: str) -> Audio:
    async def say() -> Audio:
        pieces = [p.audio async for p in voice.synthesize(text, priority=0, deadline=0.0, cancel=CancelToken())]
        return np.concatenate(pieces)

    return resample(asyncio.run(say()), voice.sample_rate, RATE)


def gated(vad: SileroVad, audio: Audio) -> list[GateEvent]:
    async def run() -> list[GateEvent]:
        gate, events = Gate(GateSettings()), []
        for start in range(0, len(audio) - BLOCK + 1, BLOCK):
            events += gate.feed(await vad.probability("t", audio[start : start + BLOCK]), start)
        vad.forget("t")
        return events

    return asyncio.run(run())


def test_noise_and_music_open_no_gate(vad: SileroVad) -> None:
    for name, audio in quiet(4.0):
        assert gated(vad, audio) == [], name


def test_short_commands_are_heard_as_the_first_sound(vad: SileroVad, voice: Piper) -> None:
    def speak(speaker: str, text: str) -> tuple[Audio, tuple[Word, ...]]:
        return said(voice, text), ()

    for text, audio in commands(speak):
        events = gated(vad, audio)
        assert events, text
        assert isinstance(events[0], SpeechStart), text
        assert events[0].take_from == 0, text


def test_a_pause_is_noticed_early_and_its_last_sample_is_right(vad: SileroVad, voice: Piper) -> None:
    speech = said(voice, "What is the capital of Australia?")
    end = last_voiced(speech)
    audio = np.concatenate((np.zeros(RATE // 2, np.float32), speech[:end], np.zeros(RATE, np.float32)))
    pauses = [e for e in gated(vad, audio) if isinstance(e, Pause)]
    last = pauses[-1].last_sample
    truth = RATE // 2 + end
    assert -RATE // 20 <= last - truth <= RATE // 8
    begin = last - RATE // 2
    assert abs(begin + last_voiced(audio[begin:last]) - truth) <= RATE // 50


def test_a_complete_question_ends_sooner_than_a_broken_off_one(worker: Worker, voice: Piper) -> None:
    ear = SmartTurn(Shelf().path("smart-turn-v3.2"), worker)
    endpoint = Endpoint(EndpointSettings())

    def wait_ms(text: str) -> float:
        speech = said(voice, text)
        audio = np.concatenate((speech[: last_voiced(speech)], np.zeros(RATE // 5, np.float32)))
        score = asyncio.run(ear.score(audio, CancelToken()))
        return endpoint.decide(Look(200.0, score)).wait_ms

    assert wait_ms("What is the capital of France?") < wait_ms("I would like to order, um,")
