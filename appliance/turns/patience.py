"""How patient one session has become: more after it was cut off, slowly less again.

Pure: marks in, a factor on the wait out. Knows neither the wait nor the conversation.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PatienceSettings:
    """Factors on the wait."""

    marked: float = 1.5  # the session was marked "was cut off"
    resumed: float = 1.25  # the person went on speaking right after the turn was declared over
    resumed_within_ms: float = 1200.0
    most: float = 2.5
    decay: float = 0.85  # of what is above 1, a turn that ended well


class Patience:
    """One session's factor, 1.0 at first."""

    def __init__(self, settings: PatienceSettings | None = None) -> None:
        self._settings = settings or PatienceSettings()
        self._factor = 1.0

    @property
    def factor(self) -> float:
        return self._factor

    def was_cut_off(self) -> None:
        """Somebody said or marked so."""
        self._raise(self._settings.marked)

    def resumed(self, after_ms: float) -> bool:
        """Speech came `after_ms` after a turn was declared over. True when that counts as having cut it off."""
        if after_ms > self._settings.resumed_within_ms:
            return False
        self._raise(self._settings.resumed)
        return True

    def turn_went_well(self) -> None:
        self._factor = 1 + (self._factor - 1) * self._settings.decay

    def _raise(self, by: float) -> None:
        self._factor = min(self._settings.most, self._factor * by)
