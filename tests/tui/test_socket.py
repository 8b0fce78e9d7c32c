"""Screens in other processes: told what holds, never waited for, and only this user's."""

import asyncio
import json
import os
import socket
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from scenes import Asked, recorded

from appliance.errors import UsageError
from appliance.events import Event, Notice, SessionClosed, SessionOpened, State, StateChanged, TurnFinished
from appliance.telemetry.bus import Bus
from appliance.telemetry.spans import Budget
from appliance.tui.backlog import Backlog
from appliance.tui.link import ScreenSettings
from appliance.tui.model import ScreenModel
from appliance.tui.socket import SnapshotServer, SocketFeed, default_socket

SETTINGS = ScreenSettings(title="tiny", hide_words=True, budget=Budget(total_ms=900))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  what is awaited is another task's doing
            await asyncio.sleep(0)


def with_server(path: Path, act: Callable[[Bus, SnapshotServer, Asked], Awaitable[None]]) -> None:
    async def main() -> None:
        bus, asked = Bus(), Asked()
        server = SnapshotServer(bus, asked, SETTINGS, path / "appliance.db")
        await server.start(path / "run" / "appliance.sock")
        try:
            await act(bus, server, asked)
        finally:
            await server.close()

    asyncio.run(main())


def test_a_screen_that_comes_late_is_told_what_holds(tmp_path: Path) -> None:
    async def act(bus: Bus, server: SnapshotServer, asked: Asked) -> None:
        seen = ScreenModel()
        for event in recorded("busy"):
            bus.publish(event)
            seen.take(event)
        feed = SocketFeed(tmp_path / "run" / "appliance.sock")
        reading = asyncio.create_task(feed.run())
        await feed.met.wait()
        assert (feed.settings, feed.store) == (SETTINGS, tmp_path / "appliance.db")
        model = ScreenModel()
        assert feed.renewed()
        assert not feed.renewed()
        await until(lambda: len(feed._events) > 10)
        for event in feed.drain():
            model.take(event)
        assert [row.record for row in model.turns] == [row.record for row in seen.turns]
        assert {n: (v.state, v.station) for n, v in model.sessions.items() if n != "lobby-4"} == {
            n: (v.state, v.station) for n, v in seen.sessions.items() if n != "lobby-4"
        }
        assert model.capacity == seen.capacity
        assert model.llm == seen.llm
        bus.publish(StateChanged(at=1.0, session="kitchen-1", state=State.MUTED))
        await until(lambda: bool(feed._events))
        assert feed.drain() == [StateChanged(at=1.0, session="kitchen-1", state=State.MUTED)]
        reading.cancel()

    with_server(tmp_path, act)


def test_controls_arrive_and_nonsense_does_not(tmp_path: Path) -> None:
    async def act(bus: Bus, server: SnapshotServer, asked: Asked) -> None:
        feed = SocketFeed(tmp_path / "run" / "appliance.sock")
        reading = asyncio.create_task(feed.run())
        await feed.met.wait()
        feed.mute("a")
        for nonsense in ('{"do":"close"}', '{"do":"__class__"}', "[]", "3", '{"do":["talk"]}'):
            assert feed._writer is not None
            feed._writer.write(nonsense.encode() + b"\n")
        feed.interrupt("b")
        await until(lambda: len(asked.calls) == 2)
        assert asked.calls == [("mute", "a"), ("interrupt", "b")]
        reading.cancel()

    with_server(tmp_path, act)


def test_only_its_owner_may_connect_and_the_file_goes_away(tmp_path: Path) -> None:
    path = tmp_path / "run" / "appliance.sock"

    async def act(bus: Bus, server: SnapshotServer, asked: Asked) -> None:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        with pytest.raises(UsageError, match="another appliance"):
            await SnapshotServer(bus, asked, SETTINGS).start(path)

    with_server(tmp_path, act)
    assert not path.exists()


def test_a_file_left_behind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "run" / "appliance.sock"
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))

    async def act(bus: Bus, server: SnapshotServer, asked: Asked) -> None:
        feed = SocketFeed(path)
        reading = asyncio.create_task(feed.run())
        await asyncio.wait_for(feed.met.wait(), 10)
        reading.cancel()

    with_server(tmp_path, act)


def test_it_reconnects_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "appliance.sock"

    async def main() -> None:
        bus = Bus()
        feed = SocketFeed(path)
        reading = asyncio.create_task(feed.run(again_s=0.01))
        await until(lambda: "trying again" in feed.status)
        for n in range(3):
            server = SnapshotServer(bus, Asked(), SETTINGS)
            await server.start(path)
            await until(feed.renewed)
            assert feed.status == ""
            bus.publish(StateChanged(at=float(n), session="s", state=State.HEARING))
            await until(lambda: bool(feed._events))
            await server.close()
            await until(lambda: "trying again" in feed.status)
            feed.drain()
        reading.cancel()

    asyncio.run(main())


def test_a_screen_that_does_not_read_costs_the_others_nothing(tmp_path: Path) -> None:
    async def act(bus: Bus, server: SnapshotServer, asked: Asked) -> None:
        path = tmp_path / "run" / "appliance.sock"
        _, stuck = await asyncio.open_unix_connection(path, limit=1024)
        stuck.transport.pause_reading()  # type: ignore[attr-defined]
        feed = SocketFeed(path)
        reading = asyncio.create_task(feed.run())
        await feed.met.wait()
        feed.drain()
        got: list[Event] = []
        for n in range(400):
            for _ in range(10):
                bus.publish(Notice(at=float(n), level="info", message="x" * 2000))
            await asyncio.sleep(0)
        bus.publish(SessionClosed(at=9e9, session="last"))
        await until(lambda: bool(got.extend(feed.drain()) or (got and got[-1].at == 9e9)))
        stuck.close()
        reading.cancel()

    with_server(tmp_path, act)


@pytest.mark.parametrize(
    "answer", [b"", b"\n", b"{}\n", b"HTTP/1.1 400 Bad Request\r\n", b"[1]\n", b'{"settings":3}\n']
)
def test_what_is_no_appliance_is_not_taken_for_one(tmp_path: Path, answer: bytes) -> None:
    path = tmp_path / "s"

    async def main() -> None:
        async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(answer)
            await writer.drain()
            writer.close()

        server = await asyncio.start_unix_server(other, path)
        feed = SocketFeed(path)
        reading = asyncio.create_task(feed.run(again_s=0.01))
        await until(lambda: "trying again" in feed.status)
        assert not feed.met.is_set()
        assert not reading.done()
        reading.cancel()
        server.close()

    asyncio.run(main())


def test_a_lent_connection_that_closes_ends_the_feed() -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        server = SnapshotServer(Bus(), Asked(), SETTINGS)
        serving = asyncio.create_task(server.serve(ours))
        feed = SocketFeed(connection=theirs)
        reading = asyncio.create_task(feed.run())
        await feed.met.wait()
        await server.close()
        await asyncio.wait_for(reading, 10)
        assert feed.status == "the appliance has stopped"
        await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(main())


def test_the_default_place_is_the_runtime_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert default_socket() == tmp_path / "appliance.sock"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "gone"))
    assert str(os.getuid()) in str(default_socket())


def test_the_backlog_is_bounded() -> None:
    backlog = Backlog(turns=3, notices=2, facts=4)
    finished = [e for e in recorded("end") if isinstance(e, TurnFinished)]
    for event in finished:
        backlog.take(event)
    for n in range(50):
        backlog.take(SessionOpened(at=float(n), session=f"s{n}"))
        backlog.take(Notice(at=float(n), level="info", message=str(n)))
    replay = backlog.replay()
    assert [e for e in replay if isinstance(e, TurnFinished)] == finished[-3:]
    assert len(replay) == 3 + 2 + 4
    assert [e.at for e in replay] == sorted(e.at for e in replay)


def test_every_line_is_one_json_object(tmp_path: Path) -> None:
    async def act(bus: Bus, server: SnapshotServer, asked: Asked) -> None:
        for event in recorded("end"):
            bus.publish(event)
        reader, writer = await asyncio.open_unix_connection(tmp_path / "run" / "appliance.sock")
        first: dict[str, Any] = json.loads(await reader.readline())
        assert first["type"] == "Hello"
        assert json.loads(await reader.readline())["type"] == "SessionOpened"
        writer.close()

    with_server(tmp_path, act)
