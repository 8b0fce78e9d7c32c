"""Whisper's decoder on onnxruntime, greedy: what CTranslate2 takes 8 ms a token for, in half.

CTranslate2 packs the weights of its 8-bit products anew for each token. Owns the two sessions, the keys and values,
and the rules by which whisper picks a token. Words that are expected (of an earlier transcript of the same audio) are
read in one step, and stand as far as they are what is picked: they save time and change nothing but rounding.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from appliance.engines.ctranslate2_file import ModelFile
from appliance.engines.native import onnx_session
from appliance.engines.ports import CancelToken
from appliance.engines.whisper_graph import memory_graph, sizes, step_graph
from appliance.errors import Cancelled

Floats = NDArray[np.float32]

_KIND = "WhisperSpec"
_HIDDEN = np.float32(-1e9)


@dataclass(frozen=True, slots=True)
class Drawn:
    """What was decoded. `ids` are without the prompt and the end token, which `logprob` counts with."""

    ids: list[int]
    logprob: float  # mean log-probability a token
    no_speech: float  # probability 0..1


class Memory:
    """Keys and values of an utterance's encoder states: for each layer and kind (1, heads, T, head)."""

    def __init__(self, arrays: list[Floats]) -> None:
        self.arrays = arrays

    def then(self, other: "Memory", start: int, stop: int) -> "Memory":
        """This one, followed by the states `start` to `stop` of `other`."""
        pairs = zip(self.arrays, other.arrays, strict=True)
        return Memory([np.concatenate((own, more[:, :, start:stop]), axis=2) for own, more in pairs])


class Decoder:
    """One whisper model's decoder. Safe from several threads at once: it keeps nothing of an utterance."""

    def __init__(self, folder: Path, *, threads: int, no_speech: int) -> None:
        """`folder` as whisper's; `no_speech`: the id of the token of that name.

        ValueError, KeyError or OSError where the weights are not ones that this can use, ModelFileError where
        onnxruntime does not know the operators.
        """
        path = folder / "model.bin"
        file = ModelFile(path)
        found = file.weights
        if file.kind != _KIND:
            raise ValueError(f"{path} is a {file.kind}, not a {_KIND}")
        self._sizes = sizes(found)
        self._embeddings = found["decoder/embeddings/weight"]
        self._positions = found["decoder/position_encodings/encodings"].astype(np.float32)
        self._no_speech = no_speech
        settings = json.loads((folder / "config.json").read_text())
        self._never = np.zeros(self._sizes.vocabulary, np.float32)
        self._never[settings["suppress_ids"]] = -np.inf
        self._never_first = self._never.copy()
        self._never_first[settings["suppress_ids_begin"]] = -np.inf
        self._memory, self._step = (
            onnx_session(path, what="whisper decoder", threads=threads, model=graph(found), varied=True)
            for graph in (memory_graph, step_graph)
        )
        file.forget()
        layers = range(self._sizes.layers)
        self._memory_names = [f"{kind}_{i}" for i in layers for kind in ("keys", "values")]
        self._own_names = [f"own_{name}" for name in self._memory_names]
        self._outputs = ["logits", *(f"new_{name}" for name in self._own_names)]

    def memory(self, states: Floats) -> Memory:
        """Of the encoder's `states` (1, T, width)."""
        return Memory(self._memory.run(self._memory_names, {"states": np.ascontiguousarray(states)}))

    def greedy(
        self,
        memory: Memory,
        prompt: Sequence[int],
        *,
        start: int,
        end: int,
        most: int,
        cancel: CancelToken,
        expected: Sequence[int] = (),
    ) -> Drawn:
        """Decode behind `prompt`, in which the start token stands at `start`, up to token `end` or `most` tokens.

        Raises Cancelled between two steps.
        """
        most = min(most, len(self._positions) - len(prompt))
        own = self._nothing()
        ahead = [token for token in expected if token < end][:most]
        logits, own = self._run([*prompt, *ahead], own, memory)
        no_speech = float(np.exp(logits[start, self._no_speech] - _log_sum(logits[start])))
        rows = logits[len(prompt) - 1 :]
        ids: list[int] = []
        sum_logprob = 0.0
        while True:
            for row in rows:
                picked, logprob = self._pick(row, first=not ids)
                sum_logprob += logprob
                if picked == end or len(ids) == most:
                    return Drawn(ids, sum_logprob / (len(ids) + 1), no_speech)
                ids.append(picked)
                if not ahead or picked != ahead.pop(0):
                    break
            ahead = []
            if cancel.cancelled:
                raise Cancelled
            known = len(prompt) + len(ids) - 1
            rows, own = self._run(ids[-1:], [kept[:, :, :known] for kept in own], memory, past=known)

    def _pick(self, logits: Floats, *, first: bool) -> tuple[int, float]:
        """The most probable token that may stand here, and its log-probability among those that may."""
        allowed = logits + (self._never_first if first else self._never)
        picked = int(allowed.argmax())
        return picked, float(allowed[picked]) - _log_sum(allowed)

    def _run(self, ids: list[int], own: list[Floats], memory: Memory, past: int = 0) -> tuple[Floats, list[Floats]]:
        """Logits (n, vocabulary) of the tokens `ids`, and the keys and values with them."""
        count = len(ids)
        tokens = self._embeddings[ids].astype(np.float32) + self._positions[past : past + count]
        mask = np.triu(np.full((count, past + count), _HIDDEN), 1 + past)
        inputs = {"tokens": tokens[None], "mask": mask}
        inputs |= dict(zip(self._memory_names, memory.arrays, strict=True))
        inputs |= dict(zip(self._own_names, own, strict=True))
        logits, *grown = self._step.run(self._outputs, inputs)
        return logits[0], grown

    def _nothing(self) -> list[Floats]:
        size = self._sizes
        return [np.zeros((1, size.heads, 0, size.head), np.float32)] * len(self._own_names)


def _log_sum(logits: Floats) -> float:
    """log sum exp."""
    most = logits.max()
    return float(most) + float(np.log(np.exp(logits - most).sum()))
