"""The store as the running appliance sees it: one thread owns the SQLite connection, callers await.

It owns that thread and its bounded inbox, and the mapping from a live session's name to the id it is kept
under. What a turn looks like in SQL is `database`'s business; which events become rows is `feed`'s.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from appliance.engines.worker import Worker
from appliance.events import TurnRecord
from appliance.store.database import Span, StoreDatabase, StoredSession, StoredTurn, StoreSettings, default_path

T = TypeVar("T")


class Store:
    """Open store with its own thread. Constructing it opens the file and raises StoreError or DiskFullError.

    Every coroutine raises those two when the file cannot be written, and EngineError when more than
    `inbox` calls wait.
    """

    def __init__(self, path: Path | None = None, settings: StoreSettings | None = None, inbox: int = 256) -> None:
        self.path = path or default_path()
        self._worker = Worker("store", limit=inbox)
        self._ids: dict[str, str] = {}
        with ExitStack() as undo:
            undo.callback(self._worker.stop)
            self._db = self._worker.submit(partial(StoreDatabase, self.path, settings)).result()
            undo.pop_all()

    async def open_session(self, name: str, station: str = "default") -> str:
        """Note a live session. Later calls may use `name`; an older session of that name stays untouched."""
        self._ids[name] = await self._call(partial(self._db.open_session, name, station))
        return self._ids[name]

    async def close_session(self, name: str, reason: str = "") -> None:
        await self._call(partial(self._db.close_session, self.id_of(name), reason))

    async def begin_turn(self, record: TurnRecord) -> None:
        """Write what is known so far, before the answer is audible. Survives the process's death."""
        await self._call(partial(self._db.begin_turn, self._own(record)))

    async def finish_turn(self, record: TurnRecord, spans: Sequence[Span] = ()) -> None:
        """Durable, through the drive's cache, when this returns."""
        await self._call(partial(self._db.finish_turn, self._own(record), spans))

    async def drop_turn(self, session: str, turn: int) -> None:
        await self._call(partial(self._db.drop_turn, self.id_of(session), turn))

    async def mark(self, session: str, turn: int, mark: str) -> bool:
        """`mark`: "cut off", "too slow", or "" to take it away. False where there is no such turn."""
        return await self._call(partial(self._db.mark, self.id_of(session), turn, mark))

    async def sessions(self, limit: int = 100) -> list[StoredSession]:
        return await self._call(partial(self._db.sessions, limit))

    async def turns(self, session: str | None = None, limit: int = 200) -> list[StoredTurn]:
        """The newest `limit` turns, oldest first; of one session or of all."""
        key = None if session is None else self.id_of(session)
        return await self._call(partial(self._db.turns, key, limit))

    async def turn(self, session: str, turn: int) -> StoredTurn | None:
        return await self._call(partial(self._db.turn, self.id_of(session), turn))

    async def locate(self, record: TurnRecord) -> str | None:
        """The id of the stored session that holds `record`; None where it is not stored."""
        return await self._call(partial(self._db.locate, record))

    async def spans(self, session: str, turn: int) -> list[Span]:
        return await self._call(partial(self._db.spans, self.id_of(session), turn))

    async def forget(self, *, session: str | None = None, before: str | None = None) -> int:
        """Erase one session, those opened before an ISO 8601 instant, or everything; see `StoreDatabase.forget`."""
        key = None if session is None else self.id_of(session)
        return await self._call(partial(self._db.forget, session=key, before=before))

    async def flush(self) -> None:
        """Return once everything asked for before this call has been done."""
        await self._call(lambda: None)

    def close(self) -> None:
        """Finish what waits, close the file, stop the thread. Idempotent; blocks for a few ms."""
        closed: Future[None] = self._worker.submit(self._db.close)
        if closed.exception() is None:
            self._worker.stop()

    def knows(self, name: str) -> bool:
        """Whether a live session of that name was opened."""
        return name in self._ids

    def forget_name(self, name: str) -> None:
        """The next `open_session` of `name` is another session. Its turns stay."""
        self._ids.pop(name, None)

    def id_of(self, name: str) -> str:
        """The id a live session is kept under; any other name is taken for an id."""
        return self._ids.get(name, name)

    def _own(self, record: TurnRecord) -> TurnRecord:
        key = self.id_of(record.session)
        return record if key == record.session else replace(record, session=key)

    async def _call(self, fn: Callable[[], T]) -> T:
        return await self._worker.call(fn)
