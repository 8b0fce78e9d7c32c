"""Kokoro voices: clause in, audio out, on the ONNX model directly.

Owns the ONNX session, the voice table and the symbol table that kokoro-onnx ships. The style row is chosen by
the number of tokens, as the voices were trained. Knows nothing of players; the text arrives speakable.
"""

import importlib.util
import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from appliance.engines import espeak, timing
from appliance.engines.edges import Trimmer
from appliance.engines.native import onnx_session, require_file, require_io
from appliance.engines.ports import Audio, CancelToken, Spoken
from appliance.engines.worker import Worker
from appliance.errors import Cancelled, ConfigError, MissingError, ModelFileError

RATE = 24_000
ROWS, WIDTH = 510, 256  # a voice: one style row a token count
_MOST = 500  # tokens in one run; the model's context ends at 510
_SPLIT = re.compile(r"(?<=[.!?…;:,])\s+")


@dataclass(frozen=True, slots=True)
class KokoroSettings:
    voice: str = "af_heart"
    speed: float = 1.0
    language: str = ""  # an espeak-ng voice; "" goes by the voice's first letter
    threads: int = 2
    device: str = "cpu"
    lead_ms: float = 5.0
    tail_ms: float = 180.0
    silence_dbfs: float = -50.0


_LANGUAGES = {
    "a": "en-us", "b": "en-gb-x-rp", "e": "es", "f": "fr-fr", "h": "hi", "i": "it", "j": "ja", "p": "pt-br", "z": "cmn",
}  # fmt: skip


class Kokoro:
    """ports.Synthesizer. `voices` is a folder of NAME.bin (510x1x256 float32) or one voices-v1.0.bin (npz)."""

    def __init__(self, model: Path, voices: Path, settings: KokoroSettings, worker: Worker) -> None:
        if not 0.5 <= settings.speed <= 2.0:
            raise ConfigError(f"Kokoro's speed is {settings.speed}", hint="use 0.5 to 2.0")
        self.settings = settings
        self.sample_rate = RATE
        self._worker = worker
        self._style = _style(voices, settings.voice)
        self._onnx = onnx_session(model, what="Kokoro", threads=settings.threads, device=settings.device)
        require_io(self._onnx, model, "Kokoro", {"style", "speed"})
        types = {i.name: i.type for i in self._onnx.get_inputs()}
        # Newer exports call the tokens input_ids and take a whole-number speed.
        self._tokens_name = "input_ids" if "input_ids" in types else "tokens"
        self._speed_type = np.int32 if "int32" in types["speed"] else np.float32
        self._symbols = _symbols()
        self._language = settings.language or _LANGUAGES.get(settings.voice[:1], "en-us")

    async def synthesize(
        self, text: str, *, priority: int, deadline: float, cancel: CancelToken
    ) -> AsyncIterator[Spoken]:
        stream = self._worker.stream(
            lambda: self._speak(text, cancel), priority=priority, deadline=deadline, cancel=cancel
        )
        async for spoken in stream:
            yield spoken

    def warm(self) -> None:
        """Say one word into the void. Blocks the caller."""
        self._worker.submit(lambda: list(self._speak("Ready.", CancelToken()))).result()

    def close(self) -> None:
        """Nothing is kept outside the session, which goes with this object."""

    def _speak(self, text: str, cancel: CancelToken) -> Iterator[Spoken]:
        """One piece a sentence; the model gives no durations, so words are placed by their share of phonemes."""
        runs = [run for sentence in espeak.sentences(text, self._language) for run in self._runs(sentence)]
        placed, _ = timing.place(text, [[p for p in run if p in self._symbols] for run in runs])
        said, s = 0, self.settings
        for i, run in enumerate(runs):
            if cancel.cancelled:
                raise Cancelled
            audio = self._sound([self._symbols[p] for p in run if p in self._symbols])
            trimmer = Trimmer(RATE, lead_ms=s.lead_ms, tail_ms=s.tail_ms, silence=10 ** (s.silence_dbfs / 20))
            kept = np.concatenate((trimmer.feed(audio), trimmer.finish()))
            last = i == len(runs) - 1
            if not len(kept) and not (last and said):
                continue
            count = sum(p in self._symbols for p in run)
            words = timing.timed(placed[i], [len(kept) / RATE / count] * count)
            yield Spoken(
                kept,
                RATE,
                "" if said else text,
                words=timing.shifted(words, said / RATE),
                last=last,
                estimated=bool(words),
            )
            said += len(kept)

    def _sound(self, tokens: list[int]) -> Audio:
        inputs = {
            self._tokens_name: np.array([[0, *tokens, 0]], np.int64),
            "style": self._style[min(len(tokens), ROWS) - 1],
            "speed": np.array([self.settings.speed], self._speed_type),
        }
        return np.asarray(self._onnx.run(None, inputs)[0], np.float32).reshape(-1)

    def _runs(self, phonemes: str) -> Iterator[str]:
        """Stretches of at most `_MOST` phonemes, cut after punctuation or, where there is none, anywhere."""
        held = ""
        for part in _SPLIT.split(phonemes):
            if held and len(held) + 1 + len(part) > _MOST:
                yield held
                held = ""
            held = f"{held} {part}" if held else part
            while len(held) > _MOST:
                yield held[:_MOST]
                held = held[_MOST:]
        if any(c.isalpha() for c in held):
            yield held


def _style(voices: Path, name: str) -> NDArray[np.float32]:
    """The voice's rows, shape (510, 1, 256)."""
    if voices.is_dir():
        path = require_file(voices / f"{name}.bin", f"Kokoro voice {name}")
        flat = np.fromfile(path, np.float32)
    else:
        path = require_file(voices, "Kokoro voices")
        try:
            table = np.load(path)
            flat = np.asarray(table[name], np.float32).reshape(-1)
        except (ValueError, OSError, KeyError) as error:
            raise ModelFileError(
                f"{path} holds no Kokoro voice {name}", hint="run `appliance models verify`"
            ) from error
    if flat.size != ROWS * WIDTH or not np.isfinite(flat).all():
        raise ModelFileError(f"{path} is not a Kokoro voice of 510 rows", hint="run `appliance models verify`")
    return flat.reshape(ROWS, 1, WIDTH)


def _symbols() -> dict[str, int]:
    """The model's symbol table, read from kokoro-onnx's files; importing that package would load a second espeak."""
    spec: Any = importlib.util.find_spec("kokoro_onnx")
    if spec is None or not spec.submodule_search_locations:
        raise MissingError("kokoro-onnx is not installed", hint="pip install kokoro-onnx")
    path = Path(spec.submodule_search_locations[0]) / "config.json"
    return {str(k): int(v) for k, v in json.loads(path.read_text(encoding="utf-8"))["vocab"].items()}
