"""Piper voices: clause in, audio out in pieces, through piper's own phonemizer and voice config.

A VITS voice is two networks: one turns phonemes into frames and durations, the other turns frames into sound and
looks only a few frames around. The model is cut between them, so that the first quarter second is ready after a
fraction of the clause's work, and the durations say where every word lies. Owns the ONNX sessions and the edges
of a clause. Knows nothing of players or numbers: the text arrives speakable.
"""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from appliance.engines import espeak, timing
from appliance.engines.edges import Trimmer
from appliance.engines.native import onnx_session, require_file, require_io
from appliance.engines.onnx_cut import Graph
from appliance.engines.ports import Audio, CancelToken, Spoken, Word
from appliance.engines.worker import Worker
from appliance.errors import Cancelled, ConfigError, ModelFileError

CONTEXT = 12  # frames of either side that the sound network sees: 11 measured, at which pieces equal the whole


@dataclass(frozen=True, slots=True)
class PiperSettings:
    """Negative scales mean: as the voice's own config says."""

    speaker: int = 0
    length_scale: float = -1.0
    noise_scale: float = -1.0
    noise_w: float = -1.0
    threads: int = 2
    device: str = "cpu"
    gain_db: float = 3.0  # one gain for all clauses: scaling each to its own peak makes short ones shout
    lead_ms: float = 5.0  # kept in front of the first sound
    tail_ms: float = 180.0  # natural silence kept behind the last
    silence_dbfs: float = -50.0  # before the gain
    first_piece_ms: float = 280.0  # 0: each sentence in one piece


class Piper:
    """ports.Synthesizer on MODEL.onnx with MODEL.onnx.json beside it."""

    def __init__(self, model: Path, settings: PiperSettings, worker: Worker) -> None:
        self.settings = settings
        self._worker = worker
        self._voice = _Voice(model, settings)
        self.sample_rate = self._voice.sample_rate
        self._first_frames = int(settings.first_piece_ms * self.sample_rate / 1000 / self._voice.hop)
        self._gain = np.float32(10 ** (settings.gain_db / 20))

    async def synthesize(
        self, text: str, *, priority: int, deadline: float, cancel: CancelToken
    ) -> AsyncIterator[Spoken]:
        stream = self._worker.stream(
            lambda: self._speak(text, cancel),
            priority=priority,
            deadline=deadline,
            cancel=cancel,
            gained=lambda spoken: len(spoken.audio) / spoken.sample_rate,
        )
        async for spoken in stream:
            yield spoken

    def warm(self) -> None:
        """Say a few words into the void. Blocks the caller."""
        self._worker.submit(lambda: list(self._speak("All is ready now.", CancelToken()))).result()

    def close(self) -> None:
        """Nothing is kept outside the sessions, which go with this object."""

    def _speak(self, text: str, cancel: CancelToken) -> Iterator[Spoken]:
        """Pieces of the clause; each sentence's first one carries that sentence's words, timed in the clause."""
        said, label = 0, text
        sentences = self._voice.phonemes(text)
        placed, estimated = timing.place(text, sentences)
        for i, phonemes in enumerate(sentences):
            s = self.settings
            trimmer = Trimmer(
                self.sample_rate, lead_ms=s.lead_ms, tail_ms=s.tail_ms, silence=10 ** (s.silence_dbfs / 20)
            )
            words: tuple[Word, ...] = ()
            for audio, durations, final in self._voice.sound(phonemes, self._first_frames, cancel):
                ready = trimmer.feed(audio)
                if final:
                    ready = np.concatenate((ready, trimmer.finish()))
                if len(durations):
                    words = timing.timed(placed[i], durations)
                last = final and i == len(sentences) - 1
                if not len(ready) and not (last and said):
                    continue
                yield Spoken(
                    np.clip(ready * self._gain, -1.0, 1.0),
                    self.sample_rate,
                    label,
                    words=timing.shifted(words, (said - trimmer.dropped) / self.sample_rate),
                    last=last,
                    estimated=estimated and bool(words),
                )
                said, label, words = said + len(ready), "", ()


class _Voice:
    """The two halves of a voice, or its whole where it cannot be cut."""

    def __init__(self, model: Path, settings: PiperSettings) -> None:
        config_path = require_file(model.with_name(model.name + ".json"), "Piper voice config")
        require_file(model, "Piper voice")
        from piper.config import PiperConfig
        from piper.voice import PiperVoice

        try:
            config = PiperConfig.from_dict(json.loads(config_path.read_text(encoding="utf-8")))
        except (ValueError, KeyError, TypeError) as error:
            raise ModelFileError(
                f"{config_path} is not a Piper voice config", hint="run `appliance models verify`"
            ) from error
        if not 0 <= settings.speaker < max(1, config.num_speakers):
            raise ConfigError(
                f"voice {model.stem} has no speaker {settings.speaker}",
                hint=f"use 0 to {max(1, config.num_speakers) - 1}",
            )
        self.sample_rate, self.hop = int(config.sample_rate), int(config.hop_length)
        self._config, self._speaker = config, settings.speaker
        self._scales = np.array(
            [
                settings.noise_scale if settings.noise_scale >= 0 else config.noise_scale,
                settings.length_scale if settings.length_scale > 0 else config.length_scale,
                settings.noise_w if settings.noise_w >= 0 else config.noise_w_scale,
            ],
            np.float32,
        )
        whole = model.read_bytes()
        frames, parts = _cut(whole)
        options: dict[str, Any] = {"what": "Piper voice", "threads": settings.threads, "device": settings.device}
        self._frames_name = frames
        self._first = onnx_session(model, model=parts[0], varied=True, **options)
        self._second = onnx_session(model, model=parts[1], varied=True, **options) if len(parts) == 2 else None
        require_io(self._first, model, "Piper voice", {"input", "input_lengths", "scales"})
        self._speaks_as = "sid" in {i.name for i in self._first.get_inputs()}
        self._second_as = self._second is not None and "sid" in {i.name for i in self._second.get_inputs()}
        self._text = PiperVoice(session=self._first, config=config)

    def phonemes(self, text: str) -> list[list[str]]:
        """Phonemes a sentence; sentences of nothing but punctuation are left out."""
        with espeak.LOCK:
            found = self._text.phonemize(text)
        return [p for p in found if any(c.isalpha() for c in p)]

    def sound(
        self, phonemes: list[str], first_frames: int, cancel: CancelToken
    ) -> Iterator[tuple[Audio, list[float], bool]]:
        """Audio in growing pieces with a flag on the last; seconds a phoneme beside the first, where known."""
        ids = self._text.phonemes_to_ids(phonemes)
        inputs = {
            "input": np.array([ids], np.int64),
            "input_lengths": np.array([len(ids)], np.int64),
            "scales": self._scales,
        }
        speaker = {"sid": np.array([self._speaker], np.int64)}
        _go_on(cancel)
        results = self._first.run(None, inputs | (speaker if self._speaks_as else {}))
        if self._second is None:
            audio = np.asarray(results[0], np.float32).reshape(-1)
            yield audio, self._even(phonemes, len(audio)), True
            return
        frames, lengths = results
        durations = self._durations(phonemes, len(ids), np.asarray(lengths).reshape(-1))
        total = frames.shape[2]
        begin, size = 0, first_frames or total
        while begin < total:
            _go_on(cancel)
            # What is left over would be a piece too short to pay for its context.
            end = total if begin + size + CONTEXT >= total else begin + size
            low, high = max(0, begin - CONTEXT), min(total, end + CONTEXT)
            given = {self._frames_name: np.ascontiguousarray(frames[:, :, low:high])}
            out = self._second.run(None, given | (speaker if self._second_as else {}))[0].reshape(-1)
            yield out[(begin - low) * self.hop : (end - low) * self.hop], durations, end == total
            begin, size, durations = end, size * 2, []

    def _durations(self, phonemes: list[str], ids: int, lengths: NDArray[np.float32]) -> list[float]:
        """Seconds a phoneme from frames an id; the ids in front of the first phoneme go to it."""
        table, pad = self._config.phoneme_id_map, len(self._config.phoneme_id_map.get("_", ()))
        counts = [len(table[p]) + pad if p in table else 0 for p in phonemes]
        lead = len(table.get("^", ())) + pad
        if not counts or lead + sum(counts) + len(table.get("$", ())) != ids or len(lengths) != ids:
            return self._even(phonemes, int(lengths.sum()) * self.hop)
        ends = np.cumsum(lengths)[lead + np.cumsum(counts) - 1] * (self.hop / self.sample_rate)
        return [float(d) for d in np.diff(ends, prepend=0.0)]

    def _even(self, phonemes: list[str], samples: int) -> list[float]:
        return [samples / self.sample_rate / len(phonemes)] * len(phonemes)


def _go_on(cancel: CancelToken) -> None:
    if cancel.cancelled:
        raise Cancelled


def _cut(model: bytes) -> tuple[str, list[bytes | None]]:
    """The tensor between the two networks and both halves; only the whole where the model is built otherwise."""
    try:
        graph = Graph(model)
    except ValueError:
        return "", [None]  # onnxruntime will say what is wrong with it
    sound = [n for n in graph.nodes if n.op == "Conv" and n.name.endswith("/dec/conv_pre/Conv")]
    rounded = [n.outputs[0] for n in graph.nodes if n.op == "Ceil"]
    if len(sound) != 1 or len(rounded) != 1 or len(graph.outputs) != 1:
        return "", [None]
    frames = sound[0].inputs[0]
    channels = graph.shape(sound[0].inputs[1])[1]
    return frames, [
        graph.part([frames, rounded[0]]),
        graph.part(graph.outputs, {frames: (1, channels, "frames")}),
    ]
