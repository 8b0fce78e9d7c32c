"""Time. Everything that waits or stamps asks a `Clock`, so that tests can own the time.

Instants are float seconds on one monotonic axis; durations are float milliseconds where the name says
`_ms` and seconds otherwise. Wall-clock time appears only in the store.
"""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Monotonic seconds."""
        ...

    async def sleep_until(self, instant: float) -> None:
        """Return at or after `instant`; at once when it has passed."""
        ...


class MonotonicClock:
    """The real clock."""

    def now(self) -> float:
        return time.monotonic()

    async def sleep_until(self, instant: float) -> None:
        await asyncio.sleep(max(0.0, instant - time.monotonic()))


def ms(start: float, end: float) -> float:
    """Milliseconds from `start` to `end`, both instants in seconds."""
    return (end - start) * 1000.0
