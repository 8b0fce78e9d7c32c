"""How fast this box is: a few seconds of measuring the loaded engines, and the file that remembers it.

It owns the measurements behind the speed limit and where they are kept between starts, keyed by what they depend on
(tier, models, threads, cores). The formula that uses them is `capacity.predict`.
"""

import asyncio
import dataclasses
import hashlib
import json
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import monotonic

import numpy as np

from appliance.app import Appliance
from appliance.audio.resample import Resampler
from appliance.capacity.predict import Calibration
from appliance.config import Config
from appliance.engines.ports import RATE, Audio, CancelToken, Priority, Sampling
from appliance.errors import ApplianceError
from appliance.setup.probe import cores
from appliance.store.database import default_path

# As long as an ordinary question: a recogniser with a least window is relatively slower on short ones.
_SENTENCE = "The weather tomorrow will be mild and dry."
_CLAUSE = "The weather tomorrow"  # as short as a first clause
_PROMPT = "Tell me something about the following words: " + "sun rain wind snow cloud storm river lake hill tree " * 6
_TOKENS = 8  # decode steps measured a batch size
_BATCHES = (1, 2, 4, 8)


async def calibration(box: Appliance, *, path: Path | None = None) -> Calibration:
    """The stored measurement if it fits this box and its settings, else a new one, stored."""
    stored = read(path or _default_path(), fingerprint(box.config))
    if stored is not None:
        return stored
    measured = await measure(box)
    remember(box.config, measured, path=path)
    return measured


def remember(config: Config, measured: Calibration, *, path: Path | None = None) -> None:
    """Store `measured` as the speeds of this box with these settings."""
    write(path or _default_path(), fingerprint(config), measured)


def _default_path() -> Path:
    return default_path().with_name("calibration.json")


async def measure(box: Appliance) -> Calibration:
    """Measure each engine alone. Takes about 5 s on two cores with the starter pack."""
    spoken, tts_rtf, tts_first_ms = await _voice(box)
    return Calibration(
        step_ms=await _steps(box),
        prefill_tokens_per_s=await _prefill(box),
        asr_rtf=await _recognition(box, spoken),
        tts_rtf=tts_rtf,
        tts_first_ms=tts_first_ms,
        look_ms=await _look(box, spoken),
        cores=cores(),
        asr_threads=box.config.asr.threads,
        llm_threads=0 if box.config.llm.gpu_layers else box.config.llm.threads,
        tts_threads=box.config.kokoro.threads if box.config.models.voices else box.config.piper.threads,
    )


def fingerprint(config: Config) -> str:
    """What the speeds depend on, and what a load test was judged by."""
    whole = dataclasses.asdict(config)
    parts = (*(whole[name] for name in ("models", "llm", "objectives")), config.asr.threads, cores())
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def read(path: Path, key: str) -> Calibration | None:
    """The measurement under `key`; None when there is none or the file is not ours."""
    try:
        entry = json.loads(path.read_text(encoding="utf-8")).get(key)
        if entry is None:
            return None
        return Calibration(**{**entry, "step_ms": tuple((int(b), float(t)) for b, t in entry["step_ms"])})
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None  # it is only a cache: measured again and overwritten


def write(path: Path, key: str, measured: Calibration) -> None:
    """Remember `measured`. A disk that refuses costs only the next start its few seconds."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps({**known, key: dataclasses.asdict(measured)}, indent=1), encoding="utf-8")
        temporary.replace(path)
    except OSError:
        return


async def _steps(box: Appliance) -> tuple[tuple[int, float], ...]:
    """Ms of a decode step at 1, 2, 4, 8 sequences, as far as the context has room."""
    out = []
    for batch in _BATCHES:
        if batch > box.config.llm.sessions:
            break
        chats = [await box.engines.llm.open(f"calibrate-{batch}-{i}") for i in range(batch)]
        try:
            gaps = await asyncio.gather(*(_gaps(chat.generate) for chat in chats))
        finally:
            for chat in chats:
                await chat.close()
        out.append((batch, median(gap for each in gaps for gap in each)))
    # A smaller batch is never slower: where it was, the box was busy with something else.
    return tuple((batch, min(ms for _, ms in out[i:])) for i, (batch, _) in enumerate(out))


async def _gaps(generate: Callable[..., object]) -> list[float]:
    """Ms between the pieces of one answer that runs to its token limit."""
    sampling = Sampling(max_tokens=_TOKENS, temperature=0.8, seed=1, repeat_penalty=1.0)
    instants = [piece.at async for piece in generate("Count from one to one hundred.", sampling)]  # type: ignore[attr-defined]
    return [(b - a) * 1000 for a, b in pairwise(instants)] or [0.0]


async def _prefill(box: Appliance) -> float:
    chat = await box.engines.llm.open("calibrate-prefill")
    try:
        started = monotonic()
        generation = chat.generate(_PROMPT, Sampling(max_tokens=1))
        async for _ in generation:
            break
        return generation.prompt_tokens / max(1e-3, monotonic() - started)
    finally:
        await chat.close()


async def _voice(box: Appliance) -> tuple[Audio, float, float]:
    """Audio at 16 kHz of one sentence, the voice's real-time factor, and ms to the first piece of a short clause."""

    async def say(text: str) -> tuple[Audio, int, float]:
        started, first = monotonic(), 0.0
        speech = box.engines.synthesizer.synthesize(text, priority=Priority.FINAL, deadline=0.0, cancel=CancelToken())
        pieces = []
        async for piece in speech:
            first = first or (monotonic() - started) * 1000
            pieces.append(piece)
        if not pieces:
            raise ApplianceError("the voice said nothing", "try: appliance doctor")
        return np.concatenate([piece.audio for piece in pieces]), pieces[0].sample_rate, first

    started = monotonic()
    audio, rate, _ = await say(_SENTENCE)
    took = monotonic() - started
    first = median([(await say(_CLAUSE))[2] for _ in range(3)])
    return Resampler(rate, RATE).push(audio, last=True), took / (len(audio) / rate), first


async def _look(box: Appliance, spoken: Audio) -> float:
    async def once() -> float:
        started = monotonic()
        await box.engines.end_of_turn.score(spoken, CancelToken())
        return (monotonic() - started) * 1000

    return median([await once() for _ in range(3)])


async def _recognition(box: Appliance, spoken: Audio) -> float:
    async def once() -> float:
        started = monotonic()
        await box.engines.transcriber.transcribe(spoken, priority=Priority.FINAL, cancel=CancelToken())
        return (monotonic() - started) / (len(spoken) / RATE)

    return median([await once() for _ in range(2)])
