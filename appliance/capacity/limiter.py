"""Admission: who may begin a conversation, who waits, who is refused, and whose KV rests while they are silent.

Owns the ledger of sessions (admitted, queued, hot or parked) and the decision for each newcomer. A pure state
machine: instants in, values out. It knows no engine; the cap it works with comes from `appliance.capacity.cap`.
An admitted session is never ended for a new one, and its turns are never refused.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from appliance.errors import UsageError


@dataclass(frozen=True, slots=True)
class CapacitySettings:
    """Limits of this box. 0 bytes or sessions means: find out."""

    ram_limit_bytes: int = 0  # for everything on the CPU; 0 is half of what is free at start
    gpu_limit_bytes: int = 0  # 0 is what the device reports free at start
    reserve_bytes: int = 268_435_456  # kept free, for a model update and for what no sum foresees
    max_sessions: int = 0  # an installer's own cap on live sessions
    hot_factor: float = 1.0  # live sessions a hot one; above 1, idle sessions' KV is parked when room is short
    queue_length: int = 4
    queue_wait_s: float = 20.0  # nobody is asked to wait longer than this
    session_s: float = 120.0  # expected length of a session, until some have been measured
    long_shares: float = 1.0  # shares of KV that one session may hold before its older turns must go


@dataclass(frozen=True, slots=True)
class Objectives:
    """What every admitted session is promised, at p95; `success` is the share of turns answered."""

    v2v_ms_p95: float = 1500.0
    starvation_ms_p95: float = 100.0
    success: float = 0.99


@dataclass(frozen=True, slots=True)
class Admitted:
    session: str


@dataclass(frozen=True, slots=True)
class Queued:
    """`position` 1 is next."""

    session: str
    position: int
    expected_wait_s: float


@dataclass(frozen=True, slots=True)
class Refused:
    session: str
    reason: str
    retry_after_s: float


Decision = Admitted | Queued | Refused


@dataclass(frozen=True, slots=True)
class Wake:
    """What a turn needs before it starts: is the session's KV to be restored, and whose is to be parked for it."""

    restore: bool
    park: tuple[str, ...] = ()


@dataclass(slots=True)
class _Live:
    since: float
    in_turn: bool = False
    hot: bool = False  # its KV lies in the cache; not so before its first turn
    parked: bool = False  # its KV lies elsewhere


class Limiter:
    """The ledger. `cap` is the number of hot sessions; `live_cap` how many may be admitted."""

    def __init__(self, settings: CapacitySettings, cap: int) -> None:
        """Raises UsageError for settings that make no sense."""
        if settings.hot_factor < 1:
            raise UsageError("capacity.hot_factor must be at least 1", "1 keeps every live session's KV in place")
        if settings.queue_length < 0 or settings.queue_wait_s < 0 or settings.session_s <= 0:
            raise UsageError(
                "capacity.queue_length, queue_wait_s and session_s cannot be negative", "use 0 for no queue"
            )
        self.settings = settings
        self.cap = max(0, cap)
        self.refused = 0
        self._live: OrderedDict[str, _Live] = OrderedDict()  # least recently used first
        self._queue: OrderedDict[str, float] = OrderedDict()  # session -> since when
        self._session_s = settings.session_s
        self._closed = ""

    @property
    def live_cap(self) -> int:
        live = int(self.cap * self.settings.hot_factor)
        return min(live, self.settings.max_sessions) if self.settings.max_sessions else live

    @property
    def sessions(self) -> int:
        return len(self._live)

    @property
    def queued(self) -> int:
        return len(self._queue)

    @property
    def hot(self) -> int:
        return sum(live.hot for live in self._live.values())

    def ask(self, now: float, session: str) -> Decision:
        """May `session` begin at `now`? Asking again repeats the present answer and changes nothing."""
        if session in self._live:
            return Admitted(session)
        if session in self._queue:
            return self._queued(session)
        if not self._closed and not self._queue and len(self._live) < self.live_cap:
            self._live[session] = _Live(now)
            return Admitted(session)
        wait = self._wait_s(len(self._queue) + 1)
        reason = self._why_not(wait)
        if reason:
            return self._refuse(session, reason, wait)
        self._queue[session] = now
        return self._queued(session)

    def release(self, now: float, session: str) -> tuple[str, ...]:
        """`session` is over, or gave up waiting. Returns the sessions that are admitted in its place."""
        self._queue.pop(session, None)
        live = self._live.pop(session, None)
        if live is not None:
            # A slow average: one very long or short visit does not change what newcomers are told.
            self._session_s += 0.2 * (max(1.0, now - live.since) - self._session_s)
        return self._fill(now)

    def expire(self, now: float) -> tuple[Refused, ...]:
        """Those who have waited longer than anyone should, taken off the queue."""
        late = [name for name, since in self._queue.items() if now - since > self.settings.queue_wait_s]
        for name in late:
            del self._queue[name]
        return tuple(self._refuse(name, "no place has come free", self._wait_s(1)) for name in late)

    def set_cap(self, now: float, cap: int) -> tuple[str, ...]:
        """A new measurement. Fewer never ends a session; more admits from the queue, and returns whom."""
        self.cap = max(0, cap)
        return self._fill(now)

    def close(self, reason: str) -> None:
        """Admit nobody new (draining, or the ladder's last step) until `reopen`. Those waiting keep their place."""
        self._closed = reason

    def reopen(self, now: float) -> tuple[str, ...]:
        self._closed = ""
        return self._fill(now)

    def begin_turn(self, session: str) -> Wake:
        """A turn of an admitted session starts; never refused. Unknown sessions are a programming error."""
        live = self._live[session]
        self._live.move_to_end(session)
        restore, live.parked, live.hot, live.in_turn = live.parked, False, True, True
        return Wake(restore, self._park_surplus())

    def end_turn(self, session: str) -> tuple[str, ...]:
        """The turn is over. Returns sessions to park, where turns at the same time had needed more than the cap."""
        if session in self._live:
            self._live[session].in_turn = False
        return self._park_surplus()

    def idle(self) -> tuple[str, ...]:
        """Hot sessions between turns, the longest idle first."""
        return tuple(name for name, live in self._live.items() if live.hot and not live.in_turn)

    def parked(self, session: str) -> None:
        """The engine parked this session for reasons of its own."""
        if session in self._live:
            self._park(session)

    def oldest_wait_s(self, now: float) -> float:
        return max((now - since for since in self._queue.values()), default=0.0)

    def _park_surplus(self) -> tuple[str, ...]:
        surplus = max(0, self.hot - self.cap)
        going = self.idle()[:surplus]
        for name in going:
            self._park(name)
        return going

    def _park(self, session: str) -> None:
        self._live[session].hot, self._live[session].parked = False, True

    def _fill(self, now: float) -> tuple[str, ...]:
        admitted = []
        while self._queue and len(self._live) < self.live_cap and not self._closed:
            name, _ = self._queue.popitem(last=False)
            self._live[name] = _Live(now)
            admitted.append(name)
        return tuple(admitted)

    def _why_not(self, wait: float) -> str:
        """Why a newcomer cannot even wait; empty when they can."""
        if self._closed:
            return self._closed
        if self.live_cap == 0:
            return "this box has no room for a conversation"
        if len(self._queue) >= self.settings.queue_length:
            return "everyone's place is taken and the queue is full"
        if wait > self.settings.queue_wait_s:
            return f"the wait would be about {wait:.0f} seconds"
        return ""

    def _wait_s(self, position: int) -> float:
        """Until the `position`-th place comes free: departures come at cap / mean session length."""
        return position * self._session_s / max(1, self.live_cap)

    def _queued(self, session: str) -> Queued:
        position = list(self._queue).index(session) + 1
        return Queued(session, position, self._wait_s(position))

    def _refuse(self, session: str, reason: str, retry_after_s: float) -> Refused:
        self.refused += 1
        return Refused(session, reason, max(1.0, retry_after_s))


def too_long(cells: Mapping[str, int], share_tokens: int, settings: CapacitySettings) -> tuple[str, ...]:
    """Sessions that hold more than `long_shares` shares, the longest first: their older turns are to be summarised."""
    bound = share_tokens * settings.long_shares
    over = [(held, name) for name, held in cells.items() if held > bound]
    return tuple(name for _, name in sorted(over, key=lambda each: (-each[0], each[1])))
