"""A sound card made of software: a private PulseAudio with null sinks, and ears at both of its ends.

Started and stopped by the tests alone, in its own runtime folder, so that nobody's sound set-up is touched. It
installs nothing: Debian's pulseaudio, libasound2-plugins, libportaudio2 and alsa-utils must be there.

    paplay --> micfeed --> mic  --> the appliance --> spk --> parec
                  ^                                     |
                  +------ echo (delay, attenuation) ----+

Devices as PortAudio sees them are ALSA names of type pulse: `default`, and for the two stations `counter_mic`,
`counter_spk`, `room_mic`, `room_spk`. To compare both sides without comparing clocks, `hear_both` records the
microphone's feed (left) and the loudspeaker (right) in one stereo stream.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

RATE = 48_000
NEEDED = ("pulseaudio", "pactl", "pacat", "parec")

_CLOCK_RATE = 8_000  # no other stream has it
_FORMAT = (f"--rate={RATE}", "--format=float32le")

_ALSA = """
pcm.!default {{ type pulse server "{server}" hint {{ show on description "Default" }} }}
ctl.!default {{ type pulse server "{server}" }}
"""
_ALSA_DEVICE = 'pcm.{name} {{ type pulse server "{server}" device "{device}" }}\n'


def missing() -> str:
    """The reason why the rig cannot run here, or ""."""
    absent = [tool for tool in NEEDED if shutil.which(tool) is None]
    return f"needs {', '.join(absent)}" if absent else ""


class Rig:
    """Use as a context manager; `env` is what a process needs to find these devices and no others."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rig-"))
        self.server = f"unix:{self.folder}/native"
        self.env = {
            "PULSE_SERVER": self.server,
            "PULSE_RUNTIME_PATH": str(self.folder),
            "PULSE_STATE_PATH": str(self.folder),
            "PULSE_COOKIE": str(self.folder / "cookie"),
            "XDG_RUNTIME_DIR": str(self.folder),
            "ALSA_CONFIG_PATH": f"/usr/share/alsa/alsa.conf:{self.folder}/asound.conf",
        }
        self._daemon: subprocess.Popen[bytes] | None = None
        self._clock: subprocess.Popen[bytes] | None = None
        self._modules: dict[str, int] = {}

    def __enter__(self) -> "Rig":
        self._write_alsa()
        self.start()
        return self

    def start(self) -> None:
        """Start the sound server with its plugs; after `kill` this is a server that came back."""
        options = ["--daemonize=no", "--exit-idle-time=-1", "--use-pid-file=no", "--disable-shm=yes", "-n", "-L"]
        options.append(f"module-native-protocol-unix socket={self.folder}/native auth-anonymous=1")
        daemon = self._daemon = subprocess.Popen(
            ["pulseaudio", "--log-level=info", *options],
            env={**os.environ, **self.env, "HOME": str(self.folder)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        _never_starve(daemon.pid)
        log: list[bytes] = []
        threading.Thread(target=_each, args=(daemon.stderr, log.append), daemon=True).start()
        up = until(
            lambda: any(b"startup complete" in line for line in log) or (log and log[-1] == b""),
            10,
            lambda: b"".join(log[-9:]).decode(),
        )
        if up is not True:
            raise RuntimeError(f"PulseAudio did not start: {b''.join(log[-9:]).decode()}")
        self._modules.clear()
        self.load("clock", f"module-null-sink sink_name=clock rate={_CLOCK_RATE}")
        self._clock = subprocess.Popen(
            ["parec", "-d", "clock.monitor", f"--rate={_CLOCK_RATE}", "--channels=1", "--latency-msec=20"],
            stdout=subprocess.PIPE,
            env=self._client_env(),
        )
        threading.Thread(target=_tick, args=(self._clock.stdout,), daemon=True).start()
        for spk, feed, mic in (("spk", "micfeed", "mic"), ("spk2", "micfeed2", "mic2")):
            self.load(spk, f"module-null-sink sink_name={spk} rate={RATE} norewinds=1")
            self.load(feed, f"module-null-sink sink_name={feed} rate={RATE} norewinds=1")
            self.plug_in(mic, feed)
        self._pactl("set-default-sink", "spk")
        self._pactl("set-default-source", "mic")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def kill(self) -> None:
        """Take the whole sound server away. Idempotent."""
        clock, self._clock = self._clock, None
        if clock is not None:
            clock.kill()
            clock.wait()
        daemon, self._daemon = self._daemon, None
        if daemon is not None:
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(5)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    @property
    def plugged(self) -> frozenset[str]:
        return frozenset(self._modules)

    @property
    def running(self) -> bool:
        return self._daemon is not None

    # --- plugs ------------------------------------------------------------------------------------------------

    def load(self, key: str, module: str) -> int:
        """Load a PulseAudio module under a key of ours."""
        number = int(self._pactl("load-module", *module.split()) or "0")
        self._modules[key] = number
        return number

    def unload(self, key: str) -> None:
        self._pactl("unload-module", str(self._modules.pop(key)))

    def plug_in(self, mic: str = "mic", feed: str = "micfeed") -> None:
        self.load(mic, f"module-remap-source master={feed}.monitor source_name={mic}")
        if mic == "mic":
            self._pactl("set-default-source", "mic")

    def unplug(self, mic: str = "mic") -> None:
        self.unload(mic)

    @contextmanager
    def echo(self, gain_db: float = -10.0, delay_ms: int = 80) -> Iterator[None]:
        """Feed the loudspeaker back into the microphone."""
        number = self.load(
            "echo", f"module-loopback source=spk.monitor sink=micfeed latency_msec={delay_ms} adjust_time=0"
        )
        try:
            for entry in (self._pactl("list", "short", "sink-inputs") or "").splitlines():
                if f"\t{number}\t" in entry or "module-loopback" in entry:
                    self._pactl("set-sink-input-volume", entry.split("\t")[0], f"{gain_db}dB")
            yield
        finally:
            self.unload("echo")

    def listeners(self) -> int:
        """How many streams programs have open on microphones; the rig's own plugs do not count."""
        streams = (self._pactl("list", "short", "source-outputs") or "").splitlines()
        return sum("module-" not in stream and f" {_CLOCK_RATE}Hz" not in stream for stream in streams)

    # --- ears and mouths --------------------------------------------------------------------------------------

    def say(self, audio: NDArray[np.float32], rate: int, sink: str = "micfeed") -> "subprocess.Popen[bytes]":
        """Speak mono float32 into a microphone; returns at once."""
        # Through a file: a pipe would hold the caller until most of it has been spoken.
        with tempfile.TemporaryFile(dir=self.folder) as file:
            file.write(audio.astype("<f4").tobytes())
            file.seek(0)
            options = [f"--rate={rate}", "--format=float32le", "--channels=1", "--latency-msec=20"]
            mouth = subprocess.Popen(["pacat", "-p", "-d", sink, *options], stdin=file, env=self._client_env())
        _never_starve(mouth.pid)
        return mouth

    def passes(self, seconds: float) -> None:
        """Let so much time of the sound clock pass while nobody speaks: silence is played into the microphone."""
        mouth = self.say(np.zeros(round(seconds * RATE), dtype=np.float32), RATE)
        if mouth.wait():
            raise RuntimeError("silence could not be played: the rig is away")

    @contextmanager
    def hear(self, source: str = "spk.monitor", channels: int = 1) -> Iterator["Recording"]:
        """Record a source as float32 at 48 kHz until the block ends."""
        recording = Recording(self.folder / f"heard-{time.monotonic_ns()}.f32", channels)
        with recording.path.open("wb") as out:
            ear = subprocess.Popen(
                ["parec", "-d", source, *_FORMAT, f"--channels={channels}", "--latency-msec=10"],
                stdout=out,
                env=self._client_env(),
            )
            _never_starve(ear.pid)
            try:
                until(lambda: recording.path.stat().st_size, 5)
                yield recording
            finally:
                ear.send_signal(signal.SIGINT)
                ear.wait()
        recording.audio = np.fromfile(recording.path, dtype="<f4").reshape(-1, channels)
        recording.path.unlink()

    @contextmanager
    def hear_both(self) -> Iterator["Recording"]:
        """Record what is said into the microphone (left) and what the loudspeaker plays (right)."""
        if "both" not in self._modules:
            self.load("both", f"module-null-sink sink_name=both rate={RATE} channels=2")
            for side, channel in (("left", "front-left"), ("right", "front-right")):
                self.load(
                    side,
                    f"module-remap-sink sink_name={side} master=both channels=1 master_channel_map={channel} "
                    f"channel_map=mono remix=no",
                )
            for feed, side in (("micfeed", "left"), ("spk", "right")):
                self.load(
                    f"tap-{side}", f"module-loopback source={feed}.monitor sink={side} latency_msec=20 channels=1"
                )
            with self.hear("both.monitor", channels=2) as unused:  # the loopbacks trim their latency before they agree
                until(lambda: unused.seconds >= 1.0)
        with self.hear("both.monitor", channels=2) as recording:
            yield recording

    def _client_env(self) -> dict[str, str]:
        return {**os.environ, **self.env}

    def _pactl(self, *arguments: str, check: bool = True) -> str | None:
        done = subprocess.run(
            ["pactl", *arguments], capture_output=True, text=True, env=self._client_env(), check=False
        )
        if done.returncode == 0:
            return done.stdout
        if check:
            raise RuntimeError(f"pactl {' '.join(arguments)}: {done.stderr.strip()}")
        return None

    def _write_alsa(self) -> None:
        text = _ALSA.format(server=self.server)
        for station, number in (("counter", ""), ("room", "2")):
            for kind in ("mic", "spk"):
                text += _ALSA_DEVICE.format(name=f"{station}_{kind}", server=self.server, device=f"{kind}{number}")
        # Who measures speaks into the counter's microphone and hears its loudspeaker through PortAudio too.
        for name, device in (("mouth", "micfeed"), ("ear", "spk.monitor")):
            text += _ALSA_DEVICE.format(name=f"bench_{name}", server=self.server, device=device)
        (self.folder / "asound.conf").write_text(text)


def _never_starve(pid: int) -> None:
    """A sound card needs no processor; its stand-in goes before everything else where that is allowed."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(pid, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(5))


class _News:
    """That something may have changed: told from any thread, waited for in `until`."""

    def __init__(self) -> None:
        self._told = threading.Condition()
        self.count = 0

    def tell(self) -> None:
        with self._told:
            self.count += 1
            self._told.notify_all()

    def wait(self, count: int, timeout: float) -> None:
        """Return when there was news since it was the `count`th."""
        with self._told:
            self._told.wait_for(lambda: self.count != count, timeout)


NEWS = _News()


def _each(lines: IO[bytes], take: Callable[[bytes], object]) -> None:
    """Hand over each line a program prints, and b"" once it prints no more."""
    for line in lines:
        take(line)
        NEWS.tell()
    take(b"")
    NEWS.tell()


def _tick(sound: IO[bytes]) -> None:
    """The rig's clock: the sound server delivers a piece of silence every 20 ms."""
    with sound:
        while sound.read(_CLOCK_RATE // 50 * 2):
            NEWS.tell()


def until(true: Callable[[], Any], timeout: float = 20.0, why: Callable[[], str] = lambda: "") -> Any:
    """Ask `true` with each tick of the rig's clock and each line a program prints until it is something; returns it."""
    end = time.monotonic() + timeout
    while True:
        count = NEWS.count
        if value := true():
            return value
        left = end - time.monotonic()
        assert left > 0, f"nothing within {timeout} s\n{why()}"
        NEWS.wait(count, left)


class Recording:
    """`audio` is (samples, channels) float32 at 48 kHz once the recording has ended."""

    def __init__(self, path: Path, channels: int) -> None:
        self.path = path
        self.channels = channels
        self.audio: NDArray[np.float32] = np.zeros((0, channels), dtype=np.float32)

    def so_far(self) -> NDArray[np.float32]:
        """What has been recorded until now."""
        heard = np.fromfile(self.path, dtype="<f4")
        return heard[: len(heard) // self.channels * self.channels].reshape(-1, self.channels)

    @property
    def seconds(self) -> float:
        """How much has been recorded so far."""
        if self.path.exists():
            return self.path.stat().st_size / (4 * self.channels * RATE)
        return len(self.audio) / RATE
