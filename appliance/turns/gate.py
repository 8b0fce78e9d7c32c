"""Speech probabilities in, the edges of speech out: where it began, where it paused, that it went on.

Owns hysteresis, pre-roll arithmetic and the cap on a turn's length. Positions are samples of the source's own
count, which is the only clock here. It does not know audio, models, words, or whether a pause ends the turn:
that is `turns.endpoint`'s question, and whoever asks it calls `end_turn` when the answer is yes.
"""

from dataclasses import dataclass

import numpy as np

from appliance.engines.ports import BLOCK, RATE, Audio
from appliance.turns.fade import Fade


@dataclass(frozen=True, slots=True)
class GateSettings:
    """Hysteresis on the speech probability of 32 ms blocks."""

    start_probability: float = 0.5
    stop_probability: float = 0.35
    min_speech_ms: float = 96.0  # voiced time before anyone is disturbed; "yes" has 200 to 300
    start_window_ms: float = 256.0  # the voiced blocks of a start lie within it, so that "st-op" is one start
    min_resume_ms: float = 64.0  # voiced time that ends a pause; a click has one block
    pause_ms: float = 32.0  # unvoiced time that makes a pause; the probability itself lags by about 70, see turns.fade
    pre_roll_ms: float = 500.0  # taken from before the first voiced block
    max_turn_ms: float = 120_000.0

    def __post_init__(self) -> None:
        if not 0 < self.stop_probability <= self.start_probability < 1:
            raise ValueError("0 < stop_probability <= start_probability < 1 must hold")


@dataclass(frozen=True, slots=True)
class SpeechStart:
    """A turn begins. `first_sample`: first voiced block; `take_from`: from where to take the audio."""

    first_sample: int
    take_from: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Speech stopped, perhaps for a breath. `last_sample` is one past the last voiced sample."""

    last_sample: int


@dataclass(frozen=True, slots=True)
class Silence:
    """The pause lasts. Sent with each unvoiced block, the one of the pause included."""

    ms: float
    last_sample: int


@dataclass(frozen=True, slots=True)
class Resume:
    """Speech goes on in the same turn."""

    first_sample: int


@dataclass(frozen=True, slots=True)
class TooLong:
    """The turn reached its cap. Sent once; `length_ms` counts from its first voiced sample."""

    length_ms: float


GateEvent = SpeechStart | Pause | Silence | Resume | TooLong


class Gate:
    """One session's gate. `feed` every block in order."""

    def __init__(self, settings: GateSettings) -> None:
        self._settings = settings
        self._next = 0  # where the next block begins if none is missing
        self._floor = 0  # audio before it belongs to an earlier turn
        self._first: int | None = None  # first voiced sample of the open turn
        self._last = 0  # one past the last voiced sample of the open turn
        self._paused = False
        self._fade = Fade()
        self._fading = False  # paused by the level, while the probability has yet to fall
        self._held_off = False  # after a cap in mid-speech: wait for quiet before the next turn
        self._capped = False
        self._run: list[int] = []  # starts of recent voiced blocks that are not yet a start or a resumption

    @property
    def in_turn(self) -> bool:
        return self._first is not None

    @property
    def speaking(self) -> bool:
        """A turn is open and not in a pause."""
        return self._first is not None and not self._paused

    def feed(self, probability: float, start: int, level_db: float | None = None) -> tuple[GateEvent, ...]:
        """The events of the block of 512 samples at `start`. Missing blocks before it count as silence.

        With its level (dBFS) a pause is found before the probability has fallen.
        """
        if start < self._next:
            raise ValueError(f"the block at {start} lies before the end of the last one at {self._next}")
        self._next = start + BLOCK
        if self._held_off:
            self._hold_off(probability, start)
            return ()
        if self._first is None:
            return self._idle(probability, start)
        follow = self._pausing if self._paused else self._voiced
        events = follow(probability, start, level_db)
        return events + self._cap(start + BLOCK)

    def end_turn(self) -> None:
        """The turn is over. What is spoken next is another turn, even without a further pause."""
        if self._first is None:
            return
        if not self._paused or self._fading:  # the probability's tail is no beginning
            self._held_off = True
            self._run = []
        self._floor = self._last
        self._first = None
        self._paused = self._capped = self._fading = False

    def reset(self) -> None:
        """Forget everything but the position: the input was muted or lost."""
        self._first, self._run = None, []
        self._paused = self._capped = self._held_off = self._fading = False
        self._floor = self._last = self._next

    def _idle(self, probability: float, start: int) -> tuple[GateEvent, ...]:
        first = self._gathered(probability, start, self._settings.min_speech_ms)
        if first is None:
            return ()
        self._first, self._last, self._paused = first, start + BLOCK, False
        self._fade.reset()
        take_from = max(self._floor, first - _samples(self._settings.pre_roll_ms), 0)
        return (SpeechStart(first, take_from),)

    def _voiced(self, probability: float, start: int, level_db: float | None) -> tuple[GateEvent, ...]:
        end = start + BLOCK
        self._fading = False
        if probability >= self._settings.stop_probability:
            self._fading = self._fade.spoken(probability, level_db)
            if not self._fading:
                self._last = end
                return ()
        if end - self._last < _samples(self._settings.pause_ms):
            return ()
        self._paused = True
        return (Pause(self._last), self._silence(end))

    def _pausing(self, probability: float, start: int, level_db: float | None) -> tuple[GateEvent, ...]:
        end = start + BLOCK
        if self._fading and probability >= self._settings.stop_probability:
            back = self._fade.tail(level_db)
            if back is False:
                return (self._silence(end),)
            if back is None:  # it was no pause at all
                began, self._paused, self._last = self._last, False, end
                return (Resume(began),)
        self._fading = self._fading and probability >= self._settings.stop_probability
        first = self._gathered(probability, start, self._settings.min_resume_ms)
        if first is not None:
            self._paused, self._last = False, end
            return (Resume(first),)
        # While a resumption may be under way the silence does not grow, or the turn would end into its first word.
        return () if self._run and self._run[-1] == start else (self._silence(end),)

    def _gathered(self, probability: float, start: int, wanted_ms: float) -> int | None:
        """The start of the voiced blocks up to this one once they amount to `wanted_ms`, else None."""
        window = _samples(self._settings.start_window_ms)
        self._run = [s for s in self._run if start - s < window]
        if probability < self._settings.start_probability:
            return None
        self._run.append(start)
        if len(self._run) * BLOCK < _samples(wanted_ms):
            return None
        first, self._run = self._run[0], []
        return first

    def _hold_off(self, probability: float, start: int) -> None:
        if probability >= self._settings.stop_probability:
            self._floor = start + BLOCK
        elif start + BLOCK - self._floor >= _samples(self._settings.pause_ms):
            self._held_off = False

    def _silence(self, end: int) -> Silence:
        return Silence((end - self._last) * 1000 / RATE, self._last)

    def _cap(self, end: int) -> tuple[GateEvent, ...]:
        if self._first is None or self._capped:
            return ()
        length_ms = (end - self._first) * 1000 / RATE
        if length_ms < self._settings.max_turn_ms:
            return ()
        self._capped = True
        return (TooLong(length_ms),)


def last_voiced(audio: Audio, *, below_peak_db: float = 30.0, above_floor_db: float = 6.0) -> int:
    """One past the last sample of `audio` (16 kHz) that sounds like speech by its energy; 0 when none does.

    Frames of 10 ms count when they lie within `below_peak_db` of the loudest one and `above_floor_db` above the
    quietest tenth. It refines the gate's 32 ms grain over a short window that ends in a pause.
    """
    grain = RATE // 100
    count = len(audio) // grain
    if not count:
        return 0
    frames = audio[len(audio) - count * grain :].reshape(count, grain)
    level = 10 * np.log10(np.einsum("ij,ij->i", frames, frames) / grain + 1e-10)
    least = max(float(level.max()) - below_peak_db, float(np.quantile(level, 0.1)) + above_floor_db)
    loud = np.flatnonzero(level >= least)
    return len(audio) - (count - 1 - int(loud[-1])) * grain if len(loud) else 0


def _samples(ms: float) -> int:
    return int(ms * RATE / 1000)
