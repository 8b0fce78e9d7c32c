"""A loudspeaker made of arithmetic: what would have been heard when, and a WAV of it.

Owns the virtual converter (positions to instants, pause, flush) and the rendering of what was heard. Samples
reach the file once they have been heard, so memory holds only what is queued. Knows nothing of clauses or turns
but for the border between two answers, where idle silence is shortened.
"""

from collections import deque
from pathlib import Path

import numpy as np

from appliance.audio.files import WavWriter
from appliance.audio.timeline import Timeline
from appliance.clock import Clock
from appliance.engines.ports import Audio

FADE_S = 0.005  # fade at a pause or cut; the port allows 10 ms
IDLE_S = 0.5  # silence kept between two answers in the rendering


class FileSink:
    """A `Sink` on the clock. Unpaced, everything is heard in the instant it is written.

    `out`, where given, receives what was heard: real gaps inside an answer, at most half a second between
    answers. Call `close` to complete the file.
    """

    def __init__(self, sample_rate: int, clock: Clock, paced: bool = True, out: Path | None = None) -> None:
        self.sample_rate = sample_rate
        self._clock = clock
        self._paced = paced
        self._timeline = Timeline(sample_rate)
        self._written = 0
        self._held: int | None = None  # position at which a pause holds
        self._render = _Rendering(WavWriter(out, sample_rate), self._timeline, paced) if out is not None else None

    def write(self, audio: Audio) -> int:
        position = self._written
        if len(audio) == 0:
            return position
        self._commit()
        now = self._clock.now()
        if not self._paced or (self._held is None and self._dry(now)):
            self._timeline.anchor(position, now)
        self._written += len(audio)
        if self._render:
            self._render.queue(audio)
        self._commit()
        return position

    def played(self) -> int:
        self._commit()
        return self._played()

    def audible_at(self, position: int) -> float | None:
        if position >= self._played():
            return None
        if self._paced:
            return self._timeline.instant(position)
        return self._timeline.anchored(position)

    def pause(self, paused: bool) -> None:
        if paused and self._held is None:
            self._held = self._fade_end() if self._paced else self._written
            if self._render:
                self._render.fade(self._held)
        elif not paused and self._held is not None:
            held, self._held = self._held, None
            if self._written > held:
                now = self._clock.now()
                self._timeline.anchor(held, max(now, self._timeline.instant(held) or now))

    def flush(self) -> int:
        if not self._paced:
            return self._written
        self._written = self._held if self._held is not None else self._fade_end()
        if self._render:
            self._render.truncate(self._written)
        self._commit()
        return self._written

    def next_answer(self) -> None:
        """What is written from here on belongs to another answer."""
        if self._render:
            self._render.border(self._written)

    def close(self) -> int:
        """Complete the file with what has been heard; returns its samples (0 without a file). Idempotent."""
        self._commit()
        return self._render.close() if self._render else 0

    def _played(self) -> int:
        if not self._paced:
            return self._written
        limit = self._written if self._held is None else self._held
        return min(limit, self._timeline.reached(self._clock.now()))

    def _dry(self, now: float) -> bool:
        end = self._timeline.instant(self._written)
        return end is None or end <= now

    def _fade_end(self) -> int:
        return min(self._written, self._timeline.reached(self._clock.now() + FADE_S))

    def _commit(self) -> None:
        if self._render:
            self._render.commit(self._played())


class _Rendering:
    """What was heard, as a file: samples in order, and the silence between them."""

    def __init__(self, writer: WavWriter, timeline: Timeline, real_gaps: bool) -> None:
        self._writer = writer
        self._timeline = timeline
        self._real_gaps = real_gaps
        self._queue: deque[Audio] = deque()
        self._position = 0  # of the first sample in the queue
        self._end: float | None = None  # the instant at which the file's last sample ended
        self._borders: deque[int] = deque()

    def queue(self, audio: Audio) -> None:
        self._queue.append(audio.astype(np.float32, copy=True))

    def border(self, position: int) -> None:
        if not self._borders or self._borders[-1] != position:
            self._borders.append(position)

    def commit(self, upto: int) -> None:
        """Write the samples before `upto` to the file."""
        rate = self._writer.rate
        while self._position < upto:
            anchor = self._timeline.next_anchor(self._position)
            stop = upto if anchor is None else min(upto, anchor)
            start = self._timeline.instant(self._position) or 0.0
            gap = 0.0 if self._end is None or not self._real_gaps else start - self._end
            while self._borders and self._borders[0] <= self._position:
                self._borders.popleft()
                if self._end is not None:
                    gap = min(gap, IDLE_S) if self._real_gaps else IDLE_S
            self._silence(round(gap * rate))
            self._end = start + (stop - self._position) / rate
            while self._position < stop:
                self._writer.write(self._take(stop - self._position))

    def fade(self, position: int) -> None:
        """The samples just before `position` fade out, those from it on fade in."""
        length = min(int(FADE_S * self._writer.rate), max(0, position - self._position))
        at = self._position
        for chunk in self._queue:
            index = np.arange(at, at + len(chunk)) - position
            ramp = np.clip(np.abs(index + 0.5) / max(1, length), 0.0, 1.0)
            np.multiply(chunk, ramp.astype(np.float32), out=chunk)
            at += len(chunk)

    def truncate(self, position: int) -> None:
        """Drop the samples from `position` on, fading out what is left."""
        self.fade(position)
        kept: deque[Audio] = deque()
        room = position - self._position
        for chunk in self._queue:
            if room > 0:
                kept.append(chunk[:room])
            room -= len(chunk)
        self._queue = kept

    def close(self) -> int:
        return self._writer.close()

    def _take(self, count: int) -> Audio:
        chunk = self._queue.popleft()
        if len(chunk) > count:
            self._queue.appendleft(chunk[count:])
            chunk = chunk[:count]
        self._position += len(chunk)
        return chunk

    def _silence(self, samples: int) -> None:
        while samples > 0:
            count = min(samples, self._writer.rate)
            self._writer.write(np.zeros(count, dtype=np.float32))
            samples -= count
