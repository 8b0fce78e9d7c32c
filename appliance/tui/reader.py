"""Stored turns for the screen, opened when first asked for and never before.

It owns the way from a turn on the screen to its rows, whatever id its session is kept under.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from appliance.events import TurnRecord
from appliance.store.database import Span, StoredTurn
from appliance.store.store import Store


class StoredTurns:
    """A `TurnReader` over the store at `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._store: Store | None = None

    async def recent(self, limit: int) -> Sequence[StoredTurn]:
        return [t for t in await (await self._open()).turns(limit=limit) if t.finished]

    async def timeline(self, record: TurnRecord) -> Sequence[Span]:
        store = await self._open()
        session = await store.locate(record)
        return () if session is None else await store.spans(session, record.turn)

    async def mark(self, record: TurnRecord, mark: str) -> bool:
        store = await self._open()
        session = await store.locate(record)
        return session is not None and await store.mark(session, record.turn, mark)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    async def _open(self) -> Store:
        if self._store is None:
            self._store = await asyncio.to_thread(Store, self._path)
        return self._store
