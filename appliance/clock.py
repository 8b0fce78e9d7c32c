"""Time. Everything that waits or stamps asks a `Clock`, so that tests can own the time.

Instants are float seconds on one monotonic axis; durations are float milliseconds where the name says
`_ms` and seconds otherwise. Wall-clock time is only what a record says of a turn's beginning.
"""

import asyncio
import time
from datetime import UTC, datetime, timedelta
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


def wall(ago_s: float) -> str:
    """The wall clock's time `ago_s` seconds ago, ISO 8601 with offset, to the millisecond."""
    return (datetime.now(UTC).astimezone() - timedelta(seconds=ago_s)).isoformat(timespec="milliseconds")
