"""What somebody who comes late must be told so that their screen is right: the newest of what still holds.

It owns the choice of events worth replaying and their bounds. It listens to the bus like anybody else.
"""

from collections import OrderedDict, deque

from appliance.events import (
    CapacitySnapshot,
    DeviceChanged,
    Event,
    LadderMoved,
    LlmStats,
    Notice,
    SessionClosed,
    SessionOpened,
    StateChanged,
    Transcribed,
    TurnFinished,
)

_NEWEST = (CapacitySnapshot, LlmStats, LadderMoved, StateChanged, Transcribed, SessionOpened)


class Backlog:
    """Bounded: the last `turns` turns and `notices` notices, and the newest of each lasting fact a session."""

    def __init__(self, turns: int = 100, notices: int = 20, facts: int = 512) -> None:
        self._turns: deque[Event] = deque(maxlen=turns)
        self._notices: deque[Event] = deque(maxlen=notices)
        self._facts: OrderedDict[tuple[str, ...], Event] = OrderedDict()
        self._limit = facts

    def take(self, event: Event) -> None:
        match event:
            case TurnFinished():
                self._turns.append(event)
            case Notice():
                self._notices.append(event)
            case SessionClosed():
                for key in [k for k in self._facts if k[1] == event.session]:
                    del self._facts[key]
            case DeviceChanged():
                self._keep(("DeviceChanged", "", event.station, event.role), event)
            case _ if isinstance(event, _NEWEST):
                self._keep((type(event).__name__, event.session), event)
            case _:
                pass

    def replay(self) -> list[Event]:
        """In the order in which it happened; sessions that have closed appear only in their turns."""
        return sorted([*self._turns, *self._notices, *self._facts.values()], key=_order)

    def _keep(self, key: tuple[str, ...], event: Event) -> None:
        self._facts[key] = event
        self._facts.move_to_end(key)
        if len(self._facts) > self._limit:
            self._facts.popitem(last=False)


def _order(event: Event) -> tuple[float, int]:
    return (event.at, 0 if isinstance(event, SessionOpened) else 1)
