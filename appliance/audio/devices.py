"""Microphones and loudspeakers: what the composition root needs of them in one place."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from appliance.audio.catalog import (
    DeviceInfo,
    choose,
    list_devices,
)
from appliance.audio.cutter import Cleaner
from appliance.audio.echo import EchoCanceller
from appliance.audio.host import AudioHost
from appliance.audio.microphone import DeviceSource
from appliance.audio.ports import Source
from appliance.audio.settings import DeviceSettings, EchoSettings, StationSettings
from appliance.audio.speaker import DeviceSink
from appliance.audio.status import Report, reporter
from appliance.audio.wakeword import WakeSettings, WakeSource, WakeWord
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
    """One station's two ends. `ear` is what a conversation listens to: the microphone, or its wake-word gate."""

    settings: StationSettings
    microphone: DeviceSource
    sink: DeviceSink
    echo: EchoCanceller
    gate: WakeSource | None  # with a wake word or push to talk

    @property
    def ear(self) -> Source:
        return self.gate or self.microphone

    async def close(self) -> None:
        """Input first, then output."""
        await self.microphone.close()
        await asyncio.to_thread(self.sink.close)


def open_station(
    settings: StationSettings,
    host: AudioHost,
    clock: Clock,
    publish: Callable[[DeviceChanged], None],
    woken: Callable[[bool, float], None] = lambda awake, at: None,
) -> StationAudio:
    """Microphone and loudspeaker of one station, on the running event loop.

    Never fails for want of a device: it waits for one and says so through `publish` (DeviceChanged: open,
    lost, waiting, silent, clipping, half-duplex, full-duplex). `woken(awake, at)` is told when a wake word, a key or
    the end of the follow-up window changes whether it listens. Raises MissingError where PortAudio itself is absent.
    """
    report = reporter(settings.name, clock, publish)
    sink = DeviceSink(settings.output, host, report)
    echo = EchoCanceller(settings.echo, sink, report, settings.input.device)
    wanted = settings.echo
    needed = wanted.mode != "off" or wanted.noise_suppression or wanted.gain_control
    microphone = DeviceSource(settings.input, host, report, echo if needed else None)
    gate = None
    if settings.wake_word or settings.push_to_talk:
        wake = WakeSettings(settings.wake_word, follow_up_s=settings.follow_up_s, chime=settings.chime)
        gate = WakeSource(microphone, WakeWord(wake.word) if wake.word else None, wake, woken)
    return StationAudio(settings, microphone, sink, echo, gate)
