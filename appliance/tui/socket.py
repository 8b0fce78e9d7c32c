"""The appliance's snapshots over a Unix socket, for screens in other processes.

It owns the socket file (mode 0600, in the runtime directory), the lines that go over it, and what a slow or
dead reader costs: its own events, nobody's time. A line is one event; the first is the screen's settings;
what comes back is `{"do": …, "session": …}`. Nothing here opens a network connection.
"""

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from appliance.errors import UsageError
from appliance.events import Event
from appliance.telemetry.bus import Bus
from appliance.telemetry.spans import Budget
from appliance.telemetry.wire import build, from_json, plain, to_json
from appliance.tui.backlog import Backlog
from appliance.tui.link import Controls, ScreenSettings

_BATCH_S = 0.1  # lines go out ten times a second at most; the screen draws five times
_LINE = 1 << 20  # longest line read; a monologue of 90 s with its answer is a few KB
_DOES = ("talk", "mute", "interrupt")


def default_socket() -> Path:
    """`$XDG_RUNTIME_DIR/appliance.sock`, else one named after the user in the temporary directory."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and Path(runtime).is_dir():
        return Path(runtime) / "appliance.sock"
    return Path("/tmp") / f"appliance-{os.getuid()}" / "appliance.sock"


class SnapshotServer:
    """Serves the bus to any number of screens. `start`, then `close`; it owns no thread."""

    def __init__(self, bus: Bus, controls: Controls, settings: ScreenSettings, store: Path | None = None) -> None:
        self._bus, self._controls = bus, controls
        self._hello = {"type": "Hello", "settings": plain(settings), "store": str(store) if store else ""}
        self._backlog = Backlog()
        self._watch = bus.subscribe(limit=1024, durable=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._path: Path | None = None
        self._spawn(self._remember())

    async def start(self, path: Path) -> None:
        """Listen at `path`. Raises UsageError where another appliance listens there already."""
        await asyncio.to_thread(_make_way, path)
        before = os.umask(0o177)  # the socket must not be open to others for even an instant
        try:
            self._server = await asyncio.start_unix_server(self._client, path=path, limit=_LINE)
        finally:
            os.umask(before)
        self._path = path

    async def serve(self, connection: socket.socket) -> None:
        """Serve one screen over a connected socket until it goes away."""
        reader, writer = await asyncio.open_connection(sock=connection, limit=_LINE)
        await self._client(reader, writer)

    async def close(self) -> None:
        """Stop listening, send everybody away, remove the file. Idempotent."""
        self._watch.close()
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None

    async def _remember(self) -> None:
        async for event in self._watch:
            self._backlog.take(event)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        listening = self._spawn(self._obey(reader))
        try:
            for event in self._watch.drain():
                self._backlog.take(event)
            subscription = self._bus.subscribe(limit=512, durable=True)
            try:
                writer.write(json.dumps(self._hello).encode() + b"\n" + _lines(self._backlog.replay()))
                while not listening.done():
                    await writer.drain()  # a slow reader waits here, and its subscription drops the oldest
                    writer.write(_lines(subscription.drain()))
                    await asyncio.wait([listening], timeout=_BATCH_S)
            finally:
                subscription.close()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            listening.cancel()
            self._tasks.discard(task)
            writer.close()

    async def _obey(self, reader: asyncio.StreamReader) -> None:
        """Controls from a screen; ends when it goes away or talks nonsense."""
        with contextlib.suppress(ConnectionError, ValueError):
            while line := await reader.readline():
                asked = json.loads(line)
                if isinstance(asked, dict) and asked.get("do") in _DOES:
                    getattr(self._controls, asked["do"])(str(asked.get("session", "")))

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class SocketFeed:
    """The screen's end: events to drain, controls to send. With a path it reconnects by itself."""

    def __init__(self, path: Path | None = None, connection: socket.socket | None = None) -> None:
        self.status = "connecting"
        self.settings = ScreenSettings()
        self.store: Path | None = None
        self.met = asyncio.Event()  # set once the other end has introduced itself
        self._new = False
        self._path, self._connection = path, connection
        self._events: list[Event] = []
        self._writer: asyncio.StreamWriter | None = None

    def drain(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def renewed(self) -> bool:
        new, self._new = self._new, False
        return new

    def talk(self, session: str) -> None:
        self._send("talk", session)

    def mute(self, session: str) -> None:
        self._send("mute", session)

    def interrupt(self, session: str) -> None:
        self._send("interrupt", session)

    async def run(self, again_s: float = 1.0) -> None:
        """Read until the other end goes away for good: a lent connection that closed; a path never does."""
        while True:
            with contextlib.suppress(OSError, ValueError):
                await self._read()
            self._writer = None
            if self._path is None:
                self.status = "the appliance has stopped"
                return
            self.status = f"no appliance at {self._path}, trying again"
            await asyncio.sleep(again_s)

    async def _read(self) -> None:
        if self._path is not None:
            reader, self._writer = await asyncio.open_unix_connection(self._path, limit=_LINE)
        else:
            reader, self._writer = await asyncio.open_connection(sock=self._connection, limit=_LINE)
        try:
            hello = json.loads(await reader.readline())
            self.settings = _settings(hello["settings"])
            self.store = Path(hello["store"]) if hello["store"] else None
            self.status, self._new = "", True
            self._events.clear()
            self.met.set()
            while line := await reader.readline():
                event = from_json(line)
                if event is not None:
                    self._events.append(event)
                    del self._events[:-4096]  # the screen has stopped drawing; the newest will do
        except (KeyError, TypeError) as error:
            raise ValueError("not an appliance") from error
        finally:
            self._writer.close()

    def _send(self, what: str, session: str) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(json.dumps({"do": what, "session": session}).encode() + b"\n")


def _lines(events: Iterable[Event]) -> bytes:
    return "".join(f"{to_json(event)}\n" for event in events).encode()


def _settings(data: dict[str, Any]) -> ScreenSettings:
    return build(ScreenSettings, {**data, "budget": build(Budget, data["budget"])})  # type: ignore[no-any-return]


def _own_folder(folder: Path) -> None:
    """Make `folder`, or make sure it is not somebody else's trap in a shared temporary directory."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid not in (os.getuid(), 0):
        raise UsageError(f"{folder} belongs to another user", "set XDG_RUNTIME_DIR to a directory of your own")


def _make_way(path: Path) -> None:
    """A folder of our own without a socket file; UsageError where somebody listens at it."""
    _own_folder(path.parent)
    if path.exists():
        if _answers(path):
            said = f"another appliance already serves its screen at {path}"
            raise UsageError(said, "stop it first, or look at it: appliance top")
        path.unlink()


def _answers(path: Path) -> bool:
    """Whether anybody listens at the socket file, or it was left behind."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(0.5)
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True
