"""Synthesise the demo's questions with Kokoro: `python scripts/make_demo_questions.py` (needs the pack `kokoro`).

A question with a pause is synthesised whole and cut where its pause belongs, at the quietest place between the two
halves, so that its melody stays that of one sentence. A little noise at -60 dBFS stands for a room.
"""

import asyncio
from pathlib import Path

import numpy as np
import soundfile
import soxr

from appliance.demo import Question, folder, questions
from appliance.engines.kokoro import Kokoro, KokoroSettings
from appliance.engines.ports import CancelToken, Priority
from appliance.engines.worker import Worker
from appliance.models.shelf import Shelf

LEAD_S, TAIL_S = 0.3, 0.2
# Share of the sentence that is said before its pause.
PAUSE_AT = {"04-sky.flac": 0.42, "08-water.flac": 0.40}


async def speak(question: Question, shelf: Shelf) -> tuple[np.ndarray, int]:
    worker = Worker("kokoro")
    voice = Kokoro(
        shelf.path("kokoro-v1.0-int8"),
        shelf.folder("kokoro-voices"),
        KokoroSettings(voice=question.voice),
        worker,
    )
    speech = voice.synthesize(question.text, priority=Priority.FINAL, deadline=0.0, cancel=CancelToken())
    audio = np.concatenate([piece.audio async for piece in speech])
    worker.stop()
    return audio, voice.sample_rate


def with_pause(audio: np.ndarray, rate: int, at: float, pause_ms: int) -> np.ndarray:
    """Insert the pause at the quietest 20 ms near the share `at` of the audio."""
    grain = rate // 50
    middle, reach = int(len(audio) * at), int(0.25 * rate)
    starts = range(middle - reach, middle + reach, grain // 2)
    quiet = min(starts, key=lambda s: float(np.square(audio[s : s + grain]).sum())) + grain // 2
    fade = np.linspace(1, 0, grain, dtype=np.float32)
    before, after = audio[:quiet].copy(), audio[quiet:].copy()
    before[-grain:] *= fade
    after[:grain] *= fade[::-1]
    return np.concatenate((before, np.zeros(pause_ms * rate // 1000, np.float32), after))


def in_a_room(audio: np.ndarray, rate: int, seed: int) -> np.ndarray:
    audio = np.concatenate((np.zeros(int(LEAD_S * rate)), audio, np.zeros(int(TAIL_S * rate))))
    return (audio + np.random.default_rng(seed).normal(0, 10 ** (-60 / 20), len(audio))).astype(np.float32)


async def main() -> None:
    shelf = Shelf()
    for i, question in enumerate(questions()):
        audio, rate = await speak(question, shelf)
        if question.pause_ms:
            audio = with_pause(audio, rate, PAUSE_AT[question.file], question.pause_ms)
        audio = soxr.resample(in_a_room(audio * 0.7, rate, i), rate, question.sample_rate)
        path = Path(folder()) / question.file
        soundfile.write(path, audio, question.sample_rate, subtype="PCM_16")
        print(f"{path.name}: {len(audio) / question.sample_rate:.1f} s, {path.stat().st_size} bytes")


if __name__ == "__main__":
    asyncio.run(main())
