"""The first sign that someone speaks over an answer: silence at once, and on with it when that was all.

Owns the newest speech probabilities, which come a few blocks before the gate is sure. What the speech was, and whether
it interrupts, is decided elsewhere.
"""

from collections import deque

from appliance.conversation.answering import Answering
from appliance.conversation.tape import Tape
from appliance.engines.ports import BLOCK

_RECENT = 16  # blocks; a start is found within half of them
_ALERT_BLOCKS = 6  # so long an answer is silent for what turns out to be no speech


class Alert:
    """`probability`: two blocks in a row of it silence an answer."""

    def __init__(self, probability: float) -> None:
        self._probability = probability
        self._recent: deque[tuple[int, float]] = deque(maxlen=_RECENT)  # block positions and their probabilities
        self._since: int | None = None  # the block that silenced the answer before the gate was sure

    def note(self, position: int, probability: float) -> None:
        self._recent.append((position, probability))

    def voiced(self, first: int, least: float) -> list[float]:
        """The probabilities of at least `least` from position `first` on."""
        return [p for position, p in self._recent if position >= first and p >= least]

    def weigh(self, answering: Answering | None, position: int, tape: Tape) -> None:
        """After the block at `position`. `answering` None: nothing sounds, or the gate is sure already."""
        if answering is None:
            self._since = None
        elif self._since is not None:
            if position - self._since >= _ALERT_BLOCKS * BLOCK:
                self._since = None
                answering.resume()
        elif answering.audible:
            last = list(self._recent)[-2:]
            if len(last) == 2 and min(p for _, p in last) >= self._probability:
                self._since = position
                answering.duck(tape.instant(last[0][0]))
