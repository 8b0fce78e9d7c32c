"""Drawing one token from one row of logits, by numpy; grammars through llama.cpp.

Order: repetition penalty over the answer's last 64 tokens, then greedy for temperature 0, else min-p (or the best 64
without it), temperature, top-p on what is left, and a draw by the turn's own seed. With a grammar the drawn token is
checked alone first; only a rejected one makes the grammar look over the whole vocabulary.
"""

import ctypes
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from appliance.engines.llama.binding import Floats, Model, library
from appliance.engines.ports import Sampling
from appliance.errors import UsageError

_LAST = 64
_BEST = 64


class Sampler:
    """One answer's draws. Raises UsageError when its schema or grammar does not compile."""

    def __init__(self, model: Model, sampling: Sampling) -> None:
        s = self._sampling = sampling
        if s.max_tokens < 1 or not (s.temperature >= 0 and 0 < s.top_p <= 1 and 0 <= s.min_p <= 1):
            raise UsageError("these sampling settings draw nothing", "see the ranges of temperature, top_p and min_p")
        if not s.repeat_penalty > 0:
            raise UsageError(f"a repeat penalty of {s.repeat_penalty} is not positive", "1 means none")
        self._random = np.random.default_rng(sampling.seed)
        self._recent: deque[int] = deque(maxlen=_LAST)
        self._grammar = _Grammar(model, sampling) if sampling.json_schema or sampling.grammar else None

    def draw(self, logits: Floats) -> int:
        """The next token. `logits` (vocabulary,) is scratch: the penalty is written into it."""
        if self._sampling.repeat_penalty != 1.0 and self._recent:
            seen = np.fromiter(set(self._recent), np.int64)
            values = logits[seen]
            penalty = self._sampling.repeat_penalty
            logits[seen] = np.where(values > 0, values / penalty, values * penalty)
        token = self._pick(logits)
        if self._grammar is not None:
            if not self._grammar.allows(token):
                token = self._pick(self._grammar.masked(logits))
            self._grammar.accept(token)
        self._recent.append(token)
        return token

    def recall(self, tokens: Sequence[int]) -> None:
        """Be as if `tokens` had been drawn; not for answers with a grammar, which has no memory of them."""
        self._recent.extend(tokens)
        if self._sampling.temperature > 0:
            self._random.random(len(tokens))

    def close(self) -> None:
        if self._grammar is not None:
            self._grammar.close()

    def _pick(self, logits: Floats) -> int:
        s = self._sampling
        best = int(logits.argmax())
        if s.temperature <= 0:
            return best
        top = float(logits[best])
        if s.min_p > 0:
            ids = np.flatnonzero(logits >= top + np.log(s.min_p))
        else:
            count = min(_BEST, logits.shape[0])
            ids = np.argpartition(logits, -count)[-count:]
        values = (logits[ids].astype(np.float64) - top) / s.temperature
        order = np.argsort(-values, kind="stable")
        weights = np.exp(values[order])
        sums = np.cumsum(weights)
        keep = int(np.searchsorted(sums, s.top_p * sums[-1])) + 1 if s.top_p < 1 else len(sums)
        keep = min(max(1, keep), len(sums))
        place = int(np.searchsorted(sums[:keep], self._random.random() * sums[keep - 1], side="right"))
        return int(ids[order[min(place, keep - 1)]])


class _Grammar:
    def __init__(self, model: Model, sampling: Sampling) -> None:
        self._lib = library()
        text = sampling.grammar or _schema_to_grammar(sampling.json_schema or "")
        self._pointer = self._lib.llama_sampler_init_grammar(model.vocab, text.encode(), b"root")
        if not self._pointer:
            raise UsageError("the grammar of this answer does not compile", "check its rules; `root` must exist")
        self._one = (self._lib.llama_token_data * 1)()
        kind = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
        self._all = np.zeros(model.vocabulary, kind)
        self._all["id"] = np.arange(model.vocabulary, dtype=np.int32)

    def allows(self, token: int) -> bool:
        self._one[0].id, self._one[0].logit, self._one[0].p = token, 1.0, 0.0
        self._apply(ctypes.cast(self._one, ctypes.c_void_p).value or 0, 1)
        return bool(np.isfinite(self._one[0].logit))

    def masked(self, logits: Floats) -> Floats:
        self._all["logit"] = logits
        self._apply(self._all.ctypes.data, len(self._all))
        masked: Floats = np.ascontiguousarray(self._all["logit"])
        if not np.isfinite(masked).any():
            raise UsageError("the grammar of this answer leaves no token to choose", "check its rules")
        return masked

    def accept(self, token: int) -> None:
        self._lib.llama_sampler_accept(self._pointer, token)

    def close(self) -> None:
        if self._pointer:
            self._lib.llama_sampler_free(self._pointer)
            self._pointer = None

    def _apply(self, address: int, size: int) -> None:
        array = self._lib.llama_token_data_array(
            data=ctypes.cast(address, ctypes.POINTER(self._lib.llama_token_data)), size=size, selected=-1, sorted=False
        )
        self._lib.llama_sampler_apply(self._pointer, ctypes.byref(array))


# The converter has no error class of its own; a schema nested too deep is a RuntimeError.
_BAD_SCHEMA = (ValueError, LookupError, TypeError, AttributeError, AssertionError, RuntimeError)


def _schema_to_grammar(schema: str) -> str:
    library()
    from llama_cpp.llama_grammar import json_schema_to_gbnf

    try:
        text: str = json_schema_to_gbnf(schema)
    except _BAD_SCHEMA as error:
        raise UsageError(f"the JSON schema of this answer does not compile: {error}", "check the schema") from error
    return text


def probabilities(logits: Any, tokens: Any) -> float:
    """The probability mass of `tokens` under one row of logits."""
    row: Floats = logits
    top = float(row.max())
    return float(np.exp(row[tokens] - top).sum() / np.exp(row - top).sum())
