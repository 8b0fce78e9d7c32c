"""Which devices there are, by names that stay the same, and which one a setting means.

Owns the reading of PortAudio's list. A stable name is PortAudio's without the card number that changes when a
USB device is plugged in again. Knows nothing of streams.
"""

import contextlib
import ctypes
import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from appliance.errors import MissingError

_CARD = re.compile(r"\s*[:,-]?\s*\(hw:[^)]*\)\s*$")
_COMMUNICATIONS = ("communication", "speakerphone", "headset", "handset", "echo-cancel", "echo cancel")
_quieting = threading.RLock()  # descriptor 2 belongs to the whole process
_alsa_handler: Any = None
ROLES = ("default", "communications")


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One device as PortAudio lists it now. `index` is good until the list is read anew."""

    index: int
    name: str
    host: str  # PortAudio's host API: ALSA, Core Audio, WASAPI…
    input_channels: int
    output_channels: int
    rate: int  # its own rate, Hz
    default_input: bool = False
    default_output: bool = False

    @property
    def stable_name(self) -> str:
        return _CARD.sub("", self.name)

    def channels(self, kind: str) -> int:
        return self.input_channels if kind == "input" else self.output_channels


def list_devices() -> list[DeviceInfo]:
    """The devices of PortAudio's list as it was last read. Raises MissingError where PortAudio is absent."""
    sd = portaudio()
    hosts = [str(host["name"]) for host in sd.query_hostapis()]
    default_in, default_out = _defaults(sd)
    return [
        DeviceInfo(
            index=index,
            name=str(entry["name"]),
            host=hosts[int(entry["hostapi"])],
            input_channels=int(entry["max_input_channels"]),
            output_channels=int(entry["max_output_channels"]),
            rate=own_rate(hosts[int(entry["hostapi"])], int(entry["default_samplerate"])),
            default_input=index == default_in,
            default_output=index == default_out,
        )
        for index, entry in enumerate(sd.query_devices())
    ]


def own_rate(host: str, said: int) -> int:
    """A device's own rate, Hz, from what PortAudio says.

    With ALSA PortAudio says 44,100 of everything that can be opened at it, conversion included. Sound servers
    and headsets run at 48,000, and opened at it PulseAudio's stamps are three times as steady.
    """
    return 48_000 if host == "ALSA" and said == 44_100 else said


def choose(devices: list[DeviceInfo], wanted: str, kind: str) -> DeviceInfo | None:
    """The device that `wanted` means for `kind` ("input" or "output"); None when there is none.

    A name is matched whole, then without its card number, then as the part of one device's name, case ignored.
    "communications" is the device whose name says it is meant for talking, else the default.
    """
    able = [device for device in devices if device.channels(kind) > 0]
    if wanted == "communications":
        for device in able:
            if any(word in device.name.lower() for word in _COMMUNICATIONS):
                return device
    if wanted in ROLES or not wanted:
        marked = [d for d in able if (d.default_input if kind == "input" else d.default_output)]
        return next(iter(marked or able), None)
    for matches in (
        [d for d in able if d.name == wanted],
        [d for d in able if d.stable_name == wanted],
        [d for d in able if wanted.lower() in d.name.lower()],
    ):
        if matches:
            return matches[0]
    return None


def read_anew() -> None:
    """Start PortAudio anew, so that its list is that of now. Every stream must have been closed.

    Raises MissingError where PortAudio is absent.
    """
    sd = portaudio()
    with quiet_stderr():
        sd._terminate()
        sd._initialize()


def portaudio() -> Any:
    """The sounddevice module. Raises MissingError naming what to install."""
    try:
        if "sounddevice" not in sys.modules:
            with quiet_stderr():  # importing starts PortAudio, which makes ALSA talk
                import sounddevice
            _hush_alsa()
        import sounddevice
    except OSError as error:  # the module is there, the library behind it is not
        raise MissingError(
            "The PortAudio library is not installed on this machine.",
            "Install it: sudo apt install libportaudio2",
        ) from error
    return sounddevice


def _hush_alsa() -> None:
    """ALSA reports each underrun on stderr from its own thread, across the screen. They are counted instead."""
    global _alsa_handler  # noqa: PLW0603  ALSA keeps the pointer for the life of the process
    try:
        alsa = ctypes.CDLL("libasound.so.2")
    except OSError:
        return  # not Linux
    kind = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p)
    _alsa_handler = kind(lambda *_: None)
    alsa.snd_lib_error_set_handler(_alsa_handler)


def _defaults(sd: Any) -> tuple[int, int]:
    chosen = sd.default.device
    return int(chosen[0]), int(chosen[1])


@contextlib.contextmanager
def quiet_stderr() -> Iterator[None]:
    """Keep what PortAudio and ALSA print in C off the terminal; anything else written meanwhile is passed on."""
    with _quieting, tempfile.TemporaryFile() as kept:
        try:
            saved = os.dup(2)
        except OSError:  # a service without stderr
            yield
            return
        os.dup2(kept.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            kept.seek(0)
            for line in kept.read().splitlines(keepends=True):
                if not line.startswith((b"ALSA lib", b"Expression '", b"PaAlsa", b"\n")):
                    os.write(2, line)
