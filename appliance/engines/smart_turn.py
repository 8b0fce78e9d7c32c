"""Smart-turn v3 on onnxruntime: how complete does a turn sound, from its last seconds.

Owns the ONNX session and the input's exact shape: audio right-aligned in 8 s, zeros in front, scaled to zero
mean and unit variance, whisper log-mel of 80 bands. The model takes all 8 s; of a turn, the last 4 s tell nearly as
much for half the work, so it is cut to as many frames as are asked for, with the positions that belong to them.
Knows nothing of silence lengths or words.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from appliance.engines.mel import HOP, Features, log_mel, mel_power
from appliance.engines.native import checked, onnx_session, require_file, require_io
from appliance.engines.onnx_cut import Graph
from appliance.engines.ports import RATE, Audio, CancelToken, Priority
from appliance.engines.worker import Worker
from appliance.errors import Cancelled, EngineError

SECONDS = 8
SAMPLES = SECONDS * RATE
BANDS = 80
_INPUT, _POSITIONS = "input_features", "inner.encoder.embed_positions.weight"


@dataclass(frozen=True, slots=True)
class SmartTurnSettings:
    threads: int = 1
    device: str = "cpu"
    priority: int = Priority.FINAL  # the score decides when the turn ends: the ear waits for it
    seconds: float = 4.0  # of audio that are looked at; 8: all that the model was made for


def features(audio: Audio, seconds: float = SECONDS) -> Features:
    """Model input of shape (80, 100 x seconds): the last `seconds` of the last 8 s of `audio`, padded in front."""
    window = np.zeros(SAMPLES, np.float32)
    tail = audio[-SAMPLES:]
    window[SAMPLES - len(tail) :] = tail
    mean = window.mean(dtype=np.float64)
    scale = 1.0 / np.sqrt(window.var(dtype=np.float64) + 1e-7)
    looked_at = window[SAMPLES - int(seconds * RATE) :]
    return log_mel(mel_power(((looked_at - mean) * scale).astype(np.float32), BANDS))


class SmartTurn:
    """ports.EndOfTurn."""

    def __init__(self, model: Path, worker: Worker, settings: SmartTurnSettings | None = None) -> None:
        self._settings = settings or SmartTurnSettings()
        self._worker = worker
        frames = int(min(SECONDS, max(1.0, self._settings.seconds)) * RATE / HOP) // 2 * 2  # two frames a position
        self._seconds, self._extra = float(SECONDS), {}
        cut = None
        if frames < SAMPLES // HOP and (cut := _cut(require_file(model, "smart-turn").read_bytes())) is not None:
            self._seconds = frames * HOP / RATE
            self._extra = {_POSITIONS: np.ascontiguousarray(cut[1][-frames // 2 :])}
        self._onnx = onnx_session(
            model,
            what="smart-turn",
            threads=self._settings.threads,
            device=self._settings.device,
            model=cut[0] if cut is not None else None,
        )
        require_io(self._onnx, model, "smart-turn", {_INPUT})

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
        inputs = features(samples, self._seconds)
        if cancel.cancelled:
            raise Cancelled
        (out,) = self._onnx.run(None, {_INPUT: inputs[None], **self._extra})
        return float(out[0, 0])


def _cut(model: bytes) -> tuple[bytes, Features] | None:
    """The model with its number of frames and its positions free, and the positions; None when it is built otherwise.

    The encoder's positions are added to what two convolutions make of the frames, two frames each. Beside that
    the number of positions occurs only as a size in reshapes, where -1 stands for whatever is left.
    """
    try:
        graph = Graph(model)
        positions = graph.floats(_POSITIONS)
    except (ValueError, KeyError):
        return None  # onnxruntime will say whether it is a model at all
    sizes = {name: -1 for name, value in graph.numbers().items() if value == len(positions)}
    given = {_INPUT: (1, BANDS, "frames"), _POSITIONS: ("positions", positions.shape[1])}
    return graph.part(graph.outputs, given, sizes), positions
