"""Smart-turn v3 on onnxruntime: how complete does a turn sound, from its last 8 s.

Owns the ONNX session and the input's exact shape: audio right-aligned in 8 s, zeros in front, scaled to zero
mean and unit variance, whisper log-mel of 80 bands. Knows nothing of silence lengths or words.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from appliance.engines.mel import Features, log_mel, mel_power
from appliance.engines.native import checked, onnx_session, require_io
from appliance.engines.ports import RATE, Audio, CancelToken, Priority
from appliance.engines.worker import Worker
from appliance.errors import Cancelled, EngineError

SECONDS = 8
SAMPLES = SECONDS * RATE
BANDS = 80


@dataclass(frozen=True, slots=True)
class SmartTurnSettings:
    threads: int = 1
    device: str = "cpu"
    priority: int = Priority.FINAL  # the score decides when the turn ends: the ear waits for it


def features(audio: Audio) -> Features:
    """Model input of shape (80, 800) for the last 8 s of `audio`, padded in front."""
    window = np.zeros(SAMPLES, np.float32)
    tail = audio[-SAMPLES:]
    window[SAMPLES - len(tail) :] = tail
    mean = window.mean(dtype=np.float64)
    scale = 1.0 / np.sqrt(window.var(dtype=np.float64) + 1e-7)
    return log_mel(mel_power(((window - mean) * scale).astype(np.float32), BANDS))


class SmartTurn:
    """ports.EndOfTurn."""

    def __init__(self, model: Path, worker: Worker, settings: SmartTurnSettings | None = None) -> None:
        self._settings = settings or SmartTurnSettings()
        self._worker = worker
        self._onnx = onnx_session(
            model, what="smart-turn", threads=self._settings.threads, device=self._settings.device
        )
        require_io(self._onnx, model, "smart-turn", {"input_features"})

    async def score(self, audio: Audio, cancel: CancelToken) -> float:
        samples = checked(audio, "smart-turn")
        if not len(samples):
            raise EngineError("smart-turn was given no audio")
        return await self._worker.call(
            lambda: self._score(samples, cancel), priority=self._settings.priority, cancel=cancel
        )

    def warm(self) -> None:
        """Score one second of silence. Blocks the caller."""
        self._worker.submit(lambda: self._score(np.zeros(RATE, np.float32), CancelToken())).result()

    def close(self) -> None:
        """Nothing is kept outside the session, which goes with this object."""

    def _score(self, samples: Audio, cancel: CancelToken) -> float:
        inputs = features(samples)
        if cancel.cancelled:
            raise Cancelled
        (out,) = self._onnx.run(None, {"input_features": inputs[None]})
        return float(out[0, 0])
