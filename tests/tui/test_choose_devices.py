"""Choosing devices: lists, levels, sounds and what is missing, with an ear and a mouth that tell what the test says."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from textual.pilot import Pilot

from appliance.audio.catalog import DeviceInfo
from appliance.setup.devices import Choices, Chosen, Heard, offered
from appliance.tui.devices import DeviceScreen, Ear, level_line

SIZES = [(80, 24), (120, 40), (58, 18)]
DEVICES = [
    DeviceInfo(0, "HDA Intel PCH: ALC257 Analog (hw:0,0)", "ALSA", 2, 2, 44_100),
    DeviceInfo(1, "USB PnP Sound Device: Audio (hw:1,0)", "ALSA", 1, 0, 48_000, default_input=True),
    DeviceInfo(2, "USB PnP Sound Device: Audio (hw:2,0)", "ALSA", 1, 0, 48_000),
    DeviceInfo(3, "Jabra SPEAK 510 USB: Audio (hw:3,0)", "ALSA", 1, 2, 16_000, default_output=True),
]
NO_LIBRARY = "The PortAudio library is not installed on this machine. Install it: sudo apt install libportaudio2."
LOUD = (Heard(-24.0), Heard(-21.5), Heard(-23.0))


class Stage:
    """A `Tryout`: these devices, this level, this way of playing."""

    def __init__(
        self, devices: Sequence[DeviceInfo] = DEVICES, heard: Sequence[Heard] = LOUD, played: str = "", lacks: str = ""
    ) -> None:
        self.devices, self.heard, self.played, self.lacks = list(devices), heard, played, lacks
        self.listened: list[str] = []
        self.sounded: list[str] = []
        self.open = 0
        self.closed = False
        self.slow = threading.Event()
        self.slow.set()

    def look(self, kept: Chosen, *, anew: bool = False) -> Choices:
        self.slow.wait(10)
        found = offered(self.devices, kept)
        if self.lacks:
            return Choices(found.inputs, found.outputs, {"input": self.lacks, "output": self.lacks})
        return found

    async def listen(self, name: str, told: Callable[[Heard], None]) -> None:
        self.listened.append(name)
        self.open += 1
        try:
            for heard in self.heard:
                told(heard)
            await asyncio.Event().wait()
        finally:
            self.open -= 1

    async def play(self, name: str) -> str:
        self.sounded.append(name)
        return self.played

    def close(self) -> None:
        self.closed = True


def screen(stage: Stage, kept: Chosen | None = None) -> DeviceScreen:
    return DeviceScreen(stage, kept or Chosen(), settle_s=0.0)


async def still(pilot: Pilot[Any]) -> None:
    """The devices are known, and what was to be told has been."""
    while any(worker.group == "look" and not worker.is_finished for worker in pilot.app.workers):
        await pilot.pause()
    for _ in range(3):
        await pilot.pause()


def drive(app: DeviceScreen, play: Callable[[Pilot[Any]], Any], size: tuple[int, int] = (100, 30)) -> Chosen | None:
    async def main() -> None:
        async with app.run_test(size=size) as pilot:
            await still(pilot)
            await play(pilot)

    asyncio.run(main())
    return app.return_value


def press(stage: Stage, *keys: str, kept: Chosen | None = None) -> Chosen | None:
    async def play(pilot: Pilot[Any]) -> None:
        for key in keys:
            await pilot.press(key)
            await still(pilot)

    return drive(screen(stage, kept), play)


USB = "USB PnP Sound Device: Audio"


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        (["enter", "enter"], Chosen()),
        (["down", "down", "enter", "enter"], Chosen(input=USB)),
        (["down", "down", "down", "enter", "enter"], Chosen(input=f"{USB} (hw:2,0)")),
        (["enter", "down", "down", "enter"], Chosen(output="Jabra SPEAK 510 USB: Audio")),
        (["right", "down", "left", "down", "tab", "enter"], Chosen(*["HDA Intel PCH: ALC257 Analog"] * 2)),
        (["down", "q"], None),
        (["down", "escape"], None),
    ],
)
def test_keys(keys: list[str], chosen: Chosen | None) -> None:
    stage = Stage()
    assert press(stage, *keys) == chosen
    assert stage.closed
    assert stage.open == 0


def test_what_is_configured_is_chosen_at_first_even_when_it_is_not_there() -> None:
    kept = Chosen("Blue Yeti", "jabra")
    stage = Stage()
    assert press(stage, "enter", "enter", kept=kept) == kept
    assert stage.listened == []  # nothing to open


def test_only_the_highlighted_microphone_is_open() -> None:
    stage = Stage()

    async def play(pilot: Pilot[Any]) -> None:
        assert (stage.listened, stage.open) == (["default"], 1)
        await pilot.press("down")
        await still(pilot)
        assert (stage.listened[-1], stage.open) == ("HDA Intel PCH: ALC257 Analog", 1)
        await pilot.press("tab", "down")
        await still(pilot)
        assert stage.open == 1
        assert len(stage.listened) == 2

    drive(screen(stage), play)
    assert stage.open == 0


def test_the_mouse_highlights_and_does_not_go_on() -> None:
    stage = Stage()

    async def play(pilot: Pilot[Any]) -> None:
        await pilot.click("#input", offset=(3, 2))
        await pilot.click("#output", offset=(3, 1))
        await still(pilot)
        assert stage.listened[-1] == USB
        await pilot.press("enter")

    assert drive(screen(stage), play) == Chosen(USB, "HDA Intel PCH: ALC257 Analog")


def test_a_sound_on_the_highlighted_speaker() -> None:
    stage = Stage()
    press(stage, "t", "tab", "down", "t", "q")
    assert stage.sounded == ["default", "HDA Intel PCH: ALC257 Analog"]


def test_one_can_go_on_before_the_devices_are_known() -> None:
    stage = Stage()
    stage.slow.clear()

    async def main() -> None:
        app = screen(stage, Chosen("Blue Yeti"))
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("t", "enter", "enter")
            assert app.return_value == Chosen("Blue Yeti")
            stage.slow.set()

    asyncio.run(main())
    assert stage.listened == []


def test_a_microphone_that_was_plugged_in_is_found_by_looking_again() -> None:
    stage = Stage([])

    async def play(pilot: Pilot[Any]) -> None:
        assert "no microphone" in str(pilot.app.query_one(Ear).render())
        stage.devices = DEVICES
        await pilot.press("r")
        await still(pilot)
        assert "it hears you" in str(pilot.app.query_one(Ear).render())
        await pilot.press("down", "down", "enter", "enter")

    assert drive(screen(stage), play) == Chosen(input=USB)


def test_without_the_library_one_goes_on() -> None:
    stage = Stage([], lacks=NO_LIBRARY)
    assert press(stage, "t", "enter", "enter") == Chosen()
    assert stage.listened == stage.sounded == []


@pytest.mark.parametrize(("dbfs", "filled"), [(-120.0, 0), (-70.0, 0), (-35.0, 20), (0.0, 40), (3.0, 40)])
def test_the_bar_is_to_scale(dbfs: float, filled: int) -> None:
    said = level_line(dbfs, 50).plain
    assert said.count("█") == filled
    assert len(said) == 48


STATES: dict[str, tuple[Stage, list[str]]] = {
    "heard": (Stage(), []),
    "quiet": (Stage(heard=[Heard(-62.0)]), ["down", "tab"]),
    "clipping": (Stage(heard=[Heard(-1.0, "clipping")]), ["tab", "t"]),
    "none": (Stage([]), []),
    "no-library": (
        Stage(
            [],
            lacks="The PortAudio library is not installed on this machine. Install it: sudo apt install libportaudio2.",
        ),
        [],
    ),
    "does-not-open": (
        Stage(heard=[Heard(trouble="USB PnP cannot be opened: Device unavailable.")], played="It cannot be opened."),
        ["down", "down", "t"],
    ),
    "not-there": (Stage(), ["end", "tab", "end"]),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("state", STATES)
def test_pictures(snap_compare: Callable[..., bool], state: str, size: tuple[int, int]) -> None:
    stage, keys = STATES[state]
    kept = Chosen("Blue Yeti", "Old Speaker") if state == "not-there" else None

    async def settle(pilot: Pilot[Any]) -> None:
        await still(pilot)
        for key in keys:
            await pilot.press(key)
            await still(pilot)

    assert snap_compare(screen(stage, kept), terminal_size=size, run_before=settle)
