"""From a microphone's frames to 512-sample blocks at 16 kHz, whose positions keep step with real time.

Owns the arithmetic of positions and instants across chunks and losses. Knows no device and no thread.
"""

from typing import Protocol

import numpy as np

from appliance.audio.levels import LevelWatch
from appliance.audio.ports import Block
from appliance.audio.resample import EMPTY, LiveResampler
from appliance.audio.timeline import StreamClock
from appliance.engines.ports import BLOCK, RATE, Audio

_CLEANED = RATE // 100  # what a cleaner may hold back: it works on frames of 10 ms


class Cleaner(Protocol):
    """What a microphone's sound goes through before it is heard."""

    def clean(self, audio: Audio, instant: float) -> Audio:
        """16 kHz mono captured from `instant` on, in order; returns what is ready, in order, nothing lost."""
        ...

    def restart(self) -> None:
        """The stream was interrupted: what was held back is dropped."""
        ...


class BlockCutter:
    """`cleaner` (echo, noise) is given the sound at 16 kHz; `levels` sees it as captured."""

    def __init__(self, cleaner: Cleaner | None, levels: LevelWatch) -> None:
        self._cleaner = cleaner
        self._levels = levels
        self.change = ""  # what the level watch said about the newest sound
        self._clock: StreamClock | None = None
        self._resampler = LiveResampler(RATE, RATE)
        self._zero: float | None = None  # instant of position 0
        self._expected = -1  # device frame that continues the stream
        self._first = 0  # device frame at which this uninterrupted stretch began
        self._made = 0  # samples at 16 kHz made of this stretch before cleaning
        self._held: Audio = EMPTY
        self._aligned = False  # blocks end where callbacks do
        self._start = 0  # position of _held[0]
        self._cut = 0  # samples at 16 kHz cut from this stretch

    @property
    def missing_s(self) -> float:
        """How much sound is wanting for the next block."""
        return (BLOCK - len(self._held)) / RATE

    def feed(self, mono: Audio, first: int, clock: StreamClock) -> list[Block]:
        if clock is not self._clock or first != self._expected:
            self._begin(first, clock)
        self._expected = first + len(mono)
        audio = self._resampler.push(mono)
        self.change = self._levels.feed(audio)  # as captured: cancelling would hide clipping and add silence
        if self._cleaner is not None and len(audio):
            instant = self._instant(self._made)
            self._made += len(audio)
            audio = self._cleaner.clean(audio, instant)
        self._held = np.concatenate((self._held, audio))
        if not self._aligned:
            self._align()
        blocks = []
        while len(self._held) >= BLOCK:
            self._cut += BLOCK
            blocks.append(Block(self._held[:BLOCK], self._start, self._instant(self._cut)))
            self._held = self._held[BLOCK:]
            self._start += BLOCK
        return blocks

    def _begin(self, first: int, clock: StreamClock) -> None:
        """A new stretch: after opening, muting or a loss. Its position follows from its instant."""
        self._clock, self._first = clock, first
        self._resampler = LiveResampler(int(clock.rate), RATE)
        if self._cleaner is not None:
            self._cleaner.restart()
        self._held = EMPTY
        self._aligned = False
        self._made = self._cut = 0
        instant = clock.instant(first) or 0.0
        if self._zero is None:
            self._zero = instant
        self._start = max(self._start, round((instant - self._zero) * RATE))

    def _align(self) -> None:
        """Drop up to 32 ms at the beginning of a stretch, so that every callback of a block's length ends a block.

        Otherwise what the resampler and the cleaner hold back would let each block wait for the next callback.
        """
        keep = _CLEANED if self._cleaner is not None else 0
        if len(self._held) > keep:
            dropped = (len(self._held) - keep) % BLOCK
            self._held = self._held[dropped:]
            self._start += dropped
            self._cut += dropped
            self._aligned = True

    def _instant(self, samples: int) -> float:
        """The instant at which sample `samples` of this stretch was captured."""
        assert self._clock is not None
        return self._clock.instant(self._first + samples * self._clock.rate / RATE) or 0.0
