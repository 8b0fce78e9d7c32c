"""The settings of the audio room: devices, echo, stations. Plain frozen dataclasses; owns nothing else."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DeviceSettings:
    """One end of a station. `device`: a stable name, part of one, or a role (default, communications).

    0 for a rate or a channel count means the device's own.
    """

    device: str = "default"
    rate: int = 0
    channels: int = 0
    latency_ms: float = 40.0  # asked of the device; raise it where it underruns
    start_buffer_ms: float = 20.0  # output: collected before an answer starts
    queue_s: float = 120.0  # output: what may wait to be heard
    gap_ms: float = 300.0  # no sign of life for this long: the device is lost
    patience_s: float = 8.0  # output: an answer waits this long for a lost device


@dataclass(frozen=True, slots=True)
class EchoSettings:
    """What keeps the appliance from hearing itself."""

    mode: str = "auto"  # auto, cancel, half-duplex, off
    delay_ms: float = 0.0  # speaker to microphone, as `appliance doctor` measured it; 0: found by the canceller
    noise_suppression: bool = False
    gain_control: bool = False
    tail_ms: float = 250.0  # half duplex: deaf for so long after the last audible sample
    residual_db: float = 10.0  # while audible, what stays so far below the expected echo is a rest of it; 0: keep
    strong_echo_dbfs: float = -45.0  # auto: an echo above this after cancelling is too strong…
    weak_cancelling_db: float = 6.0  # …where cancelling removed less than this


@dataclass(frozen=True, slots=True)
class StationSettings:
    """One microphone and speaker pair: a source of sessions."""

    name: str = "default"
    input: DeviceSettings = field(default_factory=DeviceSettings)
    output: DeviceSettings = field(default_factory=DeviceSettings)
    echo: EchoSettings = field(default_factory=EchoSettings)
    wake_word: str = ""  # empty: always listening; else okay_nabu, hey_jarvis, hey_mycroft or alexa
    follow_up_s: float = 8.0  # after an answer, no wake word is needed for so long
    chime: bool = True  # when the wake word was heard
    language: str = ""  # empty: as the pack says
    push_to_talk: bool = False


@dataclass(frozen=True, slots=True)
class VisitSettings:
    """When a session ends by itself. `wipe`: its turns leave the store with it, as at a kiosk."""

    idle_s: float = 600.0
    wipe: bool = False
