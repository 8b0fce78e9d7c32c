"""The voice has gone quiet although the speech model still says speech: a pause may be taken at once.

The speech probability lags the sound by two or three blocks. Where a block is far below the voice's own level and the
probability has begun to fall, waiting for the rest of the fall only makes the answer late. Numbers in, a verdict out:
it knows levels and probabilities of 32 ms blocks, not what a pause means.

Measured on 177 turns (people, synthetic voices, the demo's questions): pauses are found 40 to 50 ms sooner, and 0.5
instead of 0.3 of them a second turn out to lie inside a word or between two.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FadeSettings:
    """`drop_db`: so far below the voice a block is quiet; `back_db`: so near to it, it has come back."""

    drop_db: float = 20.0
    back_db: float = 15.0
    falling: float = 0.02  # by which the probability fell with this block
    forget_db: float = 0.3  # by which the voice's level sinks a block, so that it follows someone who speaks lower
    most_blocks: int = 4  # a quiet voice that the model takes for speech for longer is speech


class Fade:
    """One session's. `spoken` every voiced block of a turn; after a fade `tail` each further one."""

    def __init__(self, settings: FadeSettings | None = None) -> None:
        self._settings = settings or FadeSettings()
        self.reset()

    def reset(self) -> None:
        """A turn begins: nothing is known of its voice."""
        self._level: float | None = None
        self._probability = 0.0
        self._blocks = 0

    def spoken(self, probability: float, level_db: float | None) -> bool:
        """Take note of a block of speech; True when the voice has gone quiet with it."""
        before, self._probability = self._probability, probability
        if level_db is None:
            return False
        if (
            self._level is not None
            and level_db < self._level - self._settings.drop_db
            and probability < before - self._settings.falling
        ):
            self._blocks = 1
            return True
        sunk = level_db if self._level is None else self._level - self._settings.forget_db
        self._level = max(level_db, sunk)
        return False

    def tail(self, level_db: float | None) -> bool | None:
        """A further block taken for speech. True: the voice is back; False: not yet; None: it never left."""
        self._blocks += 1
        if level_db is None or self._level is None or level_db >= self._level - self._settings.back_db:
            return True
        return False if self._blocks <= self._settings.most_blocks else None
