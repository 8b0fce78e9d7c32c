"""Which sample was heard when: the arithmetic that every sink shares.

Owns a short list of anchors (position, instant): from an anchor on, samples are heard one after another at the
sink's rate, until the next anchor. Pure: numbers in, numbers out. An anchor at or before earlier ones replaces
them, which is what happens after queued samples were dropped.
"""

from bisect import bisect_right
from collections import deque

_KEPT = 4096  # anchors; an answer makes a handful, so this reaches back hours


class Timeline:
    def __init__(self, rate: int) -> None:
        self.rate = rate
        self._positions: deque[int] = deque(maxlen=_KEPT)
        self._instants: deque[float] = deque(maxlen=_KEPT)

    def anchor(self, position: int, instant: float) -> None:
        """From `instant` on, samples from `position` on are heard."""
        while self._positions and self._positions[-1] >= position:
            self._positions.pop()
            self._instants.pop()
        self._positions.append(position)
        self._instants.append(instant)

    def instant(self, position: int) -> float | None:
        """When the sample at `position` is heard if nothing intervenes; None before any anchor."""
        at = bisect_right(self._positions, position) - 1
        if at < 0:
            return None
        return self._instants[at] + (position - self._positions[at]) / self.rate

    def anchored(self, position: int) -> float | None:
        """The instant of the anchor that `position` follows; None before any anchor."""
        at = bisect_right(self._positions, position) - 1
        return None if at < 0 else self._instants[at]

    def next_anchor(self, position: int) -> int | None:
        """The position of the first anchor behind `position`."""
        at = bisect_right(self._positions, position)
        return self._positions[at] if at < len(self._positions) else None

    def reached(self, now: float) -> int:
        """The position under way at `now` along the newest anchor (unbounded above); 0 before any anchor."""
        if not self._positions:
            return 0
        # Half a microsecond forgives the rounding of an instant that was computed from this very position.
        ahead = int((now - self._instants[-1] + 5e-7) * self.rate)
        return self._positions[-1] + max(0, ahead)


class StreamClock:
    """Which instant a device's frame belongs to, from the device's own jittery stamps.

    A first-order tracking loop: the mean of the first stamps, then an average that follows drift (hundreds of
    ppm). A stamp that is off by more than `jump_s`, and the next one by as much, tell of an interruption: the
    loop begins anew there. A single such stamp is a callback that came late, and is passed over. PulseAudio's
    output stamps are good to 1 ms, its input stamps to 12 ms.
    """

    def __init__(self, rate: float, *, jump_s: float = 0.04, gain: float = 0.02) -> None:
        self.rate = rate
        self._jump, self._gain = jump_s, gain
        self._stamps = 0  # since the last jump
        self._off: float | None = None  # by how much the last stamp was off, if too much
        # One tuple, so that a reader on another thread never sees half an update.
        self._pair: tuple[int, float] | None = None

    def feed(self, frame: int, instant: float) -> bool:
        """A stamp: `frame` lies at `instant`. Returns whether the stream jumped (the first stamp does)."""
        expected = self.instant(frame)
        error = 0.0 if expected is None else instant - expected
        if expected is None or abs(error) > self._jump:
            if expected is not None and (self._off is None or abs(error - self._off) > self._jump / 2):
                self._off = error
                return False
            self._pair, self._stamps, self._off = (frame, instant), 1, None
            return True
        self._off = None
        self._stamps += 1
        gain = max(self._gain, 1.0 / self._stamps)
        self._pair = (frame, expected + gain * (instant - expected))
        return False

    def instant(self, frame: float) -> float | None:
        """The instant of a frame, fractions allowed; None before the first stamp."""
        pair = self._pair
        return None if pair is None else pair[1] + (frame - pair[0]) / self.rate

    def frame(self, instant: float) -> float | None:
        """The frame at an instant; None before the first stamp."""
        pair = self._pair
        return None if pair is None else pair[0] + (instant - pair[1]) * self.rate


class ClockOffset:
    """What to add to a library's own clock to get ours, from pairs read one after the other.

    A callback may wait between the two readings (for the interpreter, for a processor), always in the same
    direction, so the smallest difference of the last seconds is the true one.
    """

    _BUCKET_S = 1.0

    def __init__(self) -> None:
        self._since = float("-inf")
        self._older = self._newer = float("inf")

    def feed(self, ours: float, theirs: float) -> float:
        """`ours` was read after `theirs`. Returns the offset."""
        if ours - self._since > self._BUCKET_S:
            self._since = ours
            self._older, self._newer = self._newer, float("inf")
        self._newer = min(self._newer, ours - theirs)
        return min(self._older, self._newer)
