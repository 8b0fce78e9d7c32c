"""`appliance run` as a process on the rig: what it says on stderr, what it keeps, and what the microphone hears of us.

The measuring is done on recordings of both ends in one stream, so that no two clocks are compared.
"""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rig import NEWS, RATE, Rig, until

from appliance.audio.resample import resample
from appliance.capacity.predict import Calibration
from appliance.config import load
from appliance.demo import questions
from appliance.service.calibrate import fingerprint, write

Audio = NDArray[np.float32]

# A busy machine shall not make it shorten answers and refuse people: that has tests of its own.
CALM = "[ladder]\nenabled = false\n[objectives]\nv2v_ms_p95 = 60000.0\nstarvation_ms_p95 = 60000.0\n"
AUDIBLE = 10 ** (-50 / 20)
COUNTER = '\n[[stations]]\nname = "counter"\ninput.device = "counter_mic"\noutput.device = "counter_spk"\n'
ROOM = '\n[[stations]]\nname = "room"\ninput.device = "room_mic"\noutput.device = "room_spk"\n'

# How fast the box is stands in a file, so that no test waits for it to be measured, and so that a busy machine
# does not look too slow for two sessions.
FAST = Calibration(
    step_ms=((1, 5.0), (2, 6.0), (4, 8.0), (8, 12.0)),
    prefill_tokens_per_s=2000.0,
    asr_rtf=0.03,
    tts_rtf=0.05,
    tts_first_ms=50.0,
    cores=8,
    asr_threads=1,
    llm_threads=1,
    tts_threads=1,
)


def know_the_box(state: Path) -> None:
    """Put `FAST` where the appliance looks for what it measured."""
    write(state / "appliance" / "calibration.json", fingerprint(load(tier="tiny")), FAST)


class House:
    """One running appliance. `lines`: everything it has said on stderr so far."""

    def __init__(self, rig: Rig, folder: Path, state: Path, config: str = "", tier: str = "tiny") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.lines: list[str] = []
        self.db = folder / "turns.db"
        toml = folder / "config.toml"
        toml.write_text(f'tier = "{tier}"\n{config}')
        self._runtime = folder / "run"
        self._runtime.mkdir(mode=0o700, exist_ok=True)
        env = {
            **os.environ,
            **rig.env,
            "XDG_RUNTIME_DIR": str(self._runtime),
            "XDG_STATE_HOME": str(state),  # what was measured of this box is measured once
            "XDG_CONFIG_HOME": str(folder),
            "XDG_CACHE_HOME": str(folder),
        }
        command = [sys.executable, "-c", "from appliance.cli.main import main; main()", "run", "--no-tui"]
        self.process = subprocess.Popen(
            [*command, "--config", str(toml), "--db", str(self.db)],
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def said(self, text: str, timeout: float = 90.0, since: int = 0) -> str:
        """Wait for a line with `text` in it, from line `since` on."""
        return until(lambda: next((line for line in self.lines[since:] if text in line), ""), timeout, self.why)

    def why(self) -> str:
        """For a failure: its last words, and whether it still lives."""
        return f"exit status {self.process.poll()}\n" + "\n".join(self.lines[-15:])

    def turns(self) -> list[dict[str, Any]]:
        """The finished turns in the store, oldest first."""
        query = (
            "select *, endpoint_ms + asr_ms + llm_ms + tts_ms + output_ms as v2v from turns "
            "where state = 'finished' order by started, turn"
        )
        return self._select(query)

    def sessions(self) -> list[dict[str, Any]]:
        return self._select("select * from sessions order by opened")

    def spans(self, kind: str) -> list[dict[str, Any]]:
        """What was noted of all turns under `kind`, e.g. BargeIn."""
        rows = self._select(f"select * from spans where kind = '{kind}' order by session, turn, seq")
        return [{**row, **json.loads(row["data"])} for row in rows]

    def turn(self, number: int, timeout: float = 40.0) -> dict[str, Any]:
        """Wait for the `number`th finished turn (from 1)."""
        until(lambda: len(self.turns()) >= number, timeout, self.why)
        return self.turns()[number - 1]

    def do(self, what: str, session: str = "") -> None:
        """Press a key of the screen: talk, mute or interrupt."""
        with socket.socket(socket.AF_UNIX) as door:
            door.settimeout(10.0)
            door.connect(str(self._runtime / "appliance.sock"))
            with door.makefile("rb") as said:
                said.readline()  # it says hello
                door.sendall(json.dumps({"do": what, "session": session}).encode() + b"\n")
                door.shutdown(socket.SHUT_WR)
                said.read()  # it hangs up once it has obeyed

    def stop(self, sig: int = signal.SIGTERM, timeout: float = 25.0) -> int:
        """Ask it to end; its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(sig)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"it did not end within {timeout} s:\n{self.why()}") from None

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))
            NEWS.tell()

    def _select(self, query: str) -> list[dict[str, Any]]:
        if not self.db.exists():
            return []
        with closing(sqlite3.connect(f"file:{self.db}?mode=ro", uri=True, timeout=5)) as db:
            db.row_factory = sqlite3.Row
            try:
                return [dict(row) for row in db.execute(query)]
            except sqlite3.OperationalError:  # its tables are being made
                return []


@contextmanager
def house(
    rig: Rig, folder: Path, state: Path, config: str = "", *, tier: str = "tiny", ready: bool = True
) -> Iterator[House]:
    the = House(rig, folder, state, config, tier)
    try:
        if ready:
            the.said("ready")
            heard = len(config.split("[[stations]]")) - 1 or 1
            for role in ("input", "output"):
                until(lambda: sum(f" {role}=" in line and " open " in line for line in the.lines) >= heard, 20, the.why)  # noqa: B023
        yield the
    finally:
        if the.process.poll() is None:
            the.process.kill()
            the.process.wait()


def words(text: str) -> list[str]:
    return "".join(c if c.isalnum() or c == "'" else " " for c in text.lower()).split()


def question(number: int) -> Audio:
    """The demo's question (from 0) at the rig's rate."""
    file = questions()[number % len(questions())].open()
    return resample(file.read(), 16_000, RATE)


@dataclass(frozen=True)
class Answer:
    """One question and its answer in a recording of both ends, in seconds."""

    asked_until: float
    heard_from: float
    heard_until: float

    @property
    def ms(self) -> float:
        return (self.heard_from - self.asked_until) * 1000


def answers(both: Audio) -> list[Answer]:
    """Each stretch of speech at the microphone (left) with the first sound of the loudspeaker (right) behind it."""
    asked = stretches(both[:, 0], gap_s=1.5, frames_db=30.0)
    heard = stretches(both[:, 1], gap_s=0.8)
    out = []
    for n, (_, end) in enumerate(asked):
        limit = asked[n + 1][0] if n + 1 < len(asked) else len(both) / RATE
        first = next(((a, b) for a, b in heard if end - 0.05 < a < limit), None)
        if first is not None:
            out.append(Answer(end, *first))
    return out


def stretches(audio: Audio, gap_s: float = 0.05, frames_db: float = 0.0) -> list[tuple[float, float]]:
    """Where there is sound: samples above -50 dBFS, joined over gaps below `gap_s`.

    With `frames_db`: edges at 10 ms frames that lie within so much of the loudest of their stretch, as a turn's last
    speech sample is defined; a recording's own noise is no speech.
    """
    places = np.flatnonzero(np.abs(audio) > AUDIBLE)
    if len(places) == 0:
        return []
    cuts = np.flatnonzero(np.diff(places) > gap_s * RATE)
    begins, ends = [places[0], *places[cuts + 1]], [*places[cuts], places[-1]]
    if not frames_db:
        return [(b / RATE, (e + 1) / RATE) for b, e in zip(begins, ends, strict=True)]
    out = []
    grain = RATE // 100
    for b, e in zip(begins, ends, strict=True):
        count = (e - b) // grain + 1
        frames = np.zeros(count * grain)
        part = audio[b : b + count * grain]
        frames[: len(part)] = part
        power = (frames.reshape(count, grain) ** 2).mean(axis=1)
        loud = np.flatnonzero(power >= power.max() * 10 ** (-frames_db / 10))
        out.append(((b + loud[0] * grain) / RATE, (b + (loud[-1] + 1) * grain) / RATE))
    return out
