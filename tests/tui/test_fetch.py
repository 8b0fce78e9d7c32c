"""A pull with its screen: how far it is, called off, failing, tried again; real files onto a real shelf."""

import asyncio
import hashlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from appliance.errors import ApplianceError, Cancelled, DiskFullError
from appliance.models.digest import CHUNK_BYTES
from appliance.models.fetch import Puller, PullResult
from appliance.models.manifest import parse_manifest
from appliance.models.progress import Progress, Watch
from appliance.models.shelf import FileState, Shelf
from appliance.models.tally import Arrived, Tally, missing
from appliance.tui import fetch
from appliance.tui.fetch import Bars, FetchScreen, fetch_on_screen

MB = 1_000_000
SIZES = [(80, 24), (120, 40), (58, 18)]
TITLE = "fetching the models of starter"
MODELS = [
    Arrived("silero-vad", 0, 2_300_000),
    Arrived("whisper-base", 0, 145 * MB),
    Arrived("qwen2.5-coder-0.5b", 200 * MB, 491 * MB),
    Arrived("piper-en_US-joe-medium", 0, 63 * MB),
]
DATA = hashlib.shake_256(b"toy weights").digest(3 * CHUNK_BYTES)


class Turned:
    """A clock that the test turns."""

    at = 0.0

    def __call__(self) -> float:
        return self.at


class Scene:
    """A pull that takes these steps, one a second, and then holds until it is let go or called off."""

    def __init__(self, steps: Sequence[Progress] = (), error: ApplianceError | None = None) -> None:
        self.steps, self.error = steps, error
        self.held, self.go = threading.Event(), threading.Event()
        self.clock = Turned()
        self.tries = 0

    def begin(self) -> Tally:
        return Tally(MODELS, self.clock)

    def pull(self, watch: Watch) -> PullResult:
        self.tries += 1
        for step in self.steps:
            watch(step)
            self.clock.at += 1.0
        if self.error is not None:
            raise self.error
        self.held.set()
        self.go.wait(20)
        watch(Progress("whisper-base", "model.bin", 145 * MB, 145 * MB))
        return PullResult(fetched=["whisper-base"])

    def screen(self) -> FetchScreen:
        return FetchScreen(TITLE, self.pull, self.begin)


ARRIVING = [
    Progress("silero-vad", "silero_vad.onnx", 2_300_000, 2_300_000),
    *[Progress("whisper-base", "model.bin", n * 12 * MB, 145 * MB) for n in range(6)],
]
TROUBLE = Progress(
    "whisper-base", "model.bin", 0, 145 * MB, "hf:Systran/faster-whisper-base/model.bin: example.org: Connection "
    "refused; trying the next source"
)  # fmt: skip
NO_SOURCE = ApplianceError(
    "whisper-base/model.bin could not be fetched: example.org: Connection refused",
    "check the network and pull again, or import a bundle: appliance models import BUNDLE",
)


async def until(pilot: Pilot[Any], true: Callable[[], object]) -> None:
    end = asyncio.get_running_loop().time() + 10
    while not true():
        assert asyncio.get_running_loop().time() < end
        await pilot.pause()


def drive(app: FetchScreen, play: Callable[[Pilot[Any]], Any]) -> PullResult | None:
    async def main() -> None:
        async with app.run_test(size=(100, 30)) as pilot:
            await play(pilot)

    asyncio.run(main())
    return app.return_value


def shown(app: FetchScreen) -> str:
    app.tick()
    return str(app.query_one(Bars).render())


def test_it_ends_by_itself_when_everything_is_here() -> None:
    scene = Scene(ARRIVING)
    app = scene.screen()

    async def play(pilot: Pilot[Any]) -> None:
        await until(pilot, scene.held.is_set)
        said = shown(app)
        assert "✓ silero-vad" in said
        assert "► whisper-base" in said
        assert "○ piper" in said
        assert "9.6 MB/s, 45 s left" in said
        scene.go.set()
        await until(pilot, lambda: app._exit)

    result = drive(app, play)
    assert result is not None
    assert result.fetched == ["whisper-base"]


def test_called_off_it_leaves_at_the_next_step() -> None:
    scene = Scene(ARRIVING)
    app = scene.screen()

    async def play(pilot: Pilot[Any]) -> None:
        await until(pilot, scene.held.is_set)
        await pilot.press("q")
        assert "stopping" in shown(app)
        scene.go.set()
        await until(pilot, lambda: app._exit)

    assert drive(app, play) is None
    assert app.error is None


@pytest.mark.parametrize("patience_s", [0.01, 60.0])
def test_a_source_that_is_silent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, patience_s: float) -> None:
    """Either patience is over, or a second press says so."""
    monkeypatch.setattr(fetch, "_PATIENCE_S", patience_s)
    scene = Scene(ARRIVING)
    app = scene.screen()

    async def play(pilot: Pilot[Any]) -> None:
        await until(pilot, scene.held.is_set)
        await pilot.press("escape")
        if patience_s > 1:
            await pilot.press("escape")
        await until(pilot, lambda: app._exit)

    assert drive(app, play) is None
    scene.go.set()


def test_an_error_stays_until_it_was_read_and_can_be_tried_again() -> None:
    scene = Scene(ARRIVING, NO_SOURCE)
    app = scene.screen()

    async def play(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: "could not be fetched" in shown(app))
        assert "hint: check the network" in shown(app)
        scene.error = None
        await pilot.press("r")
        await until(pilot, scene.held.is_set)
        assert "could not be fetched" not in shown(app)
        await pilot.press("r")
        scene.go.set()
        await until(pilot, lambda: app._exit)

    assert drive(app, play) is not None
    assert scene.tries == 2


def on_screen(pull: Callable[[Watch], PullResult], begin: Callable[[], Tally], monkeypatch: pytest.MonkeyPatch,
              play: Callable[[Pilot[Any]], Any]) -> PullResult:  # fmt: skip
    """`fetch_on_screen` with a pilot where the terminal would be."""

    def run(app: FetchScreen) -> PullResult | None:
        async def through(pilot: Pilot[Any]) -> None:
            await play(pilot)
            await until(pilot, lambda: app._exit)

        return drive(app, through)

    monkeypatch.setattr(FetchScreen, "run", run)
    return fetch_on_screen(TITLE, pull, begin)


async def leave_when_told(pilot: Pilot[Any]) -> None:
    await until(pilot, lambda: "hint" in shown(pilot.app))  # type: ignore[arg-type]
    await pilot.press("q")


async def wait(pilot: Pilot[Any]) -> None:
    await pilot.pause()


def test_what_failed_is_raised_when_it_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene([], DiskFullError("there is no room", "make room"))
    with pytest.raises(DiskFullError):
        on_screen(scene.pull, scene.begin, monkeypatch, leave_when_told)


def test_what_nobody_can_mend_is_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def pull(watch: Watch) -> PullResult:
        raise RuntimeError("a fault of ours")

    with pytest.raises(RuntimeError, match="a fault of ours"):
        on_screen(pull, Scene().begin, monkeypatch, wait)


def shelf_of(tmp_path: Path, source: str = "file:weights.bin") -> Shelf:
    (tmp_path / "weights.bin").write_bytes(DATA)
    text = f"""
[[models]]
id = "toy"
kind = "llm"
licence = "MIT"
[[models.files]]
name = "a.bin"
sha256 = "{hashlib.sha256(DATA).hexdigest()}"
bytes = {len(DATA)}
sources = ["{source}"]
"""
    return Shelf(tmp_path / "shelf", parse_manifest(text, tmp_path / "manifest.toml"))


def test_a_real_pull_called_off_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = shelf_of(tmp_path)
    arrived, go = threading.Event(), threading.Event()

    def pull(watch: Watch) -> PullResult:
        def slowly(step: Progress) -> None:
            watch(step)
            arrived.set()
            go.wait(20)

        return Puller(shelf, slowly).pull(["toy"])

    async def stop(pilot: Pilot[Any]) -> None:
        await until(pilot, arrived.is_set)
        await pilot.press("q")
        go.set()

    def begin() -> Tally:
        return Tally(missing(shelf, ["toy"]))

    with pytest.raises(Cancelled):
        on_screen(pull, begin, monkeypatch, stop)
    (half,) = (shelf.root / "toy").glob(".*.part")
    assert 0 < half.stat().st_size < len(DATA)

    assert half.with_name(half.name + ".json").exists()  # what the next pull goes on from

    def again(watch: Watch) -> PullResult:
        return Puller(shelf, watch).pull(["toy"])

    assert on_screen(again, begin, monkeypatch, wait).fetched == ["toy"]
    model = shelf.manifest.model("toy")
    assert shelf.examine(model, model.files[0]).state is FileState.READY


def test_a_real_pull_without_a_source_is_told_with_its_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = shelf_of(tmp_path, "file:gone.bin")
    result = on_screen(
        lambda watch: Puller(shelf, watch).pull(["toy"]),
        lambda: Tally(missing(shelf, ["toy"])),
        monkeypatch,
        leave_when_told,
    )
    assert "toy/a.bin could not be fetched" in result.failed["toy"].message


STATES = {
    "connecting": Scene(),
    "arriving": Scene(ARRIVING),
    "next-source": Scene([*ARRIVING[:3], TROUBLE]),
    "stopping": Scene(ARRIVING),
    "failed": Scene([*ARRIVING[:3], TROUBLE], NO_SOURCE),
    "disk-full": Scene([], DiskFullError("there are 1.2 GB free, and this pull needs 1.9 GB", "make room")),
    "all-here": Scene([Progress(model.model_id, "a", model.total_bytes - model.done_bytes, 0) for model in MODELS]),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("state", STATES)
def test_pictures(snap_compare: Callable[..., bool], state: str, size: tuple[int, int]) -> None:
    scene = Scene(STATES[state].steps, STATES[state].error)
    app = scene.screen()

    async def settle(pilot: Pilot[Any]) -> None:
        await until(pilot, scene.held.is_set if scene.error is None else app._ended.is_set)
        if state == "stopping":
            await pilot.press("q")
        app.tick()
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=settle)
    scene.go.set()
