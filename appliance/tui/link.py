"""What the screen needs from the outside: events, a few controls, and the store's turns. Nothing else.

An in-process subscription and a socket to another process look alike from here. The screen never sees an
engine, a conversation or the bus itself.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from appliance.events import Event, TurnRecord
from appliance.store.database import Span, StoredTurn
from appliance.telemetry.bus import Subscription
from appliance.telemetry.spans import Budget


class EventFeed(Protocol):
    """A `Subscription`, or the client's end of a socket."""

    def drain(self) -> list[Event]:
        """What came since the last call, oldest first."""
        ...

    def renewed(self) -> bool:
        """True once after each (re)connection: what was known is void, and what holds is sent again."""
        ...

    @property
    def status(self) -> str:
        """Empty while events can come; else what is being waited for, to be shown."""
        ...


class LocalFeed:
    """A subscription of this process as a feed."""

    status = ""

    def __init__(self, subscription: Subscription) -> None:
        self.drain = subscription.drain

    def renewed(self) -> bool:
        return False


class Controls(Protocol):
    """What a person may ask of a running appliance. Each returns at once; what came of it shows in events."""

    def talk(self, session: str) -> None:
        """Listen now, without a wake word."""
        ...

    def mute(self, session: str) -> None:
        """Stop listening, or listen again."""
        ...

    def interrupt(self, session: str) -> None:
        """Stop the answer that is being spoken."""
        ...


class TurnReader(Protocol):
    """Finished turns, old ones too. Raises StoreError where the store cannot be read."""

    async def recent(self, limit: int) -> Sequence[StoredTurn]: ...

    async def timeline(self, record: TurnRecord) -> Sequence[Span]: ...

    async def mark(self, record: TurnRecord, mark: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class ScreenSettings:
    """`redraw_s`: the shortest time between two redraws. `title`: the tier, shown in the first line."""

    title: str = ""
    hide_words: bool = False
    redraw_s: float = 0.2
    budget: Budget = field(default_factory=Budget)


class ScreenClock:
    """Instants of the events' monotonic clock as time of day and as age."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        return time.monotonic()

    def wall(self, at: float) -> str:
        """HH:MM:SS, local time."""
        return datetime.fromtimestamp(at + self._offset).strftime("%H:%M:%S")


class NoControls:
    """For a screen that can only look."""

    def talk(self, session: str) -> None: ...

    def mute(self, session: str) -> None: ...

    def interrupt(self, session: str) -> None: ...


class NoTurns:
    """For a screen without a store."""

    async def recent(self, limit: int) -> Sequence[StoredTurn]:
        return ()

    async def timeline(self, record: TurnRecord) -> Sequence[Span]:
        return ()

    async def mark(self, record: TurnRecord, mark: str) -> bool:
        return False
