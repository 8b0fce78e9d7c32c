"""A small logistic model: what ear, words, language model and length say together about the end of a turn.

Owns the formula and the reading of its weights, which are data (`endpoint.toml`, made by scripts/fit_endpoint.py).
Every input may be missing. It does not know how long to wait: that is `turns.endpoint`.

    logit P(done) = prior
                  + audio:  bias + slope * logit(audio_score), times with_words once there are words
                  + text:   bias + sum of weight * feature
                  + llm:    bias + slope * logit(llm_score)
                  + length: bias + slope * log2(seconds spoken, 1/4 to 2)

A missing input leaves its line out. The weights are fitted with inputs dropped at random, so that each line
is right on its own and in company, and then bent a little towards few cut-offs at short waits.
"""

import functools
import math
import tomllib
from dataclasses import dataclass
from importlib import resources

from appliance.turns.completeness import FEATURES, TextLook

_EDGE = 0.001  # scores are kept off 0 and 1, so that one input never decides alone


@dataclass(frozen=True, slots=True)
class Weights:
    """`text` has one weight a feature of TextLook, in its order."""

    prior: float
    audio_bias: float
    audio_slope: float
    audio_with_words: float  # 0..1: how much of both still counts when the words are known
    text_bias: float
    text: tuple[float, ...]
    llm_bias: float
    llm_slope: float
    length_bias: float
    length_slope: float

    def __post_init__(self) -> None:
        if len(self.text) != len(FEATURES):
            raise ValueError(f"{len(FEATURES)} text weights are wanted, not {len(self.text)}")


def logit(probability: float) -> float:
    """ln(p / (1 - p)), with p kept in 0.001..0.999."""
    p = min(1 - _EDGE, max(_EDGE, probability))
    return math.log(p / (1 - p))


def octaves(voiced_ms: float) -> float:
    """log2 of the seconds spoken, kept in -2..1: a fragment is seldom a whole turn; beyond 2 s length says nothing."""
    return math.log2(min(2.0, max(0.25, voiced_ms / 1000)))


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def done_probability(
    weights: Weights,
    audio_score: float | None,
    text: TextLook | None,
    llm_score: float | None,
    voiced_ms: float | None = None,
) -> float:
    """P(the person is done), 0..1, from whichever inputs are there; the prior when none is."""
    x = weights.prior
    if audio_score is not None:
        share = 1.0 if text is None else weights.audio_with_words
        x += share * (weights.audio_bias + weights.audio_slope * logit(audio_score))
    if text is not None:
        x += weights.text_bias + sum(w * f for w, f in zip(weights.text, text.values(), strict=True))
    if llm_score is not None:
        x += weights.llm_bias + weights.llm_slope * logit(llm_score)
    if voiced_ms is not None:
        x += weights.length_bias + weights.length_slope * octaves(voiced_ms)
    return sigmoid(x)


def parse(toml: str) -> Weights:
    """Weights from TOML text. Raises KeyError or ValueError when a weight is missing."""
    table = tomllib.loads(toml)
    return Weights(
        prior=float(table["prior"]),
        audio_bias=float(table["audio"]["bias"]),
        audio_slope=float(table["audio"]["slope"]),
        audio_with_words=float(table["audio"]["with_words"]),
        text_bias=float(table["text"]["bias"]),
        text=tuple(float(table["text"][name]) for name in FEATURES),
        llm_bias=float(table["llm"]["bias"]),
        llm_slope=float(table["llm"]["slope"]),
        length_bias=float(table["length"]["bias"]),
        length_slope=float(table["length"]["slope"]),
    )


@functools.cache
def fitted() -> Weights:
    """The weights that come with the appliance."""
    return parse(resources.files("appliance.turns").joinpath("endpoint.toml").read_text(encoding="utf-8"))
