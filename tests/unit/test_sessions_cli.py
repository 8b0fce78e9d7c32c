"""`appliance sessions` as a person and as a script use it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from appliance.cli.sessions import app
from appliance.errors import StoreError, UsageError
from appliance.events import LatencyParts, TurnRecord
from appliance.store.database import Span, StoreDatabase


def turn(session: str, n: int, heard: str = "what time is it") -> TurnRecord:
    return TurnRecord(
        session=session, turn=n, started=f"2026-01-01T00:00:{n:02}+00:00", heard=heard, reply="It is ten.",
        spoken="It is ten.", interrupted=n == 2, ms=LatencyParts(200 * n, 0, 90, 0, 12),
    )  # fmt: skip


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "appliance.db"
    store = StoreDatabase(path)
    for name in ("kitchen-1", "kitchen-2"):
        store.open_session(name, "kitchen")
        for n in (1, 2, 3):
            store.finish_turn(
                turn(name, n), [Span(0, "SpeechStarted", {}), Span(212.4, "TurnEnded", {"reason": "score"})]
            )
    store.mark("kitchen-2", 3, "too slow")
    store.close()
    return path


def run(*args: object, **kwargs: object) -> tuple[str, str]:
    result = CliRunner().invoke(app, [str(a) for a in args], catch_exceptions=False, standalone_mode=False, **kwargs)  # type: ignore[arg-type]
    return result.stdout, result.stderr


def test_list(db: Path) -> None:
    out, _ = run("list", "--db", db)
    lines = out.splitlines()
    assert lines[0].split() == ["session", "station", "opened", "closed", "turns"]
    assert [line.split()[0] for line in lines[1:]] == ["kitchen-2", "kitchen-1"]
    (line,) = run("list", "--db", db, "--json")[0].splitlines()
    assert [(s["id"], s["turns"]) for s in json.loads(line)["sessions"]] == [("kitchen-2", 3), ("kitchen-1", 3)]


def test_list_without_a_store_is_empty_and_makes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    out, err = run("list")
    assert (out, err) == ("", "no sessions are stored\n")
    assert json.loads(run("list", "--json")[0]) == {"sessions": []}
    assert list(tmp_path.iterdir()) == []


def test_show_prints_turns_and_json_has_the_promised_keys(db: Path) -> None:
    out, _ = run("show", "last", "--db", db)
    assert "session kitchen-2" in out
    assert out.count("what time is it") == 3
    assert "marked: too slow" in out
    assert "voice_to_voice 302 ms" in out
    lines = [json.loads(line) for line in run("show", "kitchen-1", "--db", db, "--json")[0].splitlines()]
    assert [line["turn"] for line in lines[:-1]] == [1, 2, 3]
    assert set(lines[0]) >= {"turn", "heard", "reply", "spoken", "interrupted", "ms"}
    assert lines[-1]["summary"]["p95"]["voice_to_voice"] == 702


def test_show_a_turn_prints_its_timeline(db: Path) -> None:
    out, _ = run("show", "last", 3, "--db", db)
    assert "212 ms  TurnEnded" in out
    assert "reason=score" in out
    line = json.loads(run("show", "last", 3, "--db", db, "--json")[0])
    assert line["spans"][1] == {"at_ms": 212.4, "kind": "TurnEnded", "data": {"reason": "score"}}


def test_a_reply_cannot_steer_the_terminal(db: Path) -> None:
    store = StoreDatabase(db)
    store.finish_turn(turn("kitchen-2", 4, heard="\x1b]0;owned\x07\x1b[2J"))
    store.close()
    assert "\x1b" not in run("show", "last", "--db", db)[0]


def test_export(db: Path, tmp_path: Path) -> None:
    lines = run("export", "--db", db)[0].splitlines()
    assert [json.loads(line)["session"] for line in lines] == ["kitchen-1"] * 3 + ["kitchen-2"] * 3
    to = tmp_path / "talk.md"
    out, err = run("export", "kitchen-1", "--format", "markdown", "--out", to, "--db", db)
    assert (out, err) == ("", f"3 turns written to {to}\n")
    assert to.stat().st_mode & 0o777 == 0o600
    text = to.read_text()
    assert text.count("**Person:** what time is it") == 3
    assert "*(interrupted)*" in text


def test_forget_one_before_and_all(db: Path) -> None:
    assert run("forget", "kitchen-1", "--yes", "--db", db)[1] == "1 session forgotten\n"
    assert run("forget", "--before", "2020-01-01", "--yes", "--db", db)[1] == "0 sessions forgotten\n"
    assert run("forget", "--all", "--yes", "--db", db)[1] == "1 session forgotten\n"
    assert run("list", "--db", db)[1] == "no sessions are stored\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["show", "nobody"], "no session nobody"),
        (["show", "kitchen"], "2 sessions begin with kitchen"),
        (["show", "last", "9"], "no turn 9"),
        (["export", "--format", "xml"], "'xml'"),
        (["forget", "--yes"], "say what to forget"),
        (["forget", "kitchen-1", "--all", "--yes"], "say what to forget"),
        (["forget", "--before", "yesterday", "--yes"], "'yesterday' is not a date"),
        (["forget", "--all"], "without being asked"),
    ],
)
def test_wrong_use_is_one_sentence_and_a_hint(db: Path, args: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        run(*args, "--db", db)
    assert caught.value.hint
    assert len(StoreDatabase(db).sessions()) == 2


def test_a_store_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no store"):
        run("list", "--db", tmp_path / "nowhere.db")
    (tmp_path / "noise").write_bytes(bytes(range(256)) * 40)
    with pytest.raises(StoreError, match="not a sound appliance store"):
        run("list", "--db", tmp_path / "noise")
