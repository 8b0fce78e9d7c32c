"""Piper voices: clause in, audio out, through piper's own phonemizer and voice config.

Owns the ONNX session and what happens to a clause's edges. Knows nothing of players or normalised numbers:
the text arrives speakable.
"""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from appliance.engines.native import onnx_session, require_file, require_io
from appliance.engines.ports import Audio, CancelToken, Spoken
from appliance.engines.worker import Worker
from appliance.errors import Cancelled, ConfigError, ModelFileError


@dataclass(frozen=True, slots=True)
class PiperSettings:
    """Negative scales mean: as the voice's own config says."""

    speaker: int = 0
    length_scale: float = -1.0
    noise_scale: float = -1.0
    noise_w: float = -1.0
    threads: int = 2
    device: str = "cpu"
    lead_ms: float = 5.0  # kept in front of the first sound
    tail_ms: float = 120.0  # natural silence kept behind the last
    silence_dbfs: float = -46.0  # below it, relative to the clause's peak, is silence
    peak: float = 0.9


class Piper:
    """ports.Synthesizer on MODEL.onnx with MODEL.onnx.json beside it."""

    def __init__(self, model: Path, settings: PiperSettings, worker: Worker) -> None:
        self.settings = settings
        self._worker = worker
        self._voice = _voice(model, settings)
        self.sample_rate = int(self._voice.config.sample_rate)
        if not 0 <= settings.speaker < max(1, self._voice.config.num_speakers):
            raise ConfigError(
                f"voice {model.stem} has no speaker {settings.speaker}",
                hint=f"use 0 to {self._voice.config.num_speakers - 1}",
            )

    async def synthesize(
        self, text: str, *, priority: int, deadline: float, cancel: CancelToken
    ) -> AsyncIterator[Spoken]:
        stream = self._worker.stream(
            lambda: self._speak(text, cancel), priority=priority, deadline=deadline, cancel=cancel
        )
        async for spoken in stream:
            yield spoken

    def warm(self) -> None:
        """Say a few words into the void. Blocks the caller."""
        self._worker.submit(lambda: list(self._speak("All is ready.", CancelToken()))).result()

    def close(self) -> None:
        """Nothing is kept outside the session, which goes with this object."""

    def _speak(self, text: str, cancel: CancelToken) -> Iterator[Spoken]:
        from piper.config import SynthesisConfig

        s = self.settings
        config = SynthesisConfig(
            speaker_id=s.speaker,
            length_scale=s.length_scale if s.length_scale > 0 else None,
            noise_scale=s.noise_scale if s.noise_scale >= 0 else None,
            noise_w_scale=s.noise_w if s.noise_w >= 0 else None,
        )
        sentences = [p for p in self._voice.phonemize(text) if any(c.isalpha() for c in p)]
        for i, phonemes in enumerate(sentences):
            if cancel.cancelled:
                raise Cancelled
            audio = self._voice.phoneme_ids_to_audio(self._voice.phonemes_to_ids(phonemes), config)
            trimmed = self._edges(np.asarray(audio, np.float32).reshape(-1))
            yield Spoken(trimmed, self.sample_rate, text if i == 0 else "", last=i == len(sentences) - 1)

    def _edges(self, audio: Audio) -> Audio:
        """Scaled to the set peak, cut to a few ms before the first sound and a short tail after the last."""
        s = self.settings
        loudness = np.abs(audio)
        peak = float(loudness.max(initial=0.0))
        if peak < 1e-6:
            return audio[:0]
        sounding = np.flatnonzero(loudness > peak * 10 ** (s.silence_dbfs / 20))
        begin = max(0, int(sounding[0]) - int(s.lead_ms * self.sample_rate / 1000))
        end = min(len(audio), int(sounding[-1]) + 1 + int(s.tail_ms * self.sample_rate / 1000))
        return np.ascontiguousarray(audio[begin:end] * np.float32(s.peak / peak))


def _voice(model: Path, settings: PiperSettings) -> Any:
    config_path = require_file(model.with_name(model.name + ".json"), "Piper voice config")
    session = onnx_session(model, what="Piper voice", threads=settings.threads, device=settings.device)
    require_io(session, model, "Piper voice", {"input", "input_lengths", "scales"})
    from piper.config import PiperConfig
    from piper.voice import PiperVoice

    try:
        config = PiperConfig.from_dict(json.loads(config_path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError) as error:
        raise ModelFileError(
            f"{config_path} is not a Piper voice config", hint="run `appliance models verify`"
        ) from error
    return PiperVoice(session=session, config=config)
