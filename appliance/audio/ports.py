"""The seams between sound and the conversation: where blocks come from and where answers go.

A file and a device look alike from here. The sample count is the clock of everything heard; every block
also says at which instant its last sample was captured, so that sample positions turn into instants.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from appliance.engines.ports import Audio


@dataclass(frozen=True, slots=True)
class Block:
    """512 samples at 16 kHz, mono float32. `start` counts samples since the source opened."""

    samples: Audio
    start: int
    captured_at: float  # instant at which the last sample of the block was captured


class Source(Protocol):
    def blocks(self) -> AsyncIterator[Block]:
        """Blocks in order until the input ends. Gaps show as a jump in `start`."""
        ...

    async def close(self) -> None: ...


class Sink(Protocol):
    """A stream that stays open. Positions count written samples at `sample_rate`, never filler silence."""

    sample_rate: int

    def write(self, audio: Audio) -> int:
        """Queue samples; returns the position of the first of them. Never blocks."""
        ...

    def played(self) -> int:
        """How many of the written samples have been heard by now."""
        ...

    def audible_at(self, position: int) -> float | None:
        """The instant at which the sample at `position` was heard, None while it has not been."""
        ...

    def pause(self, paused: bool) -> None:
        """Silence at once (a fade of at most 10 ms), keeping what is queued; or go on from there."""
        ...

    def flush(self) -> int:
        """Drop what has not been heard and silence at once; returns the position heard last.

        The next `write` continues from that position.
        """
        ...
