"""The SQLite file: opening it, writing turns, reading them, and forgetting them for good.

Everything here is synchronous and belongs to the one thread that opened it (`store.Store` gives it one; the
command line uses its own). It owns the file's mode, its journal and what is durable when. It does not know
the bus.
"""

import contextlib
import errno
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from appliance.errors import ApplianceError, DiskFullError, StoreError
from appliance.events import PARTS, LatencyParts, Speculation, TurnRecord
from appliance.store.schema import migrate

MARKS = ("cut off", "too slow")
_PLAIN = (
    *("session", "turn", "started", "heard", "reply", "spoken", "language", "end_reason", "tokens", "ttft_ms"),
    *("tokens_per_s", "starvation_ms", "barge_in_ms", "queue_wait_ms", "skill", "station"),
)
_LEDGER = ("tries", "held", "wasted_tokens", "spoken_tokens", "saved_ms")


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """`limit_bytes`: the file never grows beyond it (0: the disk is the limit). `busy_ms`: wait for another process."""

    limit_bytes: int = 0
    busy_ms: int = 2000


@dataclass(frozen=True, slots=True)
class Span:
    """One thing that was decided or measured in a turn, `at_ms` after its first speech sample."""

    at_ms: float
    kind: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A turn as the store has it. `finished` is False where the process died in the middle of the answer."""

    record: TurnRecord
    finished: bool
    mark: str = ""


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session and how much it holds; instants are ISO 8601."""

    id: str
    station: str
    opened: str
    closed: str | None
    reason: str
    turns: int


def default_path() -> Path:
    """`$XDG_STATE_HOME/appliance/appliance.db`, by default under `~/.local/state`."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    return base / "appliance" / "appliance.db"


def now_iso() -> str:
    return datetime.now(UTC).astimezone().isoformat(timespec="milliseconds")


class StoreDatabase:
    """An open store. Raises StoreError or DiskFullError, each naming the file and what to do."""

    def __init__(self, path: Path, settings: StoreSettings | None = None) -> None:
        self.path = path
        settings = settings or StoreSettings()
        with self._errors("opened"):
            self._prepare_file()
            import sqlite_utils

            self._conn = sqlite3.connect(path, timeout=settings.busy_ms / 1000, isolation_level=None)
            self._db = sqlite_utils.Database(self._conn, execute_plugins=False)
            with contextlib.ExitStack() as undo:
                undo.callback(self._conn.close)
                self._configure(settings)
                migrate(self._db)
                undo.pop_all()

    def _prepare_file(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Created here and not by SQLite, so that nobody else can read it for even an instant; the journal
        # files inherit the mode.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        if self.path.stat().st_mode & 0o077:
            self.path.chmod(0o600)

    def _configure(self, settings: StoreSettings) -> None:
        for pragma in (
            "journal_mode=WAL",
            "synchronous=NORMAL",
            "secure_delete=ON",
            "foreign_keys=ON",
            "temp_store=MEMORY",
        ):
            self._conn.execute(f"PRAGMA {pragma}")
        if settings.limit_bytes:
            page = self._conn.execute("PRAGMA page_size").fetchone()[0]
            self._conn.execute(f"PRAGMA max_page_count={max(16, settings.limit_bytes // page)}")

    def close(self) -> None:
        self._conn.close()

    # Writing

    def open_session(self, name: str, station: str = "default") -> str:
        """Note a session; returns the id it is kept under, which differs where an older one has that name."""
        with self._errors("written"), self._db.atomic():
            key, n = name, 1
            while self._conn.execute("SELECT 1 FROM sessions WHERE id=?", [key]).fetchone():
                n += 1
                key = f"{name}~{n}"
            self._db["sessions"].insert({"id": key, "station": station, "opened": now_iso()})
        return key

    def close_session(self, session: str, reason: str = "") -> None:
        with self._errors("written"):
            self._conn.execute("UPDATE sessions SET closed=?, reason=? WHERE id=?", [now_iso(), reason, session])

    def begin_turn(self, record: TurnRecord) -> None:
        """Write what is known of a turn under way; again whenever more is known. Survives the process's death."""
        with self._errors("written"), self._db.atomic():
            self._put(record, "open")

    def finish_turn(self, record: TurnRecord, spans: Sequence[Span] = ()) -> None:
        """Write the finished turn. On disk, through the drive's cache, when this returns."""
        with self._errors("written"):
            # FULL costs an fsync of the journal, so it is asked for only here, where it is a promise.
            self._conn.execute("PRAGMA synchronous=FULL")
            try:
                with self._db.atomic():
                    self._put(record, "finished")
                    key = [record.session, record.turn]
                    self._conn.execute("DELETE FROM spans WHERE session=? AND turn=?", key)
                    self._conn.executemany(
                        "INSERT INTO spans(session, turn, seq, at_ms, kind, data) VALUES (?,?,?,?,?,?)",
                        [
                            (*key, n, round(s.at_ms, 2), s.kind, json.dumps(s.data, ensure_ascii=False))
                            for n, s in enumerate(spans)
                        ],
                    )
            finally:
                self._conn.execute("PRAGMA synchronous=NORMAL")

    def _put(self, record: TurnRecord, state: str) -> None:
        row = {**to_row(record), "state": state}
        self._conn.execute(
            "INSERT OR IGNORE INTO sessions(id, station, opened) VALUES (?,?,?)",
            [record.session, record.station, record.started],
        )
        names = ", ".join(row)
        marks = ", ".join("?" * len(row))
        updates = ", ".join(f"{name}=excluded.{name}" for name in row if name not in ("session", "turn"))
        self._conn.execute(
            f"INSERT INTO turns({names}) VALUES ({marks}) ON CONFLICT(session, turn) DO UPDATE SET {updates}",
            list(row.values()),
        )

    def drop_turn(self, session: str, turn: int) -> None:
        """Take back a turn that turned out to hold no words."""
        with self._errors("written"), self._db.atomic():
            self._conn.execute("DELETE FROM turns WHERE session=? AND turn=? AND state='open'", [session, turn])

    def mark(self, session: str, turn: int, mark: str) -> bool:
        """Set a turn's mark ("" takes it away). False where there is no such turn."""
        if mark and mark not in MARKS:
            raise ValueError(f"unknown mark {mark!r}")
        with self._errors("written"):
            sql = "UPDATE turns SET mark=? WHERE session=? AND turn=?"
            return bool(self._conn.execute(sql, [mark, session, turn]).rowcount)

    # Reading

    def sessions(self, limit: int = 1000) -> list[StoredSession]:
        """The newest first."""
        sql = (
            "SELECT id, station, opened, closed, COALESCE(reason, ''), (SELECT COUNT(*) FROM turns WHERE session=id)"
            " FROM sessions ORDER BY opened DESC, rowid DESC LIMIT ?"
        )
        with self._errors("read"):
            return [StoredSession(*row) for row in self._conn.execute(sql, [limit])]

    def turns(self, session: str | None = None, limit: int = 100_000) -> list[StoredTurn]:
        """A session's turns in order; without a session the newest `limit` of all, the oldest of them first."""
        where, args = ("WHERE session=?", [session]) if session is not None else ("", [])
        sql = f"SELECT * FROM turns {where} ORDER BY started DESC, turn DESC LIMIT ?"
        with self._errors("read"):
            rows = list(self._db.query(sql, [*args, limit]))
        return [from_row(row) for row in reversed(rows)]

    def turn(self, session: str, turn: int) -> StoredTurn | None:
        with self._errors("read"):
            rows = list(self._db.query("SELECT * FROM turns WHERE session=? AND turn=?", [session, turn]))
        return from_row(rows[0]) if rows else None

    def locate(self, record: TurnRecord) -> str | None:
        """The id of the session that holds `record`, whose live name it may be; None where it is not stored."""
        sql = (
            "SELECT session FROM turns WHERE turn=? AND started=? AND (session=? OR substr(session, 1, ?)=?)"
            " ORDER BY session=? DESC LIMIT 1"
        )
        prefix = f"{record.session}~"
        args = [record.turn, record.started, record.session, len(prefix), prefix, record.session]
        with self._errors("read"):
            row = self._conn.execute(sql, args).fetchone()
        return None if row is None else str(row[0])

    def spans(self, session: str, turn: int) -> list[Span]:
        """The timeline of one turn, in order."""
        sql = "SELECT at_ms, kind, data FROM spans WHERE session=? AND turn=? ORDER BY seq"
        with self._errors("read"):
            return [Span(at, kind, json.loads(data)) for at, kind, data in self._conn.execute(sql, [session, turn])]

    # Forgetting

    def forget(self, *, session: str | None = None, before: str | None = None) -> int:
        """Erase one session, or those opened before an ISO 8601 instant, or (neither given) everything.

        Rows, freed pages and the write-ahead log are emptied, so that the words are in no file any more.
        Returns how many sessions went.
        """
        if session is not None:
            which, args = "id=?", [session]
        elif before is not None:
            which, args = "julianday(opened) < julianday(?)", [before]
        else:
            which, args = "1", []
        with self._errors("emptied"):
            with self._db.atomic():
                chosen = f"(SELECT id FROM sessions WHERE {which})"
                self._conn.execute(f"DELETE FROM spans WHERE session IN {chosen}", args)
                self._conn.execute(f"DELETE FROM turns WHERE session IN {chosen}", args)
                gone = self._conn.execute(f"DELETE FROM sessions WHERE {which}", args).rowcount
            self._empty_freed()
        return gone

    def _empty_freed(self) -> None:
        """Rewrite the file without its freed pages, and the log down to nothing."""
        self._conn.execute("VACUUM")
        busy = self._conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if busy:
            raise StoreError(
                f"{self.path} is being read by another process, so its journal still holds what was forgotten",
                "close other programs that have the store open and run forget again",
            )

    @contextlib.contextmanager
    def _errors(self, verb: str) -> Iterator[None]:
        """Turn what SQLite and the file system say into one sentence about this file."""
        try:
            yield
        except ApplianceError:
            raise
        except sqlite3.Error as error:
            raise self._explain(verb, error) from error
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise self._full() from error
            reason = error.strerror or str(error)
            raise StoreError(f"the store {self.path} cannot be {verb}: {reason}", _ELSEWHERE) from error

    def _explain(self, verb: str, error: sqlite3.Error) -> ApplianceError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_FULL:
            return self._full()
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return StoreError(f"{self.path} is not a sound appliance store: {error}", "move it away; a new one is made")
        if code == sqlite3.SQLITE_BUSY:
            return StoreError(f"the store {self.path} is locked by another process", "close it and try again")
        return StoreError(f"the store {self.path} cannot be {verb}: {error}", _ELSEWHERE)

    def _full(self) -> DiskFullError:
        return DiskFullError(
            f"no space is left for the store {self.path}",
            "free some space, or empty the store with: appliance sessions forget",
        )


_ELSEWHERE = "check its permissions, or choose another place with XDG_STATE_HOME or --db"


def to_row(record: TurnRecord) -> dict[str, Any]:
    """The columns of `turns` that a record fills."""
    row: dict[str, Any] = {name: getattr(record, name) for name in _PLAIN}
    row["interrupted"] = int(record.interrupted)
    for part in PARTS:
        row[f"{part}_ms"] = None if record.ms is None else getattr(record.ms, part)
    for name in _LEDGER:
        row[f"speculation_{name}"] = getattr(record.speculation, name)
    return row


def from_row(row: dict[str, Any]) -> StoredTurn:
    timed = row["endpoint_ms"] is not None
    ledger = {name: row[f"speculation_{name}"] for name in _LEDGER}
    ledger["held"] = bool(ledger["held"])
    record = TurnRecord(
        **{name: row[name] for name in _PLAIN},
        interrupted=bool(row["interrupted"]),
        ms=LatencyParts(*(row[f"{part}_ms"] for part in PARTS)) if timed else None,
        speculation=Speculation(**ledger),
    )
    return StoredTurn(record, row["state"] == "finished", row["mark"] or "")
