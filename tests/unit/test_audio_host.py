"""The host of streams against a PortAudio made of plain objects: losing, waiting, reopening, restarting."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from appliance.audio import catalog, host
from appliance.audio.host import AudioHost
from appliance.setup.notify import notify, watchdog_interval


class PortAudioError(Exception):
    pass


class Machine:
    """Which devices are plugged in, and which of them PortAudio's frozen list knows."""

    def __init__(self, *names: str) -> None:
        self.plugged = set(names)
        self.listed = set(names)
        self.open: set[Any] = set()
        self.starts = 0
        self.PortAudioError = PortAudioError
        self.default = SimpleNamespace(device=(-1, -1))

    def query_hostapis(self) -> list[dict[str, str]]:
        return [{"name": "ALSA"}]

    def query_devices(self) -> list[dict[str, Any]]:
        return [
            {"name": n, "hostapi": 0, "max_input_channels": 1, "max_output_channels": 1, "default_samplerate": 48_000}
            for n in sorted(self.listed)
        ]

    def _terminate(self) -> None:
        assert not self.open, "PortAudio was stopped under an open stream"

    def _initialize(self) -> None:
        self.starts += 1
        self.listed = set(self.plugged)


class Wire:
    """A line that lives while its device is plugged in."""

    def __init__(self, machine: Machine, wanted: str) -> None:
        self.kind, self.wanted = "input", wanted
        self.machine = machine
        self.opened = 0
        self.said: list[str] = []
        self.device = ""

    def open(self, sd: Any, device: Any) -> None:
        if device.name not in self.machine.plugged:
            raise PortAudioError("Invalid device")
        self.device = device.name
        self.opened += 1
        self.machine.open.add(self)

    def halt(self) -> None:
        self.machine.open.discard(self)

    def silent_for(self, now: float) -> float:
        return 0.0 if self.device in self.machine.plugged else 1.0

    def limit_s(self) -> float:
        return 0.3

    def report(self, status: str, detail: str) -> None:
        self.said.append(status)


def eventually(true: Callable[[], object], timeout: float = 5.0) -> None:
    end = time.monotonic() + timeout
    pause = threading.Event()
    while not true():
        assert time.monotonic() < end, "it never happened"
        pause.wait(0.005)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    machine = Machine("mic", "speaker")
    monkeypatch.setattr(catalog, "portaudio", lambda: machine)
    monkeypatch.setattr(host, "portaudio", lambda: machine)
    yield machine
    assert not machine.open


@pytest.fixture
def keeper(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[AudioHost]:
    """A host whose child process sees what is really plugged in."""
    keeper = AudioHost()

    def probe(command: list[str], **_: Any) -> SimpleNamespace:
        wanted = command[-2]
        return SimpleNamespace(returncode=0 if wanted in machine.plugged else 1)

    monkeypatch.setattr(host.subprocess, "run", probe)
    yield keeper
    keeper.stop()


def test_a_lost_device_is_reopened_by_name_once_it_is_back(machine: Machine, keeper: AudioHost) -> None:
    mic = Wire(machine, "mic")
    keeper.add(mic)
    eventually(lambda: mic.said == ["open"])
    machine.plugged.discard("mic")
    eventually(lambda: "lost" in mic.said)
    machine.plugged.add("mic")
    eventually(lambda: mic.said[-1] == "open")
    assert mic.opened == 2


def test_other_streams_are_interrupted_only_when_the_device_is_known_to_be_back(
    machine: Machine, keeper: AudioHost
) -> None:
    mic, speaker = Wire(machine, "mic"), Wire(machine, "speaker")
    keeper.add(mic)
    keeper.add(speaker)
    eventually(lambda: mic.opened == speaker.opened == 1)
    machine.plugged.discard("mic")
    machine.listed.discard("mic")  # and PortAudio's list will not show it again by itself
    eventually(lambda: "lost" in mic.said)
    eventually(lambda: "waiting" in mic.said)
    assert speaker.opened == 1
    assert keeper.restarts == 0
    machine.plugged.add("mic")
    eventually(lambda: mic.said[-1] == "open")
    assert keeper.restarts == 1
    assert speaker.opened == 2
    assert speaker.said == ["open"]  # so short that nobody need be told


def test_no_device_at_start_is_said_once_and_waited_for(machine: Machine, keeper: AudioHost) -> None:
    machine.plugged.clear()
    machine.listed.clear()
    mic = Wire(machine, "mic")
    keeper.add(mic)
    eventually(lambda: machine.starts >= 2)
    assert mic.said == ["waiting"]
    machine.plugged.add("mic")
    eventually(lambda: mic.said == ["waiting", "open"])


def test_removing_a_line_closes_it_and_leaves_the_others(machine: Machine, keeper: AudioHost) -> None:
    mic, speaker = Wire(machine, "mic"), Wire(machine, "speaker")
    keeper.add(mic)
    keeper.add(speaker)
    eventually(lambda: len(machine.open) == 2)
    keeper.remove(mic)
    assert machine.open == {speaker}
    keeper.stop()
    assert not machine.open
    keeper.stop()


def test_notify_speaks_to_systemd_and_is_silent_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not notify("READY=1")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        assert notify("READY=1\nSTATUS=listening")
        assert manager.recv(100) == b"READY=1\nSTATUS=listening"
    assert not notify("WATCHDOG=1")  # the manager is gone
    monkeypatch.setenv("NOTIFY_SOCKET", "@appliance-test-no-such-name")
    assert not notify("READY=1")


def test_the_watchdog_is_petted_twice_as_often_as_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    assert watchdog_interval() is None
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    assert watchdog_interval() == 15.0
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid() + 1))
    assert watchdog_interval() is None
