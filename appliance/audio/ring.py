"""Bounded memory between an audio callback and everybody else, without a lock.

Own float32 storage and two counters. Each counter is written by one side only; Python's assignment of an int is
atomic, and the samples are in place before the counter says so. Know nothing of rates or devices.
"""

import numpy as np

from appliance.engines.ports import Audio


class Ring:
    """One producer, one consumer. Counters are total frames since the beginning, so they are positions too."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._data = np.zeros(capacity, dtype=np.float32)
        self.written = 0  # set by the producer
        self.taken = 0  # set by the consumer

    @property
    def available(self) -> int:
        return self.written - self.taken

    def push(self, audio: Audio) -> int:
        """Producer: append what fits; returns how much did (policy: the newest is refused)."""
        count = min(len(audio), self.capacity - self.available)
        _copy_in(self._data, self.written, audio[:count])
        self.written += count
        return count

    def pop(self, out: Audio, limit: int | None = None) -> int:
        """Consumer: fill the head of `out`, never beyond position `limit`; returns how much was there."""
        end = self.written if limit is None else min(self.written, limit)
        count = max(0, min(len(out), end - self.taken))
        _copy_out(self._data, self.taken, out[:count])
        self.taken += count
        return count

    def rewind(self, position: int, fade: int, spare: int = 0) -> int:
        """Producer: drop what lies behind `position`, fading out before it; returns the end that was kept.

        A consumer that is reading this moment may have seen the old end and take up to `spare` frames more, so
        no less than that is kept.
        """
        end = min(self.written, max(position, self.taken + spare))
        self.fade(end, fade, fade_in=False)
        self.written = end
        return end

    def fade(self, position: int, length: int, *, fade_in: bool) -> None:
        """Producer: ramp the waiting samples down before `position` and, if asked, up again behind it."""
        begin, end = max(self.taken, position - length), position
        if end > begin:
            ramp = np.linspace(1.0, 0.0, end - begin, dtype=np.float32)
            self._data[np.arange(begin, end) % self.capacity] *= ramp
        end = min(self.written, position + length)
        if fade_in and end > position:
            ramp = np.linspace(0.0, 1.0, end - position, dtype=np.float32)
            self._data[np.arange(position, end) % self.capacity] *= ramp


class History:
    """The last `capacity` frames of a stream. One writer overwrites; readers ask for recent places by position."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._data = np.zeros(capacity, dtype=np.float32)
        self.written = 0

    def write(self, audio: Audio) -> None:
        audio = audio[-self.capacity :]
        _copy_in(self._data, self.written, audio)
        self.written += len(audio)

    def read(self, start: int, count: int) -> Audio:
        """Frames `start` up to `start + count`; zero where they are not written yet or no longer kept."""
        out = np.zeros(count, dtype=np.float32)
        begin = max(start, self.written - self.capacity, 0)
        end = min(start + count, self.written)
        if end > begin:
            _copy_out(self._data, begin, out[begin - start : end - start])
        return out


def _copy_in(data: Audio, position: int, audio: Audio) -> None:
    at = position % len(data)
    first = min(len(audio), len(data) - at)
    data[at : at + first] = audio[:first]
    data[: len(audio) - first] = audio[first:]


def _copy_out(data: Audio, position: int, out: Audio) -> None:
    at = position % len(data)
    first = min(len(out), len(data) - at)
    out[:first] = data[at : at + first]
    out[first:] = data[: len(out) - first]
