"""The screen in a process of its own: it may be slow, crash or be killed, and no conversation notices.

It owns both ends: `run_screen` starts the process on this terminal, lends it a connected socket and restores
the terminal whatever happens; `run_client` is what runs in that process, and behind `appliance top`.
"""

import asyncio
import contextlib
import os
import socket
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

from appliance.tui.socket import SnapshotServer, SocketFeed

# Leave the alternate screen, show the cursor, stop mouse, focus and paste reports, and the default colours.
_CALM = (
    "\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1004l\x1b[?2004l\x1b[<u\x1b[0m"
)


async def run_screen(server: SnapshotServer, log: Path | None = None) -> int:
    """Show the screen on this terminal until it is quit; returns 0 then, else how the screen's process ended.

    Meanwhile this process' stdout and stderr go to the file `log` (default: nowhere), so that nothing writes
    across the screen. Cancelling ends the screen.
    """
    ours, theirs = socket.socketpair()
    with _terminal() as terminal, _elsewhere(log):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "appliance.tui", str(theirs.fileno())),
            pass_fds=[theirs.fileno()],
            stdout=terminal,
            stderr=terminal,
        )
        theirs.close()
        serving = asyncio.get_running_loop().create_task(server.serve(ours))
        try:
            return await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
                try:
                    await asyncio.wait_for(process.wait(), 3)
                except TimeoutError:
                    process.kill()
                    await process.wait()
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


@contextlib.contextmanager
def _terminal() -> Iterator[int]:
    """The terminal for the screen to draw on; afterwards it is as it was, even after a crash.

    Stdout or stderr may have been redirected; the screen draws on the other then.
    """
    terminal = os.dup(1 if os.isatty(1) else 2)
    saved = termios.tcgetattr(0) if os.isatty(0) else None
    try:
        yield terminal
    finally:
        if saved is not None:
            now = termios.tcgetattr(0)
            if now[:4] != saved[:4]:  # the screen did not put it back itself: it was killed
                termios.tcsetattr(0, termios.TCSANOW, saved)
                os.write(terminal, _CALM.encode())
        os.close(terminal)


@contextlib.contextmanager
def _elsewhere(log: Path | None) -> Iterator[None]:
    """Point this process' stdout and stderr, native libraries' included, away from the terminal."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    to = os.open(log or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.dup2(to, 1)
        os.dup2(to, 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for fd, target in zip(kept, (1, 2), strict=True):
            os.dup2(fd, target)
            os.close(fd)
        os.close(to)


async def run_client(path: Path | None = None, fd: int | None = None) -> int:
    """The screen over the socket at `path` (reconnecting) or the lent `fd` (until it closes)."""
    from appliance.tui.app import ApplianceScreen
    from appliance.tui.link import NoTurns
    from appliance.tui.reader import StoredTurns

    feed = SocketFeed(path, None if fd is None else socket.socket(fileno=fd))
    loop = asyncio.get_running_loop()
    reading = loop.create_task(feed.run())
    meeting = loop.create_task(feed.met.wait())
    await asyncio.wait([reading, meeting], return_when=asyncio.FIRST_COMPLETED)
    meeting.cancel()
    if reading.done():
        return 1
    reader = None if feed.store is None else StoredTurns(feed.store)
    app = ApplianceScreen(feed, feed, reader or NoTurns(), feed.settings)
    reading.add_done_callback(lambda _: app.exit())
    try:
        await app.run_async()
    finally:
        reading.cancel()
        if reader is not None:
            reader.close()
    return app.return_code or 0
