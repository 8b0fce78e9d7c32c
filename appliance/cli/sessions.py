"""`appliance sessions`: look at, take out and erase what the store keeps.

It owns how sessions look on a terminal and in exports. What is stored and how it is erased, the store knows.
"""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from appliance.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from appliance.store.database import Span, StoreDatabase, StoredSession, StoredTurn

app = typer.Typer(
    help="What was said: list, show, export and forget stored sessions.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Db = Annotated[Path | None, typer.Option("--db", metavar="FILE", help="Another store than this user's own.")]
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, one object a line.")]
Session = Annotated[str, typer.Argument(metavar="SESSION", help="Its id, the beginning of it, or `last`.")]


@app.command("list", epilog="Example: appliance sessions list")
def list_sessions(db: Db = None, as_json: Json = False) -> None:
    """List the sessions, the newest first."""
    store = _open(db)
    sessions = store.sessions() if store else []
    if as_json:
        from appliance.telemetry.wire import plain

        print(json.dumps({"sessions": [plain(s) for s in sessions]}, ensure_ascii=False))
        return
    if not sessions:
        print("no sessions are stored", file=sys.stderr)
        return
    _print_table(
        ("session", "station", "opened", "closed", "turns"),
        [(s.id, s.station, _short(s.opened), _short(s.closed), str(s.turns)) for s in sessions],
    )


@app.command("show", epilog="Example: appliance sessions show last 3")
def show(
    session: Session,
    turn: Annotated[int | None, typer.Argument(metavar="[TURN]", help="Show the timeline of this turn.")] = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Show the turns of a session, or one turn with its timeline."""
    from appliance.telemetry.spans import summary

    store, found = _find(db, session)
    if turn is not None:
        one = store.turn(found.id, turn)
        if one is None:
            raise UsageError(f"session {found.id} has no turn {turn}", f"appliance sessions show {found.id}")
        _show_turn(one, store.spans(found.id, turn), as_json)
        return
    turns = store.turns(found.id)
    if as_json:
        for line in _json_lines(turns):
            print(line)
        print(json.dumps({"summary": summary(t.record for t in turns)}))
        return
    print(f"session {found.id}  station {found.station}  opened {found.opened}  turns {len(turns)}")
    for stored in turns:
        print()
        print(_turn_text(stored))


@app.command("export", epilog="Example: appliance sessions export last --format markdown --out talk.md")
def export(
    session: Annotated[str | None, typer.Argument(metavar="[SESSION]", help="One session; all without it.")] = None,
    form: Annotated[str, typer.Option("--format", help="jsonl or markdown.")] = "jsonl",
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write there instead of stdout.")] = None,
    db: Db = None,
) -> None:
    """Write turns as JSON lines (everything) or Markdown (the words)."""
    if form not in ("jsonl", "markdown"):
        raise UsageError(f"unknown export format {form!r}", "use --format jsonl or --format markdown")
    store = _open(db)
    if session is not None:
        store, found = _find(db, session)
        sessions = [found]
    else:
        sessions = list(reversed(store.sessions())) if store else []
    lines: list[str] = []
    for each in sessions:
        assert store is not None
        turns = store.turns(each.id)
        lines += _json_lines(turns) if form == "jsonl" else _markdown(each, turns)
    text = "".join(f"{line}\n" for line in lines)
    if out is None:
        sys.stdout.write(text)
    else:
        out.touch(mode=0o600)
        out.write_text(text, encoding="utf-8")
        print(f"{sum(s.turns for s in sessions)} turns written to {out}", file=sys.stderr)


@app.command("forget", epilog="Example: appliance sessions forget --before 2026-01-01 --yes")
def forget(
    session: Annotated[
        str | None, typer.Argument(metavar="[SESSION]", help="Its id, the beginning of it, or `last`.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every session.")] = False,
    before: Annotated[
        str | None, typer.Option("--before", metavar="DATE", help="Sessions opened before this day or time.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    db: Db = None,
) -> None:
    """Erase sessions for good: rows, freed pages and the journal."""
    if sum((session is not None, everything, before is not None)) != 1:
        raise UsageError("say what to forget: one SESSION, --before DATE, or --all", "appliance sessions list")
    instant = None if before is None else _instant(before)
    store = _open(db)
    key = None
    if session is not None:
        store, found = _find(db, session)
        key = found.id
    if store is None:
        print("no sessions are stored", file=sys.stderr)
        return
    what = f"session {key}" if key else f"every session opened before {before}" if before else "every session"
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(f"refusing to erase {what} without being asked on a terminal", "add --yes")
        typer.confirm(f"Erase {what} for good?", abort=True, err=True)
    gone = store.forget(session=key, before=instant)
    print(f"{gone} {'session' if gone == 1 else 'sessions'} forgotten", file=sys.stderr)


def _open(db: Path | None) -> "StoreDatabase | None":
    """The store, or None where this user has none yet. A file that was named must be there."""
    from appliance.store.database import StoreDatabase, default_path

    path = db or default_path()
    if not path.exists():
        if db is not None:
            raise UsageError(f"there is no store at {db}", "leave --db out for this user's own store")
        return None
    return StoreDatabase(path)


def _find(db: Path | None, name: str) -> "tuple[StoreDatabase, StoredSession]":
    store = _open(db)
    sessions = store.sessions() if store else []
    if store is None or not sessions:
        raise UsageError("no sessions are stored", "hold a conversation first: appliance demo")
    if name == "last":
        return store, sessions[0]
    exact = [s for s in sessions if s.id == name] or [s for s in sessions if s.id.startswith(name)]
    if len(exact) != 1:
        said = f"{len(exact)} sessions begin with {name}" if exact else f"there is no session {name}"
        raise UsageError(said, "appliance sessions list")
    return store, exact[0]


def _instant(text: str) -> str:
    from datetime import datetime

    try:
        return datetime.fromisoformat(text).astimezone().isoformat()
    except ValueError as error:
        raise UsageError(f"{text!r} is not a date", "write it as 2026-01-31 or 2026-01-31T18:00") from error


def _json_lines(turns: "Iterable[StoredTurn]") -> list[str]:
    from appliance.telemetry.wire import turn_dict

    return [
        json.dumps({**turn_dict(t.record), "finished": t.finished, "mark": t.mark}, ensure_ascii=False) for t in turns
    ]


def _markdown(session: "StoredSession", turns: "Iterable[StoredTurn]") -> list[str]:
    lines = [f"# Session {session.id}", "", f"{session.opened}, station {session.station}", ""]
    for stored in turns:
        record = stored.record
        cut = " *(interrupted)*" if record.interrupted else "" if stored.finished else " *(cut off by a stop)*"
        lines += [f"**Person:** {record.heard}", "", f"**Appliance:** {record.spoken or record.reply}{cut}", ""]
    return lines


def _turn_text(stored: "StoredTurn") -> str:
    record = stored.record
    told = [f"{record.turn:3}  {_short(record.started)}"]
    if record.ms is not None:
        parts = record.ms.as_dict()
        told.append(" ".join(f"{name} {value:.0f}" for name, value in parts.items()) + " ms")
    told += ["interrupted"] if record.interrupted else []
    told += [] if stored.finished else ["not finished"]
    told += [f"marked: {stored.mark}"] if stored.mark else []
    return f"{'  '.join(told)}\n     heard   {_safe(record.heard)}\n     spoken  {_safe(record.spoken)}"


def _show_turn(stored: "StoredTurn", spans: "list[Span]", as_json: bool) -> None:
    from appliance.telemetry.wire import plain

    if as_json:
        line = json.loads(_json_lines([stored])[0])
        print(json.dumps({**line, "spans": [plain(s) for s in spans]}, ensure_ascii=False))
        return
    print(_turn_text(stored))
    print()
    for span in spans:
        if span.kind != "Levels":
            facts = "  ".join(f"{k}={_fact(v)}" for k, v in span.data.items() if v not in (None, ""))
            print(f"{span.at_ms:8.0f} ms  {span.kind:18} {facts}")


def _fact(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) and abs(value) < 1000 else _safe(str(value))


def _safe(text: str) -> str:
    """Without control characters: what a model wrote must not steer the terminal."""
    return "".join(c if c.isprintable() else " " for c in text)


def _short(instant: str | None) -> str:
    return "" if instant is None else instant[:19].replace("T", " ")


def _print_table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    for row in (head, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
