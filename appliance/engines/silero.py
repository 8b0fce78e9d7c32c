"""Silero VAD on onnxruntime: speech probability of 32 ms blocks, recurrent state kept a session.

Owns the ONNX session and the states. Requests that wait together run as one batch, at most one block a
session in each, so that eight live sessions cost little more than one. Knows nothing of turns.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from appliance.engines.native import checked, onnx_session, require_io
from appliance.engines.ports import BLOCK, RATE, Audio, Priority
from appliance.engines.worker import Worker
from appliance.errors import Cancelled, EngineError

CONTEXT = 64  # samples of the previous block that the model wants in front
_STATE = (2, 128)


@dataclass(slots=True)
class _Memory:
    """What the model remembers of one session."""

    lstm: NDArray[np.float32] = field(default_factory=lambda: np.zeros(_STATE, np.float32))
    context: Audio = field(default_factory=lambda: np.zeros(CONTEXT, np.float32))


@dataclass(slots=True)
class _Request:
    session: str
    block: Audio
    result: float | None = None


class SileroVad:
    """ports.Vad. `worker` may be shared with other engines; blocks run at the most urgent priority."""

    def __init__(self, model: Path, worker: Worker) -> None:
        self._worker = worker
        self._onnx = onnx_session(model, what="silero voice activity")
        require_io(self._onnx, model, "silero voice activity", {"input", "state", "sr"})
        self._rate = np.array(RATE, np.int64)
        self._lock = threading.Lock()
        self._memory: dict[str, _Memory] = {}
        self._waiting: list[_Request] = []

    async def probability(self, session: str, block: Audio) -> float:
        samples = checked(block, "silero")
        if len(samples) != BLOCK:
            raise EngineError(f"silero wants blocks of {BLOCK} samples, not {len(samples)}")
        request = _Request(session, samples)
        with self._lock:
            self._waiting.append(request)
        try:
            return await self._worker.call(lambda: self._answer(request), priority=Priority.FINAL)
        except EngineError:
            self._discard(lambda r: r is request)
            raise

    def forget(self, session: str) -> None:
        with self._lock:
            self._memory.pop(session, None)
        self._discard(lambda r: r.session == session)

    def _discard(self, unwanted: Callable[[_Request], bool]) -> None:
        with self._lock:
            self._waiting = [r for r in self._waiting if not unwanted(r)]

    def warm(self) -> None:
        """Run one block of a throw-away session. Blocks the caller."""
        self._worker.submit(lambda: self._run([_Request("", np.zeros(BLOCK, np.float32))], [_Memory()])).result()

    def close(self) -> None:
        with self._lock:
            self._memory.clear()

    def _answer(self, request: _Request) -> float:
        """On the worker: run batches until `request` has its result (usually one, or none at all)."""
        while request.result is None:
            with self._lock:
                batch: dict[str, _Request] = {}
                for waiting in self._waiting:
                    batch.setdefault(waiting.session, waiting)
                if batch.get(request.session) is None:
                    raise Cancelled  # its session was forgotten meanwhile
                chosen = list(batch.values())
                self._waiting = [r for r in self._waiting if batch[r.session] is not r]
                memories = [self._memory.setdefault(r.session, _Memory()) for r in chosen]
            self._run(chosen, memories)
        return request.result

    def _run(self, batch: list[_Request], memories: list[_Memory]) -> None:
        samples = np.stack([np.concatenate((m.context, r.block)) for r, m in zip(batch, memories, strict=True)])
        state = np.stack([m.lstm for m in memories], axis=1)
        out, new_state = self._onnx.run(None, {"input": samples, "state": state, "sr": self._rate})
        for i, (request, memory) in enumerate(zip(batch, memories, strict=True)):
            memory.lstm = new_state[:, i]
            memory.context = request.block[-CONTEXT:]
            request.result = float(out[i, 0])
