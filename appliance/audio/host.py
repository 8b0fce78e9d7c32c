"""The one owner of PortAudio: opens streams, notices dead ones, opens them again.

Owns the "audio" thread, which alone calls PortAudio's slow functions (opening can take hundreds of ms), and
PortAudio's device list, which is frozen until the library is started anew, which in turn closes every stream.
So a device that is not in the list, or cannot be opened, is looked for in a child process first whenever other
streams are open; they are interrupted only once it is known to be back. Knows nothing of samples.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from appliance.audio.catalog import DeviceInfo, choose, list_devices, portaudio, quiet_stderr
from appliance.errors import ApplianceError

_TICK_S = 0.1
_BACKOFF_S = (0.25, 0.5, 1.0, 1.0, 1.5)
_LONG_S = 5.0  # between tries once a device has been away for a minute
_PROBE = (
    "import sys, sounddevice as sd; from appliance.audio.catalog import choose, list_devices; "
    "d = choose(list_devices(), sys.argv[1], sys.argv[2]); "
    "k = {'input': sd.check_input_settings, 'output': sd.check_output_settings}[sys.argv[2]]; "
    "sys.exit(1) if d is None else k(device=d.index)"
)


class Line(Protocol):
    """One stream that the host keeps open."""

    kind: str  # "input" or "output"
    wanted: str  # the device by name or role

    def open(self, sd: Any, device: DeviceInfo) -> None:
        """Open and start. Raises sounddevice.PortAudioError."""
        ...

    def halt(self) -> None:
        """Stop and close, whatever state it is in. Idempotent."""
        ...

    def silent_for(self, now: float) -> float:
        """Seconds since the stream last gave a sign of life."""
        ...

    def limit_s(self) -> float:
        """After how long without one it is lost."""
        ...

    def report(self, status: str, detail: str) -> None:
        """Called on the audio thread at each change: open, lost, waiting."""
        ...


@dataclass(slots=True)
class _Entry:
    line: Line
    is_open: bool = False
    suspect: bool = False
    tries: int = 0
    next_try: float = 0.0
    away_since: float = 0.0
    status: str = ""
    gone: bool = False
    settled: threading.Event = field(default_factory=threading.Event)


class AudioHost:
    """Keeps lines open. One a process; `start` and `stop` may be called from any thread."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._entries: list[_Entry] = []
        self._guard = threading.Lock()
        self._library = threading.RLock()  # nobody reads the device list while PortAudio is being restarted
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self.restarts = 0  # of PortAudio

    def add(self, line: Line) -> None:
        """Open `line` soon and keep it open."""
        with self._guard:
            self._entries.append(_Entry(line, away_since=self._now()))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="audio", daemon=True)
                self._thread.start()
        self._wake.set()

    def remove(self, line: Line, timeout: float = 3.0) -> None:
        """Close `line` and forget it; waits until it is closed."""
        with self._guard:
            entry = next((e for e in self._entries if e.line is line), None)
            if entry is not None:
                entry.gone = True
        self._wake.set()
        if entry is not None and threading.current_thread() is not self._thread:
            entry.settled.wait(timeout)

    def stop(self, timeout: float = 5.0) -> None:
        """Close everything. Idempotent."""
        self._stopping = True
        self._wake.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def rate_of(self, wanted: str, kind: str) -> int:
        """The own rate of the device that `wanted` means now; 48,000 where there is none yet."""
        with self._library:
            device = choose(list_devices(), wanted, kind)
        return device.rate if device is not None and device.rate > 0 else 48_000

    def _run(self) -> None:
        last = self._now()
        while not self._stopping:
            now = self._now()
            # After a stall of this very thread a stream's silence proves nothing: look again next time.
            on_time, last = now - last < 3 * _TICK_S, now
            for entry in self._listed():
                if entry.gone:
                    self._drop(entry)
                elif entry.is_open:
                    silent = entry.line.silent_for(now) > entry.line.limit_s()
                    if silent and on_time and entry.suspect:
                        self._lose(entry, now)
                    entry.suspect = silent  # seen twice: a machine that stalled for a moment has lost nothing
                elif now >= entry.next_try:
                    self._try(entry, now)
                    last = self._now()
            self._wake.wait(_TICK_S)
            self._wake.clear()
        for entry in self._listed():
            self._drop(entry)

    def _listed(self) -> list[_Entry]:
        with self._guard:
            return list(self._entries)

    def _drop(self, entry: _Entry) -> None:
        with quiet_stderr():
            entry.line.halt()
        with self._guard:
            self._entries.remove(entry)
        entry.settled.set()

    def _lose(self, entry: _Entry, now: float) -> None:
        self._say(entry, "lost", f"no sound for {entry.line.silent_for(now) * 1000:.0f} ms")
        with quiet_stderr():
            entry.line.halt()
        entry.is_open, entry.tries, entry.away_since = False, 0, now
        entry.next_try = now

    def _try(self, entry: _Entry, now: float) -> None:
        try:
            fault = self._open(entry)
            if fault and self._may_restart(entry):
                self._restart()
                fault = self._open(entry)
        except ApplianceError as error:  # no PortAudio at all: waiting is all that can be done
            fault = error.message
        if not fault:
            return
        if entry.status not in ("lost", "waiting") or entry.tries == 3:
            self._say(entry, "waiting", fault)
        pause = _BACKOFF_S[min(entry.tries, len(_BACKOFF_S) - 1)]
        entry.tries += 1
        entry.next_try = self._now() + (pause if now - entry.away_since < 60 else _LONG_S)

    def _open(self, entry: _Entry) -> str:
        """Try to open; returns the fault or ""."""
        sd = portaudio()
        line = entry.line
        device = choose(list_devices(), line.wanted, line.kind)
        if device is None:
            return f"no {line.kind} device called {line.wanted}"
        try:
            with quiet_stderr():
                line.open(sd, device)
        except sd.PortAudioError as error:
            with quiet_stderr():
                line.halt()
            return f"{device.stable_name} cannot be opened: {error.args[0]}"
        entry.is_open, entry.suspect, entry.tries = True, False, 0
        self._say(entry, "open", device.stable_name)
        return ""

    def _may_restart(self, entry: _Entry) -> bool:
        """Whether a fresh device list would help, and is worth closing what is open."""
        if not any(other.is_open for other in self._listed()):
            return True
        try:
            probe = subprocess.run(
                [sys.executable, "-c", _PROBE, entry.line.wanted, entry.line.kind],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=10,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        return probe.returncode == 0

    def _restart(self) -> None:
        """Read the device list anew, closing and reopening every other line."""
        opened = [entry for entry in self._listed() if entry.is_open]
        sd = portaudio()
        with quiet_stderr():
            for entry in opened:
                entry.line.halt()
                entry.is_open = False
            with self._library:
                sd._terminate()
                sd._initialize()
        self.restarts += 1
        for entry in opened:
            fault = self._open(entry)
            if fault:
                self._say(entry, "lost", fault)
                entry.away_since = entry.next_try = self._now()

    def _say(self, entry: _Entry, status: str, detail: str) -> None:
        if entry.status != status:
            entry.status = status
            entry.line.report(status, detail)
