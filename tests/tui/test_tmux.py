"""The real thing on a real terminal: a demo with real models in tmux, read off the screen and driven by keys."""

import os
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.config import load
from appliance.store.database import StoreDatabase

pytestmark = [
    pytest.mark.models,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]


class Pane:
    def __init__(self, name: str) -> None:
        self.name = name
        self.printed = -1  # readable whenever something was written to the screen

    def start(self, folder: Path, size: tuple[int, int], command: str, *options: str) -> None:
        """Run `command` on a screen of its own."""
        fifo = folder / "printed"
        os.mkfifo(fifo)
        self.printed = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)  # for writing too, so that it never ends
        plain = ["env", "-u", "COLUMNS", "-u", "LINES", "sh", "-c", command]  # the pane's own size counts
        self.tmux("new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), *options, *plain)
        self.tmux("pipe-pane", "-O", f"exec cat > {fifo}")

    def tmux(self, *args: str) -> str:
        run = ["tmux", "-L", self.name, "-f", "/dev/null", *args]
        return subprocess.run(run, capture_output=True, text=True, check=True, timeout=20).stdout

    def until(self, pattern: str, within_s: float) -> str:
        """The screen's text once `pattern` is on it."""
        deadline = time.monotonic() + within_s
        while True:
            text = self.tmux("capture-pane", "-p")
            if re.search(pattern, text):
                return text
            left = deadline - time.monotonic()
            assert left > 0, f"{pattern!r} did not appear in:\n{text}"
            if select.select([self.printed], [], [], left)[0]:
                os.read(self.printed, 1 << 20)

    def press(self, key: str) -> None:
        self.tmux("send-keys", key)


@pytest.fixture
def pane() -> Iterator[Pane]:
    pane = Pane(f"appliance-test-{os.getpid()}")
    yield pane
    if pane.printed >= 0:
        os.close(pane.printed)
    subprocess.run(["tmux", "-L", pane.name, "kill-server"], capture_output=True, check=False, timeout=20)


def test_a_demo_with_its_screen(pane: Pane, tmp_path: Path) -> None:
    db = tmp_path / "appliance.db"
    demo = f"{sys.executable} -c 'from appliance.cli.main import main; main()' demo --tui --tier tiny"
    command = f"{demo} --db {db} --out {tmp_path}/answers.wav; echo ended with $?; exec cat"
    environment = ["-e", f"XDG_STATE_HOME={tmp_path}/state", "-e", f"XDG_RUNTIME_DIR={tmp_path}"]
    pane.start(tmp_path, (120, 40), command, *environment)

    pane.until(r"Where the time went", 60)
    pane.until(r"ready", 120)
    pane.until(r"● hearing", 30)
    text = pane.until(r"2 turns   p50", 90)
    rows = re.findall(r"^ ?›? +\d+ [█▚▲].*[▓▒░■►].* \d+ [✓▲]", text, re.MULTILINE)
    assert len(rows) == 2
    assert "% in budget" in text
    assert re.search(r"heard +\w", text)

    pane.until(r"► speaking", 60)
    pane.press("i")
    pane.until(r"interrupted", 20)
    pane.press("w")
    assert "words hidden" in pane.until(r"Now, words hidden", 10)
    pane.press("?")
    pane.until(r"interrupt the answer", 10)
    pane.press("?")
    pane.until(r"^(?s:(?!.*interrupt the answer).*)$", 10)
    pane.press("Enter")
    text = pane.until(r"ms  audible", 10)
    assert re.search(r"ms  turn over +by \w", text)
    assert re.search(r"ms  final transcript|ms  draft transcript", text)
    assert re.search(r"words? hidden", text)
    pane.press("s")
    pane.until(r"marked: too slow", 10)
    pane.press("Escape")
    pane.until(r"Where the time went", 10)
    pane.press("q")
    pane.until(r"ended with 0", 30)

    turns = StoreDatabase(db).turns()
    assert len([t for t in turns if t.finished]) >= 2
    assert any(t.record.interrupted for t in turns)
    assert [t.mark for t in turns].count("too slow") == 1


def test_set_up_on_its_screens(pane: Pane, tmp_path: Path) -> None:
    """Tier, then devices; the models are here already, so there is nothing to fetch."""
    setup = f"{sys.executable} -c 'from appliance.cli.main import main; main()' setup"
    command = f"{setup}; echo ended with $?; exec cat"
    environment = [
        *["-e", f"XDG_CONFIG_HOME={tmp_path}/config"],
        *["-e", "HF_ENDPOINT=http://127.0.0.1:9"],  # nothing is fetched, whatever happens
    ]
    pane.start(tmp_path, (80, 24), command, *environment)

    pane.until(r"which tier\?", 60)
    pane.press("Home")
    pane.press("Enter")
    pane.until(r"which microphone and speaker\?", 30)
    pane.until(r"(?s)› default.*› default.*Then the speaker", 20)
    pane.press("Enter")
    pane.press("Enter")
    text = pane.until(r"ended with 0", 60)
    assert re.search(r"config: \S+/config/appliance/config.toml", text.replace("\n", ""))
    assert re.search(r"ready: appliance run, or first appliance doctor\s+ended with 0", text)
    assert load(tmp_path / "config" / "appliance" / "config.toml").tier == "tiny"


def test_set_up_that_is_left_writes_nothing(pane: Pane, tmp_path: Path) -> None:
    setup = f"{sys.executable} -c 'from appliance.cli.main import main; main()' setup"
    command = f"{setup}; echo ended with $?; exec cat"
    pane.start(tmp_path, (80, 24), command, "-e", f"XDG_CONFIG_HOME={tmp_path}")
    pane.until(r"which tier\?", 60)
    pane.press("Enter")
    pane.until(r"which microphone and speaker\?", 30)
    pane.press("q")
    pane.until(r"error: stopped\s+ended with 130", 30)
    assert not (tmp_path / "appliance").exists()
