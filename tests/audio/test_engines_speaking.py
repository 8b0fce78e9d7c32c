"""The speaking engines on real models: Piper in pieces, Kokoro where its files are."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from appliance.engines.kokoro import Kokoro, KokoroSettings
from appliance.engines.piper import Piper, PiperSettings
from appliance.engines.ports import CancelToken, Spoken, Synthesizer
from appliance.engines.worker import Worker
from appliance.errors import Cancelled, ConfigError, ModelFileError

pytestmark = pytest.mark.models
MODELS = Path(__file__).parents[2] / "models"
JOE = MODELS / "piper-en_US-joe-medium" / "en_US-joe-medium.onnx"
STILL = PiperSettings(noise_scale=0.0, noise_w=0.0)  # the same audio each time
CLAUSE = "The capital of France is Paris, which lies on the Seine."


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = Worker("speaking")
    yield worker
    worker.stop()


@pytest.fixture(scope="module")
def piper(worker: Worker) -> Piper:
    engine = Piper(JOE, STILL, worker)
    engine.warm()
    return engine


def speak(voice: Synthesizer, text: str) -> list[Spoken]:
    async def collect() -> list[Spoken]:
        return [s async for s in voice.synthesize(text, priority=0, deadline=0, cancel=CancelToken())]

    return asyncio.run(collect())


def joined(pieces: list[Spoken]) -> np.ndarray:
    return np.concatenate([p.audio for p in pieces])


def test_a_clause_comes_in_pieces_that_are_one_clause(piper):
    pieces = speak(piper, CLAUSE)
    assert len(pieces) > 2
    assert [p.text for p in pieces] == [CLAUSE, *[""] * (len(pieces) - 1)]
    assert [p.last for p in pieces] == [*[False] * (len(pieces) - 1), True]
    audio = joined(pieces)
    assert audio.dtype == np.float32
    assert np.isfinite(audio).all()
    assert 0.2 < np.abs(audio).max() <= 1
    assert all(p.sample_rate == piper.sample_rate == 22050 for p in pieces)
    assert 2 < len(audio) / 22050 < 5


def test_pieces_equal_the_whole(piper, worker):
    whole = Piper(JOE, replace(STILL, first_piece_ms=0), worker)
    assert np.allclose(joined(speak(piper, CLAUSE)), joined(speak(whole, CLAUSE)), atol=1e-4)


def test_edges_are_trimmed(piper):
    audio = np.abs(joined(speak(piper, "It is half past three.")))
    loud = np.flatnonzero(audio > audio.max() * 0.02)
    assert loud[0] < 0.03 * 22050
    assert len(audio) - loud[-1] < 0.35 * 22050


def test_words_lie_in_order_within_the_clause(piper):
    pieces = speak(piper, "It is half past three. We should go now.")
    words = [w for p in pieces for w in p.words]
    assert [w.text for w in words] == "It is half past three. We should go now.".split()
    assert all(a.start < b.start for a, b in pairwise(words))
    assert words[0].start < 0.05
    assert words[-1].end <= len(joined(pieces)) / 22050 + 0.3


@pytest.mark.parametrize("text", ["", "   ", "...", "?!", "—"])
def test_nothing_to_say(piper, text):
    assert speak(piper, text) == []


def test_cancel_before_and_between_pieces(piper):
    async def listen(token: CancelToken, got: list[Spoken]) -> None:
        text = f"{CLAUSE} {CLAUSE} {CLAUSE}"
        async for piece in piper.synthesize(text, priority=0, deadline=0, cancel=token):
            got.append(piece)
            token.cancel()

    before, between = CancelToken(), CancelToken()
    before.cancel()
    for token, most in ((before, 0), (between, 2)):
        got: list[Spoken] = []
        with pytest.raises(Cancelled):
            asyncio.run(listen(token, got))
        assert len(got) <= most


def test_wrong_files_and_speakers_are_named(worker, tmp_path):
    with pytest.raises(ConfigError, match="no speaker 3"):
        Piper(JOE, PiperSettings(speaker=3), worker)
    with pytest.raises(ModelFileError, match="config"):
        Piper(tmp_path / "voice.onnx", PiperSettings(), worker)
    voice = tmp_path / "voice.onnx"
    voice.with_name("voice.onnx.json").write_text(JOE.with_name(JOE.name + ".json").read_text())
    voice.write_bytes(JOE.read_bytes()[:1_000_000])
    with pytest.raises(ModelFileError, match="not a usable"):
        Piper(voice, PiperSettings(), worker)


def test_kokoro_says_a_word(worker):
    model, voices = MODELS / "kokoro-v1.0-int8" / "kokoro-v1.0.int8.onnx", MODELS / "kokoro-voices"
    if not model.is_file() or not (voices / "af_heart.bin").is_file():
        pytest.skip("the Kokoro files are not here")
    voice = Kokoro(model, voices, KokoroSettings(), worker)
    (piece,) = speak(voice, "Well,")
    assert piece.sample_rate == 24000
    assert 0.2 < len(piece.audio) / 24000 < 1.5
    assert np.isfinite(piece.audio).all()
    assert [w.text for w in piece.words] == ["Well,"]
    assert piece.estimated
    assert speak(voice, "...") == []
    with pytest.raises(ModelFileError, match="nobody"):
        Kokoro(model, voices, KokoroSettings(voice="nobody"), worker)
