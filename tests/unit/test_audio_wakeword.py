"""The wake words that come with the detector, said by a voice that has never met them."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from appliance.audio.resample import resample
from appliance.audio.wakeword import WORDS, WakeWord

pytestmark = pytest.mark.models


def test_each_word_is_heard_when_it_is_said_and_not_otherwise(models_root: Path) -> None:
    piper = pytest.importorskip("piper")
    voice = piper.PiperVoice.load(str(models_root / "piper-en_US-joe-medium/en_US-joe-medium.onnx"))
    rng = np.random.default_rng(0)

    def said(text: str) -> np.ndarray:
        pieces = list(voice.synthesize(text))
        speech = resample(np.concatenate([p.audio_float_array for p in pieces]), pieces[0].sample_rate, 16_000)
        sound = np.concatenate((np.zeros(16_000), speech, np.zeros(8_000)))
        return (sound + rng.normal(0, 5e-4, len(sound))).astype(np.float32)

    async def hits(word: WakeWord, sound: np.ndarray) -> list[float]:
        found = []
        for at in range(0, len(sound) - 511, 512):
            if await word.heard(sound[at : at + 512]):
                found.append(at / 16_000)
        word.reset()
        return found

    async def scene() -> None:
        other = said("What is the weather like in Jersey today, and is it okay to go out?")
        for name in WORDS:
            word = WakeWord(name)
            call = said(name.replace("_", " ").title() + ".")
            found = await hits(word, call)
            assert found, name
            assert 1.2 < found[0] < (len(call) - 8_000) / 16_000 + 0.3
            assert not await hits(word, other), name
            word.close()

    asyncio.run(scene())
