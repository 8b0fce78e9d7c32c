"""The file: written, migrated, erased to the last byte, and every kind of trouble named."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import sqlite_utils

from appliance.errors import DiskFullError, StoreError
from appliance.events import LatencyParts, Speculation, TurnRecord
from appliance.store.database import Span, StoreDatabase, StoreSettings, default_path
from appliance.store.schema import migrations


def turn(session: str = "one", n: int = 1, **changes: object) -> TurnRecord:
    values: dict[str, object] = {
        "started": f"2026-01-01T00:00:{n % 60:02}+00:00",
        "heard": "what time is it",
        "reply": "It is ten. Anything else?",
        "spoken": "It is ten.",
        "interrupted": True,
        "ms": LatencyParts(201.5, 3.25, 100.0, 0.0, 12.0),
        "tokens": 9,
        "ttft_ms": 81.5,
        "tokens_per_s": 30.5,
        "barge_in_ms": 90.0,
        "speculation": Speculation(tries=2, held=True, wasted_tokens=3, spoken_tokens=9, saved_ms=210.0),
        "skill": "clock",
        "station": "kitchen",
        "end_reason": "score",
    }
    return TurnRecord(session=session, turn=n, **{**values, **changes})  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "appliance.db"


def test_a_turn_comes_back_as_it_went_with_its_spans(path: Path) -> None:
    store = StoreDatabase(path)
    spans = [Span(0.0, "SpeechStarted", {}), Span(812.25, "Transcribed", {"kind": "final", "text": "für Elise"})]
    store.finish_turn(turn(), spans)
    store.finish_turn(turn(n=2, ms=None, ttft_ms=None))
    store.close()
    again = StoreDatabase(path)
    first, second = again.turns("one")
    assert first.record == turn()
    assert first.finished
    assert second.record.ms is None
    assert again.spans("one", 1) == spans
    assert again.turn("one", 3) is None


def test_a_turn_under_way_is_rewritten_until_it_is_finished(path: Path) -> None:
    store = StoreDatabase(path)
    store.begin_turn(turn(reply="It is", spoken="", ms=None))
    store.begin_turn(turn(reply="It is ten.", spoken="It", ms=None))
    (open_turn,) = store.turns()
    assert (open_turn.finished, open_turn.record.reply, open_turn.record.spoken) == (False, "It is ten.", "It")
    store.finish_turn(turn())
    assert [t.finished for t in store.turns()] == [True]
    store.drop_turn("one", 1)
    assert len(store.turns()) == 1, "a finished turn is never taken back"


def test_an_older_session_of_the_same_name_stays_untouched(path: Path) -> None:
    store = StoreDatabase(path)
    assert [store.open_session("demo") for _ in range(3)] == ["demo", "demo~2", "demo~3"]
    store.close_session("demo~2", "done")
    assert [(s.id, s.reason) for s in store.sessions()] == [("demo~3", ""), ("demo~2", "done"), ("demo", "")]


def test_marks(path: Path) -> None:
    store = StoreDatabase(path)
    store.finish_turn(turn())
    assert store.mark("one", 1, "cut off")
    assert store.turns()[0].mark == "cut off"
    store.finish_turn(turn())
    assert store.turns()[0].mark == "cut off", "writing the turn again keeps the mark"
    assert store.mark("one", 1, "")
    assert not store.mark("one", 2, "too slow")
    with pytest.raises(ValueError, match="unknown mark"):
        store.mark("one", 1, "nonsense")


def test_only_its_owner_can_read_it(path: Path) -> None:
    path.parent.mkdir()
    path.touch(mode=0o644)
    store = StoreDatabase(path)
    store.finish_turn(turn())
    for file in path.parent.iterdir():
        assert file.stat().st_mode & 0o777 == 0o600, file


def test_the_finished_turn_is_asked_to_the_disk_and_the_provisional_is_not(path: Path) -> None:
    store = StoreDatabase(path)
    said: list[str] = []
    store._conn.set_trace_callback(said.append)
    store.begin_turn(turn())
    assert not any("synchronous" in s for s in said)
    store.finish_turn(turn())
    full, commit, normal = (next(i for i, s in enumerate(said) if part in s and i >= start) for part, start in
                            (("synchronous=FULL", 0), ("COMMIT", said.index("PRAGMA synchronous=FULL")),
                             ("synchronous=NORMAL", 0)))  # fmt: skip
    assert full < commit < normal
    assert store._conn.execute("PRAGMA journal_mode").fetchone()[0] == "wal"


# Forgetting


def _bytes(folder: Path) -> bytes:
    return b"".join(f.read_bytes() for f in folder.iterdir())


def test_forget_leaves_no_byte_of_the_words_in_any_file(path: Path) -> None:
    store = StoreDatabase(path)
    for n in range(1, 200):
        store.finish_turn(
            turn("secret", n, heard=f"xylophone {n} " * 20), [Span(0, "Transcribed", {"text": "zeppelin"})]
        )
    store.finish_turn(turn("other", 1, heard="harmless"))
    assert b"xylophone" in _bytes(path.parent)
    assert b"zeppelin" in _bytes(path.parent)
    assert store.forget(session="secret") == 1
    left = _bytes(path.parent)
    assert b"xylophone" not in left
    assert b"zeppelin" not in left
    assert b"harmless" in left
    assert store.forget() == 1
    assert b"harmless" not in _bytes(path.parent)
    assert store.sessions() == []


def test_forget_works_beside_another_idle_connection(path: Path) -> None:
    running = StoreDatabase(path)
    running.finish_turn(turn("secret", heard="xylophone"))
    visitor = StoreDatabase(path)
    assert visitor.forget() == 1
    assert b"xylophone" not in _bytes(path.parent)
    running.finish_turn(turn("next"))
    assert [s.id for s in visitor.sessions()] == ["next"]


def test_forget_says_when_a_reader_keeps_the_journal(path: Path) -> None:
    store = StoreDatabase(path, StoreSettings(busy_ms=0))
    store.finish_turn(turn(heard="xylophone"))
    reader = sqlite3.connect(path)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM turns").fetchall()
    with pytest.raises(StoreError) as caught:
        store.forget()
    assert caught.value.hint
    reader.rollback()
    store.forget()
    assert b"xylophone" not in _bytes(path.parent)


def test_forget_before_a_day_compares_instants_not_strings(path: Path) -> None:
    store = StoreDatabase(path)
    for name, opened in (("old", "2026-01-01T23:30:00-05:00"), ("new", "2026-01-02T06:00:00+00:00")):
        store.open_session(name)
        store._conn.execute("UPDATE sessions SET opened=? WHERE id=?", [opened, name])
    assert store.forget(before="2026-01-02T05:00:00+00:00") == 1
    assert [s.id for s in store.sessions()] == ["new"]


# Migrations


def test_every_migration_is_recorded_by_name(path: Path) -> None:
    db = StoreDatabase(path)._db
    assert [m.name for m in migrations.applied(db)] == ["m001_sessions_turns_spans", "m002_marks"]


def test_the_first_schema_is_brought_up_with_its_turns(path: Path) -> None:
    path.parent.mkdir()
    old = sqlite_utils.Database(path)
    migrations.apply(old, stop_before="m002_marks")
    old["sessions"].insert({"id": "old", "station": "default", "opened": "2025-01-01T00:00:00+00:00"})
    old["turns"].insert({"session": "old", "turn": 1, "state": "finished", "started": "2025-01-01T00:00:00+00:00",
                         "heard": "hello", "reply": "hi", "spoken": "hi", "interrupted": 0, "language": "en",
                         "end_reason": "", "tokens": 1, "starvation_ms": 0, "queue_wait_ms": 0, "speculation_tries": 0,
                         "speculation_held": 0, "speculation_wasted_tokens": 0, "speculation_spoken_tokens": 0,
                         "speculation_saved_ms": 0, "skill": "", "station": "default"})  # fmt: skip
    old.close()
    store = StoreDatabase(path)
    (stored,) = store.turns("old")
    assert (stored.record.heard, stored.mark) == ("hello", "")
    assert store.mark("old", 1, "too slow")


def test_a_blank_file_and_a_migrated_one_have_the_same_shape(path: Path, tmp_path: Path) -> None:
    first = tmp_path / "first.db"
    old = sqlite_utils.Database(first)
    migrations.apply(old, stop_before="m002_marks")
    old.close()
    assert StoreDatabase(first)._db.schema == StoreDatabase(path)._db.schema


def test_opening_again_changes_nothing(path: Path) -> None:
    StoreDatabase(path).close()
    before = path.read_bytes()
    StoreDatabase(path).close()
    assert path.read_bytes() == before


# Trouble


def test_a_newer_version_is_refused_and_left_alone(path: Path) -> None:
    StoreDatabase(path).close()
    newer = sqlite_utils.Database(path)
    newer["_sqlite_migrations"].insert({"migration_set": "appliance", "name": "m999_future", "applied_at": "later"})
    newer.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"newer version.*m999_future") as caught:
        StoreDatabase(path)
    assert caught.value.hint
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"not a database at all, but long enough to have a header" * 40, b"\0" * 4096])
def test_what_is_no_database_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(StoreError, match=str(path)) as caught:
        StoreDatabase(path)
    assert caught.value.hint
    assert path.read_bytes() == content


def test_a_place_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be opened") as caught:
        StoreDatabase(tmp_path / "file" / "appliance.db")
    assert "XDG_STATE_HOME" in caught.value.hint


_READ_ONLY_HOME = """
import os, pathlib, sys
from appliance.errors import StoreError
from appliance.store.database import StoreDatabase
import sqlite_utils, sqlite3
if os.geteuid() == 0: os.setgid(65534); os.setuid(65534)
try: StoreDatabase(pathlib.Path(sys.argv[1]) / "state" / "appliance.db")
except StoreError as error: print(error.message, "|", error.hint)
"""


def test_a_read_only_home_is_one_sentence(tmp_path: Path) -> None:
    home = Path("/tmp") / f"appliance-test-{os.getpid()}"  # tmp_path's parents are closed to other users
    home.mkdir(mode=0o555)
    try:
        run = [sys.executable, "-c", _READ_ONLY_HOME, str(home)]
        out = subprocess.run(run, capture_output=True, text=True, check=False, timeout=60)
    finally:
        home.rmdir()
    assert "cannot be opened: Permission denied |" in out.stdout, out.stderr


def test_a_full_disk_is_its_own_error_and_the_rows_before_it_stay(path: Path) -> None:
    store = StoreDatabase(path, StoreSettings(limit_bytes=100_000))

    def fill() -> None:
        for n in range(1, 100):
            store.finish_turn(turn(n=n, heard="word " * 1000))
            stored.append(n)

    stored: list[int] = []
    with pytest.raises(DiskFullError) as caught:
        fill()
    assert "forget" in caught.value.hint
    assert len(stored) > 2
    assert len(store.turns()) == len(stored)
    assert path.stat().st_size <= 100_000
    store.forget()
    store.finish_turn(turn(n=1))


def test_the_default_place_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere")
    assert default_path() == Path("/somewhere/appliance/appliance.db")
    monkeypatch.setenv("XDG_STATE_HOME", "relative/is/to/be/ignored")
    monkeypatch.setenv("HOME", "/home/someone")
    assert default_path() == Path("/home/someone/.local/state/appliance/appliance.db")
