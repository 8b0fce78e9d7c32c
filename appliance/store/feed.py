"""From the bus into the store: which events become rows, and what happens while nothing can be written.

It owns the draft of each turn under way, its timeline, and the bounded set of finished turns that wait for a
disk with space. It does not know SQL. The conversation never waits for it.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from appliance.clock import Clock, MonotonicClock
from appliance.errors import ApplianceError
from appliance.events import (
    ClauseReady,
    Event,
    Heard,
    Level,
    Notice,
    PlaybackStarted,
    SessionClosed,
    SessionOpened,
    SpeechResumed,
    SpeechStarted,
    StateChanged,
    Transcribed,
    TurnDropped,
    TurnEnded,
    TurnFinished,
    TurnRecord,
)
from appliance.store.database import Span
from appliance.store.store import Store
from appliance.telemetry.bus import Bus
from appliance.telemetry.wire import plain

_LEVELS = 512  # points of the level curve kept a turn; a longer turn keeps every other one
_TIMELINE = 1000  # events kept a turn; what a 90 s monologue makes is a third of it


@dataclass(frozen=True, slots=True)
class FeedSettings:
    """`hold_turns`: finished turns kept in memory while the disk is full; then the oldest is given up."""

    hold_turns: int = 200
    retry_s: float = 5.0
    heard_every_s: float = 0.5  # how often the part already heard of a long answer is written down


@dataclass(slots=True)
class _Draft:
    """A turn under way, as far as its events tell."""

    started: str
    over: bool = False
    end_reason: str = ""
    heard: str = ""
    language: str = "en"
    spoken: str = ""
    spoken_at: float = float("-inf")
    clauses: dict[int, str] = field(default_factory=dict)
    timeline: list[Event] = field(default_factory=list)
    levels: list[Level] = field(default_factory=list)
    level_step: int = 1
    level_skip: int = 0

    def note(self, event: Event) -> None:
        if isinstance(event, Level):
            self._note_level(event)
        elif len(self.timeline) < _TIMELINE:
            self.timeline.append(event)

    def _note_level(self, event: Level) -> None:
        self.level_skip += 1
        if self.level_skip < self.level_step:
            return
        self.level_skip = 0
        self.levels.append(event)
        if len(self.levels) >= _LEVELS:
            self.levels = self.levels[::2]
            self.level_step *= 2

    def record(self, session: str, turn: int, station: str) -> TurnRecord:
        reply = " ".join(self.clauses[i].strip() for i in sorted(self.clauses))
        return TurnRecord(
            session=session,
            turn=turn,
            started=self.started,
            heard=self.heard,
            reply=reply,
            spoken=self.spoken,
            interrupted=False,
            ms=None,
            language=self.language,
            end_reason=self.end_reason,
            station=station,
        )

    def spans(self) -> list[Span]:
        """The timeline in ms from the first speech sample; the level curve is one span."""
        starts = [e.at for e in self.timeline if isinstance(e, SpeechStarted)]
        every = [e.at for e in (*self.timeline, *self.levels)]
        origin = min(starts or every, default=0.0)
        spans = [Span((e.at - origin) * 1000, type(e).__name__, _data(e)) for e in self.timeline]
        spans.sort(key=lambda span: span.at_ms)
        if self.levels:
            at_ms = [round((e.at - origin) * 1000) for e in self.levels]
            curve = {
                "at_ms": at_ms,
                "speech": [round(e.speech, 3) for e in self.levels],
                "input_dbfs": [round(e.input_dbfs, 1) for e in self.levels],
                "output_dbfs": [round(e.output_dbfs, 1) for e in self.levels],
            }
            spans.append(Span(at_ms[0], "Levels", curve))
        return spans


def _data(event: Event) -> dict[str, object]:
    return {k: v for k, v in plain(event).items() if k not in ("at", "session", "turn")}


class StoreFeed:
    """Listens to `bus` from its construction on and writes to `store` while `run` runs."""

    def __init__(
        self, store: Store, bus: Bus, settings: FeedSettings | None = None, clock: Clock | None = None
    ) -> None:
        self.lost = 0  # finished turns given up for want of space
        self._store = store
        self._bus = bus
        self._settings = settings or FeedSettings()
        self._clock = clock or MonotonicClock()
        self._subscription = bus.subscribe(limit=1024, durable=True)
        self._drafts: dict[tuple[str, int], _Draft] = {}
        self._current: dict[str, int] = {}
        self._stations: dict[str, str] = {}
        self._held: deque[tuple[TurnRecord, list[Span]]] = deque()
        self._failing = False
        self._retry: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()
        self._busy = False
        self._stepped = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Listen and write in a task of its own until `close`."""
        self._running = asyncio.get_running_loop().create_task(self._run())

    async def caught_up(self) -> None:
        """Return once everything published so far has been written, or is held for want of space."""
        while len(self._subscription) or self._busy:
            self._stepped.clear()
            await self._stepped.wait()

    async def close(self) -> None:
        """Write everything published so far, as far as the disk allows, and stop. `lost` is final then."""
        self._subscription.close()
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())
        await self._running
        if self._retry is not None:
            self._retry.cancel()
        try:
            await self._write_held()
            await self._store.flush()
        except ApplianceError:
            self.lost += len(self._held)
            self._held.clear()

    async def _run(self) -> None:
        async for event in self._subscription:
            self._busy = True
            try:
                await self._take(event)
            except ApplianceError as error:  # trouble with the store must not end the listening
                self._tell(error)
            finally:
                self._busy = False
                self._stepped.set()

    @property
    def held(self) -> int:
        """Finished turns that wait for the disk."""
        return len(self._held)

    async def _take(self, event: Event) -> None:
        match event:
            case SessionOpened():
                self._stations[event.session] = event.station
                self._store.forget_name(event.session)
                await self._ensure(event.session)
            case SessionClosed():
                for key in [k for k in self._drafts if k[0] == event.session]:
                    del self._drafts[key]
                self._current.pop(event.session, None)
                await self._ensure(event.session)
                await self._store.close_session(event.session, event.reason)
            case TurnFinished():
                await self._finish(event.record)
            case TurnDropped():
                self._drafts.pop((event.session, event.turn), None)
                if self._store.knows(event.session):
                    await self._store.drop_turn(event.session, event.turn)
            case _ if event.session:
                await self._follow(event)
            case _:
                pass

    async def _follow(self, event: Event) -> None:
        """Keep the draft of the turn up to date, and write it down once the turn is over."""
        turn = event.turn or self._current.get(event.session, 0)
        if turn == 0 or (isinstance(event, Level) and (event.session, turn) not in self._drafts):
            return
        self._current[event.session] = turn
        key = (event.session, turn)
        draft = self._drafts.get(key)
        if draft is None:
            draft = self._drafts[key] = _Draft(started=self._wall(event.at))
        if not isinstance(event, (Heard, StateChanged)):
            draft.note(event)
        if self._learn(draft, event) and draft.over:
            await self._ensure(event.session)
            await self._store.begin_turn(draft.record(*key, self._stations.get(event.session, "default")))

    def _learn(self, draft: _Draft, event: Event) -> bool:
        """True where the event changes what should be on disk."""
        match event:
            case Transcribed() if event.kind != "partial":
                draft.heard, draft.language = event.text, event.language
            case SpeechResumed():
                draft.clauses.clear()
                return False
            case ClauseReady():
                draft.clauses[event.index] = event.text
            case TurnEnded():
                draft.over, draft.end_reason = True, event.reason
            case PlaybackStarted():
                pass
            case Heard():
                draft.spoken = event.spoken
                if event.at - draft.spoken_at < self._settings.heard_every_s:
                    return False
                draft.spoken_at = event.at
            case _:
                return False
        return True

    async def _finish(self, record: TurnRecord) -> None:
        draft = self._drafts.pop((record.session, record.turn), None)
        if self._current.get(record.session) == record.turn:
            del self._current[record.session]
        self._stations.setdefault(record.session, record.station)
        self._held.append((record, draft.spans() if draft else []))
        if len(self._held) > self._settings.hold_turns:
            self._held.popleft()
            self.lost += 1
        await self._write_held()

    async def _write_held(self) -> None:
        """Oldest first; the first that cannot be written stops it and stays."""
        async with self._writing:
            while self._held:
                item = self._held[0]
                record, spans = item
                await self._ensure(record.session)
                await self._store.finish_turn(record, spans)
                if self._held and self._held[0] is item:
                    self._held.popleft()
                if self._failing and not self._held:
                    self._failing = False
                    self._notice("info", f"the store can be written again; turns lost: {self.lost}")

    async def _ensure(self, session: str) -> None:
        if not self._store.knows(session):
            await self._store.open_session(session, self._stations.get(session, "default"))

    def _tell(self, error: ApplianceError) -> None:
        """Say it once an outage, and try again later."""
        if not self._failing:
            self._failing = True
            self._notice("error", f"{error.message}; the conversation goes on, turns are kept in memory", error.hint)
        if self._retry is None or self._retry.done():
            self._retry = asyncio.get_running_loop().create_task(self._try_again())

    async def _try_again(self) -> None:
        while self._failing:
            await self._clock.sleep_until(self._clock.now() + self._settings.retry_s)
            try:
                await self._write_held()
            except ApplianceError:
                continue

    def _notice(self, level: str, message: str, hint: str = "") -> None:
        self._bus.publish(Notice(at=self._clock.now(), level=level, message=message, hint=hint))

    def _wall(self, at: float) -> str:
        """The wall-clock time of an instant of the monotonic clock."""
        ago = timedelta(seconds=self._clock.now() - at)
        return (datetime.now(UTC).astimezone() - ago).isoformat(timespec="milliseconds")
