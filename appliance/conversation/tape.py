"""The last minutes of what a session heard, addressed by sample position, and when each sample was captured.

A turn is cut out of the tape when it is transcribed, so that pre-roll, resumed speech and a turn that is
reopened need no copying about. The tape knows nothing of speech; what falls off its end is gone.
"""

import numpy as np

from appliance.engines.ports import RATE, Audio
from appliance.turns.gate import last_voiced


class Tape:
    """A ring of `seconds` of 16 kHz mono float32."""

    def __init__(self, seconds: float) -> None:
        self._ring = np.zeros(int(seconds * RATE), dtype=np.float32)
        self.end = 0  # position after the newest sample
        self.at = 0.0  # instant of `end`, in seconds of the source's clock
        self._start = 0  # oldest position that is still there

    def append(self, samples: Audio, start: int, at: float = 0.0) -> None:
        """Put `samples`, the last heard at `at`, at position `start`; a gap since the last call reads as silence."""
        if start < self.end:
            raise ValueError(f"samples at {start} lie before the end of the tape at {self.end}")
        if start > self.end:
            self._put(np.zeros(min(start - self.end, len(self._ring)), dtype=np.float32), start)
        self._put(samples, start + len(samples))
        self.at = at

    def instant(self, position: int) -> float:
        """When the sample at `position` was captured."""
        return self.at - (self.end - position) / RATE

    def ms_since(self, position: int) -> float:
        return (self.end - position) * 1000 / RATE

    def voiced_end(self, position: int) -> int:
        """The gate's 32 ms grain refined by energy: one past the last sample before `position` that is speech."""
        begin = position - RATE // 2
        voiced = last_voiced(self.cut(begin, position))
        return begin + voiced if voiced else position

    def cut(self, start: int, end: int | None = None) -> Audio:
        """A copy of the samples from `start` to `end` (default: all), as far as they are on the tape."""
        end = self.end if end is None else min(end, self.end)
        start = max(start, self._start, end - len(self._ring))
        if start >= end:
            return np.zeros(0, dtype=np.float32)
        size = len(self._ring)
        first = start % size
        until_wrap = self._ring[first : min(size, first + end - start)]
        rest = end - start - len(until_wrap)
        return np.concatenate((until_wrap, self._ring[:rest])) if rest else until_wrap.copy()

    def _put(self, samples: Audio, end: int) -> None:
        size = len(self._ring)
        samples = samples[-size:]
        first = (end - len(samples)) % size
        fit = min(len(samples), size - first)
        self._ring[first : first + fit] = samples[:fit]
        self._ring[: len(samples) - fit] = samples[fit:]
        self.end = end
        self._start = max(self._start, end - size)
