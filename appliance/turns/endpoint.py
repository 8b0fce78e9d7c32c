"""When is a silence the end of the turn? A wait that shrinks smoothly the surer it is that the person is done.

Owns the curve from P(done) to milliseconds of silence, and how patience, dictation and yes/no questions bend it.
Numbers in, decision out. It does not know where scores come from, nor what happens when the turn ends.

    wait = middle_ms * exp(-slope * logit P(done)), kept between least_ms and most_ms

This is the rule "end once P(done) reaches a threshold" where the odds of being done grow as silence ** (1 / slope).
The slope was chosen on the fit half of the corpus (scripts/fit_endpoint.py), the middle so that half of all turns end
within 0.3 s (`appliance bench endpoint`): an answer cannot sound sooner, and whoever goes on meanwhile is not cut off.
A silence once taken for the end stays one unless what is learnt next (words, the model's opinion) speaks against it.
"""

import math
from dataclasses import dataclass

from appliance.turns.combine import Weights, done_probability, fitted, logit
from appliance.turns.completeness import TextLook

_PATIENCE = {"quick": 0.7, "normal": 1.0, "patient": 1.6}


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """`patience` is quick, normal or patient; the factors multiply the wait."""

    patience: str = "normal"
    least_ms: float = 100.0
    middle_ms: float = 420.0  # the wait at P(done) = 0.5
    most_ms: float = 1600.0
    unopposed_ms: float = 900.0  # the most where neither the words nor the language model speak against the end
    answered_ms: float = 350.0  # the most where a yes/no question has a whole answer, however short it sounds
    opposed: float = 0.02  # an llm_score below it speaks against; half of the pauses inside turns have one
    slope: float = 3.0
    kept_done: float = 0.42  # a silence that was held for the end stays one while P(done) is not below this
    look_every_ms: float = 100.0
    look_growth: float = 0.5  # of the silence so far: late looks change little, and each takes a core for 45 ms
    dictation_factor: float = 2.0
    yes_no_factor: float = 0.6

    def __post_init__(self) -> None:
        if self.patience not in _PATIENCE:
            raise ValueError(f"patience is one of {', '.join(_PATIENCE)}, not {self.patience!r}")
        if not 0 < self.least_ms <= self.middle_ms <= self.most_ms:
            raise ValueError("0 < least_ms <= middle_ms <= most_ms must hold")
        if self.unopposed_ms < self.least_ms:
            raise ValueError("least_ms <= unopposed_ms must hold")


@dataclass(frozen=True, slots=True)
class Look:
    """What is known at `silence_ms` after the last voiced sample. None: not there (yet)."""

    silence_ms: float
    audio_score: float | None = None
    text: TextLook | None = None
    llm_score: float | None = None
    voiced_ms: float | None = None  # spoken in this turn so far, pauses not counted
    over: bool = False  # an earlier look at this silence found the turn over
    yes_no: bool = False  # the last answer put a yes/no question to the person
    dictation: bool = False
    patience: float = 1.0  # this session's factor, see turns.patience


@dataclass(frozen=True, slots=True)
class Decision:
    """`end`: the turn is over now. `wait_ms`: the silence at which it would end, as of this look."""

    done_probability: float
    wait_ms: float
    end: bool
    reason: str  # "score", "silence" (the cap on a silence) or "" while it is not over


class Endpoint:
    """The policy. Without state: everything it knows is in the look."""

    def __init__(self, settings: EndpointSettings, weights: Weights | None = None) -> None:
        self._settings = settings
        self._weights = weights or fitted()

    def decide(self, look: Look) -> Decision:
        probability = done_probability(self._weights, look.audio_score, look.text, look.llm_score, look.voiced_ms)
        wait, most = self._wait_ms(probability, look)
        waited = look.silence_ms >= wait
        end = waited or (look.over and probability >= self._settings.kept_done)
        reason = "" if not end else "silence" if waited and wait >= most else "score"
        return Decision(probability, wait, end, reason)

    def next_look_ms(self, silence_ms: float) -> float:
        """The silence at which to score again after a look at `silence_ms`."""
        return silence_ms + max(self._settings.look_every_ms, self._settings.look_growth * silence_ms)

    def _wait_ms(self, probability: float, look: Look) -> tuple[float, float]:
        """The wait, and the most it could be."""
        settings = self._settings
        factor = _PATIENCE[settings.patience] * look.patience
        if look.dictation:
            factor *= settings.dictation_factor
        elif look.yes_no:
            factor *= settings.yes_no_factor
        # A short question or command looks like a fragment for its length; it must not wait as one.
        unopposed = look.text is not None and not look.text.unfinished
        if look.llm_score is not None:
            unopposed = unopposed and look.llm_score >= settings.opposed
        answered = look.yes_no and look.text is not None and look.text.answer > 0 and not look.text.unfinished
        most = settings.unopposed_ms if unopposed else settings.most_ms
        if answered:
            most = max(settings.least_ms, settings.answered_ms)
        most *= max(1.0, factor)
        wait = settings.middle_ms * factor * math.exp(-settings.slope * logit(probability))
        return min(most, max(settings.least_ms, wait)), most
