"""The screen's process on a real pseudo-terminal: shown, quit, killed; the terminal is itself again each time."""

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPT = """
import asyncio, hashlib, os, sys
from pathlib import Path
from appliance.events import Notice, SessionOpened
from appliance.telemetry.bus import Bus
from appliance.tui.child import run_screen
from appliance.tui.link import NoControls, ScreenSettings
from appliance.tui.socket import SnapshotServer

async def main():
    bus = Bus()
    server = SnapshotServer(bus, NoControls(), ScreenSettings(title="sometier"))
    bus.publish(SessionOpened(at=1.0, session="hallway", station="hall"))
    turns, turned = 0, asyncio.Event()

    async def converse():
        nonlocal turns
        while True:
            turns += 1
            turned.set()
            await asyncio.to_thread(hashlib.pbkdf2_hmac, "sha256", b"work", b"of a turn", 20_000)  # beside the loop

    talking = asyncio.create_task(converse())
    loud = asyncio.create_task(asyncio.to_thread(os.write, 2, b"native library noise"))
    code = await run_screen(server, Path(sys.argv[1]))
    before = turns
    turned.clear()
    another, _ = await asyncio.wait([asyncio.create_task(turned.wait())], timeout=10)
    print("ended", code, "conversation", "goes on" if another and before > 10 else "stood", flush=True)
    await server.close()
    talking.cancel()

asyncio.run(main())
"""


@dataclass
class Terminal:
    process: subprocess.Popen[bytes]
    master: int
    slave: int
    seen: bytes = b""

    def until(self, met: Callable[[bytes], bool]) -> None:
        deadline = time.monotonic() + 60
        while not met(self.seen):
            assert time.monotonic() < deadline, self.seen[-2000:]
            if select.select([self.master], [], [], 0.5)[0]:
                self.seen += os.read(self.master, 65536)

    def children(self) -> list[int]:
        return [int(p) for p in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()]


@contextmanager
def terminal(log: Path) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (40, 120))
    env = {**os.environ, "TERM": "xterm-256color"}
    run = [sys.executable, "-c", SCRIPT, str(log)]
    process = subprocess.Popen(run, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True)
    try:
        yield Terminal(process, master, slave)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(master)
        os.close(slave)


@pytest.mark.parametrize("how", ["quit", "killed"])
def test_the_screen_comes_and_goes_and_the_conversation_does_not_notice(tmp_path: Path, how: str) -> None:
    log = tmp_path / "appliance.log"
    with terminal(log) as tty:
        before = termios.tcgetattr(tty.slave)
        tty.until(lambda seen: b"sometier" in seen and b"hallway" in seen)
        assert termios.tcgetattr(tty.slave)[3] != before[3], "the screen has the terminal"
        if how == "quit":
            os.write(tty.master, b"q")
        else:
            (child,) = tty.children()
            os.kill(child, signal.SIGKILL)
        tty.until(lambda seen: b"ended" in seen and seen.rstrip().endswith((b"goes on", b"stood")))
        assert termios.tcgetattr(tty.slave) == before
        last = tty.seen[tty.seen.rindex(b"ended") :].decode().split()
        assert last[1] == ("0" if how == "quit" else "-9")
        assert last[-2:] == ["goes", "on"]
        tail = tty.seen[: tty.seen.rindex(b"ended")]
        assert tail.rindex(b"\x1b[?1049l") > tail.rindex(b"\x1b[?1049h"), "the alternate screen was left"
        assert tail.rindex(b"\x1b[?25h") > tail.rindex(b"\x1b[?25l"), "the cursor is back"
        assert b"native library noise" not in tty.seen
    assert log.read_text() == "native library noise"


def test_a_parent_that_dies_takes_its_screen_with_it(tmp_path: Path) -> None:
    with terminal(tmp_path / "log") as tty:
        before = termios.tcgetattr(tty.slave)
        tty.until(lambda seen: b"hallway" in seen)
        (child,) = tty.children()
        os.kill(tty.process.pid, signal.SIGKILL)
        tty.process.wait()
        tty.until(lambda seen: seen.rfind(b"\x1b[?1049l") > seen.rfind(b"\x1b[?1049h"))
        deadline = time.monotonic() + 30
        while Path(f"/proc/{child}").exists() and _state(child) != "Z":
            assert time.monotonic() < deadline
            select.select([tty.master], [], [], 0.05)
        assert termios.tcgetattr(tty.slave) == before


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "Z"
