"""Microphones and loudspeakers: what the composition root needs of them in one place."""

from appliance.audio.catalog import (
    DeviceInfo,
    choose,
    list_devices,
)
from appliance.audio.host import AudioHost
from appliance.audio.microphone import Cleaner, DeviceSource
from appliance.audio.settings import DeviceSettings, EchoSettings, StationSettings
from appliance.audio.speaker import DeviceSink
from appliance.audio.status import Report, reporter

__all__ = [
    "AudioHost",
    "Cleaner",
    "DeviceInfo",
    "DeviceSettings",
    "DeviceSink",
    "DeviceSource",
    "EchoSettings",
    "Report",
    "StationSettings",
    "choose",
    "list_devices",
    "reporter",
]
