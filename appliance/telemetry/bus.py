"""The bus: events go out to whoever listens, and nobody who listens can slow or break the speaker.

It owns the bounded queue of each subscription and the policy for when it is full. It does not know what
any event means beyond two marks: whether only the newest of its kind matters (`Event.coalesce`), and
whether it is one of the few facts that a durable listener must not miss (`DURABLE`).
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator

from appliance.events import Event, Notice, SessionClosed, SessionOpened, TurnEnded, TurnFinished

DURABLE: tuple[type[Event], ...] = (TurnEnded, TurnFinished, SessionOpened, SessionClosed, Notice)

# Durable events come at the pace of speech, a few a minute and session. A listener this far behind is dead;
# the bound only keeps it from taking the process with it.
_DURABLE_LIMIT = 4096


class Subscription:
    """One listener's bounded queue. Read it from one task, with `async for` or `drain`.

    A coalescing event replaces the waiting one of the same type and session. When `limit` ordinary events
    wait, the oldest of them is dropped and counted in `dropped`. A durable subscription keeps the kinds in
    `DURABLE` beside that limit, so they are not dropped; events come out in the order they went in.
    """

    def __init__(self, bus: "Bus", limit: int, durable: bool) -> None:
        self.dropped = 0
        self._bus = bus
        self._limit = limit
        self._durable = durable
        self._loose: OrderedDict[object, tuple[int, Event]] = OrderedDict()
        self._kept: deque[tuple[int, Event]] = deque()
        self._serial = 0
        self._wake = asyncio.Event()
        self._closed = False

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        """The next event; the iteration ends once the subscription is closed and empty."""
        while not (self._loose or self._kept):
            if self._closed:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        return self._pop()

    def __len__(self) -> int:
        return len(self._loose) + len(self._kept)

    def drain(self) -> list[Event]:
        """Everything that waits, oldest first, without waiting."""
        return [self._pop() for _ in range(len(self))]

    def close(self) -> None:
        """Stop listening. What already waits can still be read. Idempotent."""
        self._closed = True
        self._bus._drop(self)
        self._wake.set()

    def _pop(self) -> Event:
        if self._kept and (not self._loose or self._kept[0][0] < next(iter(self._loose.values()))[0]):
            return self._kept.popleft()[1]
        return self._loose.popitem(last=False)[1][1]

    def _offer(self, event: Event) -> None:
        self._serial += 1
        item = (self._serial, event)
        if self._durable and isinstance(event, DURABLE):
            if len(self._kept) >= _DURABLE_LIMIT:
                self._kept.popleft()
                self.dropped += 1
            self._kept.append(item)
        else:
            key: object = (type(event), event.session) if event.coalesce else self._serial
            if key in self._loose:
                self._loose.move_to_end(key)
            elif len(self._loose) >= self._limit:
                self._loose.popitem(last=False)
                self.dropped += 1
            self._loose[key] = item
        if not self._wake.is_set():
            self._wake.set()


class Bus:
    """Fans events out. `publish` belongs to the event loop's thread; it never blocks and never raises."""

    def __init__(self) -> None:
        self._subscriptions: tuple[Subscription, ...] = ()

    def subscribe(self, limit: int = 256, durable: bool = False) -> Subscription:
        """Listen from now on. `limit`: ordinary events that may wait."""
        subscription = Subscription(self, max(1, limit), durable)
        self._subscriptions = (*self._subscriptions, subscription)
        return subscription

    def publish(self, event: Event) -> None:
        for subscription in self._subscriptions:
            subscription._offer(event)

    def publish_threadsafe(self, loop: asyncio.AbstractEventLoop, event: Event) -> None:
        """`publish` from any thread. Ignored once `loop` is closed: at the very end nobody listens."""
        try:
            loop.call_soon_threadsafe(self.publish, event)
        except RuntimeError:
            return

    def _drop(self, subscription: Subscription) -> None:
        self._subscriptions = tuple(s for s in self._subscriptions if s is not subscription)
