"""Microphones and loudspeakers: what the composition root needs of them in one place."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from appliance.audio.catalog import (
    DeviceInfo,
    choose,
    list_devices,
)
from appliance.audio.echo import EchoCanceller
from appliance.audio.host import AudioHost
from appliance.audio.microphone import Cleaner, DeviceSource
from appliance.audio.settings import DeviceSettings, EchoSettings, StationSettings
from appliance.audio.speaker import DeviceSink
from appliance.audio.status import Report, reporter
from appliance.clock import Clock
from appliance.events import DeviceChanged

__all__ = [
    "AudioHost",
    "Cleaner",
    "DeviceInfo",
    "DeviceSettings",
    "DeviceSink",
    "DeviceSource",
    "EchoCanceller",
    "EchoSettings",
    "Report",
    "StationAudio",
    "StationSettings",
    "choose",
    "list_devices",
    "open_station",
    "reporter",
]


@dataclass(slots=True)
class StationAudio:
    """One station's two ends."""

    settings: StationSettings
    source: DeviceSource
    sink: DeviceSink
    echo: EchoCanceller

    async def close(self) -> None:
        """Input first, then output."""
        await self.source.close()
        await asyncio.to_thread(self.sink.close)


def open_station(
    settings: StationSettings, host: AudioHost, clock: Clock, publish: Callable[[DeviceChanged], None]
) -> StationAudio:
    """Microphone and loudspeaker of one station, on the running event loop.

    Never fails for want of a device: it waits for one and says so through `publish` (DeviceChanged: open,
    lost, waiting, silent, clipping, half-duplex). Raises MissingError where PortAudio itself is absent.
    """
    report = reporter(settings.name, clock, publish)
    sink = DeviceSink(settings.output, host, report)
    echo = EchoCanceller(settings.echo, sink, report, settings.input.device)
    wanted = settings.echo
    needed = wanted.mode != "off" or wanted.noise_suppression or wanted.gain_control
    source = DeviceSource(settings.input, host, report, echo if needed else None)
    return StationAudio(settings, source, sink, echo)
