"""Choosing devices at set-up: what a person may choose from, and trying it out with an ear and a soft sound.

Owns the list of choices (pure) and streams that are open only while somebody looks. Opening is done by the same code
that will run later, on the host's thread. Draws nothing and writes nothing.
"""

import asyncio
import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from appliance.audio.catalog import DeviceInfo, choose, list_devices, read_anew
from appliance.audio.chime import chime
from appliance.audio.host import AudioHost
from appliance.audio.levels import SILENCE_DBFS, dbfs
from appliance.audio.microphone import DeviceSource
from appliance.audio.settings import DeviceSettings, EchoSettings, StationSettings
from appliance.audio.speaker import DeviceSink
from appliance.audio.status import reporter
from appliance.clock import MonotonicClock
from appliance.config import Config, load
from appliance.engines.ports import BLOCK, RATE, Audio
from appliance.errors import ApplianceError
from appliance.events import DeviceChanged

DEFAULT = "default"
INPUT, OUTPUT = "input", "output"
CALLED = {INPUT: "microphone", OUTPUT: "speaker"}
TELL_S = 3 * BLOCK / RATE  # between two figures of the level: as often as an eye follows
_WAKE_S = 0.3  # of silence first: some speakers swallow the beginning of a sound that wakes them
_PATIENCE_S = 4.0  # for a speaker to open
# What ALSA's own configuration makes of every card: other ways to the same device, and no choice for a person.
_PLUMBING = re.compile(r"sysdefault|samplerate|lavrate|speex|speexrate|upmix|vdownmix|dmix|front|rear|side|center_lfe|"
                       r"surround\d\d|modem|phoneline")  # fmt: skip
_QUIET_DBFS = -50.0  # below it is the room, above it somebody speaks


@dataclass(frozen=True, slots=True)
class Chosen:
    """The devices of the first station, as the config names them."""

    input: str = DEFAULT
    output: str = DEFAULT


@dataclass(frozen=True, slots=True)
class Choice:
    """One line of the list. `name` goes into the config; `there` is False for what is not plugged in now."""

    name: str
    note: str
    there: bool = True


@dataclass(frozen=True, slots=True)
class Choices:
    """Both lists, the default first. `trouble` has a sentence for a kind of device that this machine lacks now."""

    inputs: tuple[Choice, ...]
    outputs: tuple[Choice, ...]
    trouble: dict[str, str] = field(default_factory=dict)

    def of(self, kind: str) -> tuple[Choice, ...]:
        return self.inputs if kind == INPUT else self.outputs


@dataclass(frozen=True, slots=True)
class Heard:
    """How loud it was at the microphone just now; `state` as `LevelWatch` says it, or why nothing can be heard."""

    dbfs: float = SILENCE_DBFS
    state: str = ""
    trouble: str = ""


def of(config: Config) -> Chosen:
    """The devices of a config's first station."""
    first = config.stations[0] if config.stations else StationSettings()
    return Chosen(first.input.device, first.output.device)


def present(path: Path) -> Chosen | None:
    """The devices of the user's config at `path`; None where there is none that loads."""
    try:
        return of(load(path))
    except ApplianceError:
        return None


def echo_of(path: Path, chosen: Chosen) -> EchoSettings | None:
    """What the user's config at `path` says of the echo between the `chosen` devices; None for other devices."""
    try:
        config = load(path)
    except ApplianceError:
        return None
    return config.stations[0].echo if config.stations and of(config) == chosen else None


def offered(devices: list[DeviceInfo], kept: Chosen) -> Choices:
    """What can be chosen from `devices`. What the config says already is offered even when it is not there now."""
    trouble = {
        kind: f"This machine has no {CALLED[kind]} that can be reached now."
        for kind in (INPUT, OUTPUT)
        if not any(device.channels(kind) for device in devices)
    }
    return Choices(_lines(devices, INPUT, kept.input), _lines(devices, OUTPUT, kept.output), trouble)


def look(kept: Chosen) -> Choices:
    """What can be chosen now. Slow where PortAudio has not been started yet; without it `trouble` says so."""
    try:
        return offered(list_devices(), kept)
    except ApplianceError as error:
        said = f"{error.message} {error.hint}."
        return replace(offered([], kept), trouble={INPUT: said, OUTPUT: said})


def named(answer: str, choices: tuple[Choice, ...]) -> str | None:
    """The device that a typed answer means: its number in the list, its name, or a part of one name only."""
    answer = answer.strip()
    names = [choice.name for choice in choices]
    if answer in names:
        return answer
    if answer.isdecimal():
        return names[int(answer) - 1] if 1 <= int(answer) <= len(names) else None
    parts = [name for name in names if answer.lower() in name.lower()] if answer else []
    return parts[0] if len(parts) == 1 else None


def level_words(heard: Heard) -> str:
    """What the level means for a person who looks at it."""
    if heard.trouble:
        return heard.trouble
    if heard.state == "clipping":
        return "too loud: turn it down or move away"
    if heard.state == "silent" or heard.dbfs <= -100:
        return "nothing arrives: is it muted, or another microphone?"
    return "quiet: say something" if heard.dbfs < _QUIET_DBFS else "it hears you"


class Trial:
    """An ear at one microphone and a mouth at one speaker, each open only while it is used. `close` when done."""

    def __init__(self) -> None:
        self._host = AudioHost()

    def look(self, kept: Chosen, *, anew: bool = False) -> Choices:
        """As the function; for a thread. `anew` closes what is open, so that what was plugged in since is found."""
        if anew:
            self._host.stop()
            self._host = AudioHost()
            with contextlib.suppress(ApplianceError):  # looking says the same as a sentence
                read_anew()
        return look(kept)

    async def listen(self, name: str, told: Callable[[Heard], None]) -> None:
        """Tell how loud it is at that microphone, every `TELL_S`, until cancelled. Raises nothing for a device that
        does not open: that is told too, and it is tried again."""
        report = reporter("", MonotonicClock(), lambda change: told(Heard(trouble=_sentence(change))))
        source = DeviceSource(DeviceSettings(device=name), self._host, _only_trouble(report))
        blocks: list[Audio] = []
        try:
            async for block in source.blocks():
                blocks.append(block.samples)
                if len(blocks) * BLOCK >= TELL_S * RATE:
                    told(Heard(max(map(dbfs, blocks)), source.levels.state))
                    blocks.clear()
        finally:
            await source.close()

    async def play(self, name: str) -> str:
        """Play two soft notes on that speaker. Returns "" when they have been heard, else why not."""
        troubles: list[str] = []
        report = reporter("", MonotonicClock(), lambda change: troubles.append(_sentence(change)))
        settings = DeviceSettings(device=name)
        try:
            # It asks for the device's rate, which may have to start PortAudio.
            sink = await asyncio.to_thread(DeviceSink, settings, self._host, _only_trouble(report))
        except ApplianceError as error:
            return error.message
        try:
            notes = chime(sink.sample_rate)
            sound = np.concatenate((np.zeros(int(_WAKE_S * sink.sample_rate), np.float32), notes))
            end = sink.write(sound) + len(sound)
            now = asyncio.get_running_loop().time
            latest = now() + _PATIENCE_S
            while sink.played() < end:
                if now() > latest:
                    return troubles[-1] if troubles else "The speaker takes no sound."
                await asyncio.sleep(0.02)
            return ""
        finally:
            await asyncio.to_thread(sink.close)

    def close(self) -> None:
        """Close every stream. Waits; idempotent."""
        self._host.stop()


def _lines(devices: list[DeviceInfo], kind: str, kept: str) -> tuple[Choice, ...]:
    found = {DEFAULT: _meant(devices, kind, DEFAULT)}
    for device in devices:
        if device.channels(kind) == 0 or _PLUMBING.fullmatch(device.name):
            continue
        # Of twins the config can only tell the first by its stable name; the others are called by their whole one.
        name = device.stable_name if device.stable_name not in found else device.name
        if name not in found:
            found[name] = Choice(name, f"{device.rate:,} Hz")
    if kept not in found:
        found[kept] = _meant(devices, kind, kept)
    return tuple(found.values())


def _meant(devices: list[DeviceInfo], kind: str, name: str) -> Choice:
    """A line for a role or a part of a name: which device that is now."""
    device = choose(devices, name, kind)
    if device is not None:
        return Choice(name, f"now {device.stable_name}" if device.stable_name != name else f"{device.rate:,} Hz")
    return Choice(name, "not there now", there=False)


def _only_trouble(report: Callable[[str, str, str, str], None]) -> Callable[[str, str, str, str], None]:
    def told(role: str, name: str, status: str, detail: str) -> None:
        if status in ("waiting", "lost"):
            report(role, name, status, detail)

    return told


def _sentence(change: DeviceChanged) -> str:
    return f"{change.detail or f'{change.name} is {change.status}'}".rstrip(".") + "."
