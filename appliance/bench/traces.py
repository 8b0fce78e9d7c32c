"""What the engines say about every pause of the end-of-turn corpus, asked once and kept.

Owns the cache of spoken lines and of traces: speech probabilities a block, the smart-turn score as the silence
grows, the draft transcript of each pause and the language model's opinion of it. Policies are then tried on traces
in seconds. It knows engines only as ports, and no policy but the gate that finds the pauses.
"""

import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from appliance.audio.resample import resample
from appliance.bench.corpus import SEED, Line, Speak, Turn, human, plan, speak_line
from appliance.engines.ports import (
    BLOCK,
    RATE,
    Audio,
    CancelToken,
    EndOfTurn,
    LanguageModel,
    Priority,
    Synthesizer,
    Transcriber,
    Vad,
    Word,
)
from appliance.errors import ConfigError
from appliance.turns.gate import Gate, GateSettings, Pause, Resume, SpeechStart, last_voiced

RECIPE = 6  # raise it when the same seed gives other turns or other traces
LOOKS = (1, 6, 9, 13, 18, 25)  # blocks of silence after which smart-turn is asked: 32 ms to 0.8 s
DRAFT_LEAST_MS = 250.0  # no draft of a pause that is over before one could be ready


@dataclass(slots=True)
class PauseTrace:
    """One silence by the gate. Positions are samples; `until` is None for the turn's last one."""

    last: int
    voiced: int  # `last` refined by energy, as the conversation does
    until: int | None = None
    looks: dict[int, float] = field(default_factory=dict)  # blocks of silence -> our score, see smart_turn.seconds
    stock: dict[int, float] = field(default_factory=dict)  # the same from the model as it comes
    draft: str | None = None
    llm: float | None = None

    @property
    def ms(self) -> float:
        """How long it lasted by the gate's count; infinite for the last one."""
        return float("inf") if self.until is None else (self.until - self.last) * 1000 / RATE


@dataclass(slots=True)
class Trace:
    """One turn of the corpus as the engines saw it. `end`: one past its last sample of speech, the truth."""

    id: str
    kind: str
    human: bool
    half: str
    language: str
    asked: bool
    end: int
    first: int  # first voiced sample, -1 when the gate never opened
    pauses: list[PauseTrace]
    placed: int = 0  # pauses that the recipe put into the turn

    def voiced_ms(self, pause: PauseTrace) -> float:
        """How much was spoken before `pause`, earlier pauses not counted."""
        earlier = sum(p.until - p.last for p in self.pauses if p.until is not None and p.last < pause.last)
        return (pause.last - self.first - earlier) * 1000 / RATE

    def is_end(self, pause: PauseTrace) -> bool:
        """Whether this silence is the true end: nothing is said after it."""
        return pause.until is None or pause.last >= self.end - RATE // 20


@dataclass(frozen=True, slots=True)
class Ears:
    """The engines that are asked. Without a transcriber or a language model those inputs stay away.

    `stock` is the end-of-turn model as it comes, `end_of_turn` the same as the appliance uses it.
    """

    vad: Vad
    end_of_turn: EndOfTurn
    stock: EndOfTurn
    transcriber: Transcriber | None = None
    llm: LanguageModel | None = None


class Cache:
    """A folder of small files; everything in it can be made again. Traces are kept apart by `models`."""

    def __init__(self, models: str, folder: Path | None = None) -> None:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self.folder = folder or base / "appliance" / f"endpoint-{RECIPE}-{SEED}"
        self._traces = f"trace-{models}"

    def trace(self, name: str) -> Trace | None:
        path = self._path(self._traces, name, "json")
        if not path.is_file():
            return None
        return _parsed(json.loads(path.read_text(encoding="utf-8")))

    def traces(self) -> list[Trace]:
        """All that are kept, by name."""
        found = [
            _parsed(json.loads(p.read_text(encoding="utf-8"))) for p in (self.folder / self._traces).glob("*.json")
        ]
        return sorted(found, key=lambda trace: trace.id)

    def keep(self, trace: Trace) -> None:
        self._write(self._path(self._traces, trace.id, "json"), json.dumps(asdict(trace)).encode())

    def speech(self, key: str) -> tuple[Audio, tuple[Word, ...]] | None:
        path = self._path("speech", key, "npz")
        if not path.is_file():
            return None
        with np.load(path) as data:
            words = tuple(Word(t, s, e) for t, s, e in json.loads(str(data["words"])))
            return data["audio"].astype(np.float32) / 32767, words

    def keep_speech(self, key: str, audio: Audio, words: tuple[Word, ...]) -> None:
        path = self._path("speech", key, "npz")
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".tmp.npz")
        np.savez(
            temporary,
            audio=np.round(np.clip(audio, -1, 1) * 32767).astype(np.int16),
            words=json.dumps([(w.text, w.start, w.end) for w in words]),
        )
        temporary.replace(path)

    def _path(self, kind: str, key: str, ending: str) -> Path:
        return self.folder / kind / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.{ending}"

    @staticmethod
    def _write(path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".tmp")
        temporary.write_bytes(data)
        temporary.replace(path)


class Studio:
    """Speaks lines with real voices, each text once. `voice` loads a speaker when it is first needed."""

    def __init__(self, cache: Cache, voice: Callable[[str], Synthesizer]) -> None:
        self._cache = cache
        self._load = voice
        self._voices: dict[str, Synthesizer] = {}

    def speak(self, speaker: str, text: str) -> tuple[Audio, tuple[Word, ...]]:
        key = f"{speaker}:{text}"
        kept = self._cache.speech(key)
        if kept is None:
            if speaker not in self._voices:
                self._voices[speaker] = self._load(speaker)
            audio, words = asyncio.run(_say(self._voices[speaker], text))
            self._cache.keep_speech(key, audio, words)
            kept = self._cache.speech(key)
            assert kept is not None
        return kept


def turns(root: Callable[[str], Path], speak: Speak) -> Iterator[tuple[str, Callable[[], Turn]]]:
    """Every turn's name and how to make it, human ones first."""
    for turn in human(root):
        yield turn.id, lambda turn=turn: turn  # type: ignore[misc]
    for line in plan():
        yield line.id, _later(line, speak)


def _later(line: Line, speak: Speak) -> Callable[[], Turn]:
    return lambda: speak_line(line, speak)


async def listen(turn: Turn, ears: Ears) -> Trace:
    """Ask the engines about every pause of `turn`."""
    probabilities = await _probabilities(turn, ears.vad)
    trace, take_from = _find_pauses(turn, probabilities)
    chat = await ears.llm.open(turn.id) if ears.llm else None
    for pause in trace.pauses:
        for blocks in LOOKS:
            if blocks * BLOCK * 1000 / RATE < pause.ms:
                heard = turn.audio[take_from : pause.last + blocks * BLOCK][-8 * RATE :]
                pause.looks[blocks] = round(await ears.end_of_turn.score(heard, CancelToken()), 4)
                pause.stock[blocks] = round(await ears.stock.score(heard, CancelToken()), 4)
        if ears.transcriber is not None and pause.ms >= DRAFT_LEAST_MS:
            pause.draft = await _draft(turn, take_from, pause, ears.transcriber)
            if chat is not None and pause.draft:
                opinion = await chat.anticipate(pause.draft)
                pause.llm = None if opinion is None else round(opinion, 6)
    if chat is not None:
        await chat.close()
    return trace


async def take_from(turn: Turn, vad: Vad) -> int:
    """The sample from which on `turn` is transcribed."""
    return _find_pauses(turn, await _probabilities(turn, vad))[1]


async def _probabilities(turn: Turn, vad: Vad) -> list[float]:
    blocks = [turn.audio[s : s + BLOCK] for s in range(0, len(turn.audio) - BLOCK + 1, BLOCK)]
    found = [await vad.probability(turn.id, block) for block in blocks]
    vad.forget(turn.id)
    return found


def _find_pauses(turn: Turn, probabilities: list[float]) -> tuple[Trace, int]:
    """The trace with its pauses still without opinions, and from where the turn's audio is taken."""
    gate = Gate(GateSettings())
    pauses: list[PauseTrace] = []
    first, take_from = -1, 0
    for i, probability in enumerate(probabilities):
        for event in gate.feed(probability, i * BLOCK):
            match event:
                case SpeechStart():
                    first, take_from = event.first_sample, event.take_from
                case Pause():
                    pauses.append(PauseTrace(event.last_sample, refined(turn.audio, event.last_sample)))
                case Resume():
                    pauses[-1].until = event.first_sample
    trace = Trace(turn.id, turn.kind, turn.human, turn.half, turn.language, turn.asked, turn.end, first, pauses,
                  len(turn.pauses))  # fmt: skip
    return trace, take_from


def refined(audio: Audio, last: int) -> int:
    """One past the last sample that sounds like speech, within the half second before `last`."""
    begin = max(0, last - RATE // 2)
    found = last_voiced(audio[begin:last])
    return begin + found if found else last


async def _draft(turn: Turn, take_from: int, pause: PauseTrace, transcriber: Transcriber) -> str | None:
    """The words up to `pause`; None where the recogniser does not know the language."""
    audio, cancel = turn.audio[take_from : pause.last + 3 * BLOCK], CancelToken()
    try:
        found = await transcriber.transcribe(audio, priority=Priority.DRAFT, cancel=cancel, language=turn.language)
    except ConfigError:
        return None
    return found.text


async def _say(voice: Synthesizer, text: str) -> tuple[Audio, tuple[Word, ...]]:
    pieces: list[Audio] = []
    words: list[Word] = []
    async for piece in voice.synthesize(text, priority=0, deadline=0.0, cancel=CancelToken()):
        pieces.append(piece.audio)
        words.extend(piece.words)
    return resample(np.concatenate(pieces), voice.sample_rate, RATE), tuple(words)


def _parsed(data: dict[str, Any]) -> Trace:
    def scores(kept: dict[str, float]) -> dict[int, float]:
        return {int(blocks): score for blocks, score in kept.items()}

    pauses = [PauseTrace(**{**p, "looks": scores(p["looks"]), "stock": scores(p["stock"])}) for p in data.pop("pauses")]
    return Trace(**data, pauses=pauses)
