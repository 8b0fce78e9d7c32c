"""What can be chosen from a list of devices, by which name, and what a level means. Pure."""

import pytest

from appliance.audio.catalog import DeviceInfo, choose
from appliance.errors import MissingError
from appliance.setup import devices
from appliance.setup.devices import Choice, Chosen, Heard, level_words, look, named, offered

USB = "USB PnP Sound Device: Audio"
DEVICES = [
    DeviceInfo(0, "HDA Intel PCH: ALC257 Analog (hw:0,0)", "ALSA", 2, 2, 44_100),
    DeviceInfo(1, f"{USB} (hw:1,0)", "ALSA", 1, 0, 48_000, default_input=True),
    DeviceInfo(2, f"{USB} (hw:2,0)", "ALSA", 1, 0, 48_000),
    DeviceInfo(3, "default", "ALSA", 32, 32, 44_100),
    DeviceInfo(4, "Jabra: Audio (hw:3,0)", "ALSA", 0, 2, 16_000, default_output=True),
]


def test_each_device_once_by_its_stable_name_the_default_first() -> None:
    choices = offered(DEVICES, Chosen())
    assert choices.trouble == {}
    assert choices.inputs == (
        Choice("default", f"now {USB}"),
        Choice("HDA Intel PCH: ALC257 Analog", "44,100 Hz"),
        Choice(USB, "48,000 Hz"),
        Choice(f"{USB} (hw:2,0)", "48,000 Hz"),
    )
    assert [choice.name for choice in choices.outputs] == ["default", "HDA Intel PCH: ALC257 Analog", "Jabra: Audio"]


def test_every_name_means_the_device_of_its_line() -> None:
    meant = [choose(DEVICES, choice.name, "input") for choice in offered(DEVICES, Chosen()).inputs]
    assert [device.index for device in meant if device is not None] == [1, 0, 1, 2]


@pytest.mark.parametrize(
    ("kept", "line"),
    [
        ("jabra", Choice("jabra", "now Jabra: Audio")),
        ("communications", Choice("communications", "now Jabra: Audio")),
        ("Blue Yeti", Choice("Blue Yeti", "not there now", there=False)),
    ],
)
def test_what_is_configured_stays_on_offer(kept: str, line: Choice) -> None:
    assert offered(DEVICES, Chosen(output=kept)).outputs[-1] == line


def test_what_alsa_makes_of_every_card_is_no_choice() -> None:
    plumbing = [
        DeviceInfo(n, name, "ALSA", 2, 2, 48_000) for n, name in enumerate(["sysdefault", "surround51", "dmix"])
    ]
    choices = offered([*plumbing, *DEVICES], Chosen("sysdefault"))
    assert "dmix" not in [choice.name for choice in choices.inputs]
    assert choices.inputs[-1].name == "sysdefault"  # configured it stays


def test_what_is_missing_is_said() -> None:
    assert set(offered(DEVICES[4:], Chosen()).trouble) == {"input"}
    none = offered([], Chosen())
    assert none.inputs == (Choice("default", "not there now", there=False),)
    assert "no speaker" in none.trouble["output"]


def test_without_the_library_both_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> list[DeviceInfo]:
        raise MissingError("The PortAudio library is not installed on this machine.", "Install it: apt")

    monkeypatch.setattr(devices, "list_devices", absent)
    said = "The PortAudio library is not installed on this machine. Install it: apt."
    assert look(Chosen("USB")).trouble == {"input": said, "output": said}
    assert [choice.name for choice in look(Chosen("USB")).inputs] == ["default", "USB"]


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        ("1", "default"),
        ("3", USB),
        ("9", None),
        ("0", None),
        (" default ", "default"),
        (USB, USB),
        ("intel", "HDA Intel PCH: ALC257 Analog"),
        ("usb", None),
        ("nonsense", None),
        ("", None),
    ],
)
def test_a_typed_answer(answer: str, name: str | None) -> None:
    assert named(answer, offered(DEVICES, Chosen()).inputs) == name


@pytest.mark.parametrize(
    ("heard", "words"),
    [
        (Heard(-120.0), "nothing arrives"),
        (Heard(-80.0, "silent"), "nothing arrives"),
        (Heard(-60.0), "quiet"),
        (Heard(-30.0), "it hears you"),
        (Heard(-1.0, "clipping"), "too loud"),
        (Heard(trouble="USB cannot be opened."), "USB cannot be opened."),
    ],
)
def test_what_a_level_means(heard: Heard, words: str) -> None:
    assert words in level_words(heard)
