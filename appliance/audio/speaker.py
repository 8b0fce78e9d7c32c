"""A loudspeaker: an output stream that stays open, and what was really heard from it.

Owns the queue between the conversation and PortAudio's callback, and the map from samples to the instants at
which the device's own clock says they are heard. The callback copies from the ring, or fills with silence, and
notes where it was; nothing else. Opening and reopening are the host's.
"""

import time
from collections import deque
from typing import Any

import numpy as np

from appliance.audio.catalog import DeviceInfo
from appliance.audio.host import AudioHost
from appliance.audio.levels import SILENCE_DBFS, dbfs
from appliance.audio.priority import prefer_this_thread
from appliance.audio.resample import resample
from appliance.audio.ring import History, Ring
from appliance.audio.settings import DeviceSettings
from appliance.audio.status import Report
from appliance.audio.timeline import ClockOffset, StreamClock, Timeline
from appliance.engines.ports import Audio
from appliance.errors import EngineError

_FADE_S = 0.005
_HISTORY_S = 4.0
_JUMP_S = 0.008  # output stamps are steady; what exceeds this is an underrun


class DeviceSink:
    """A `Sink` on a device, for the event loop's thread. `close` when done.

    `sample_rate` is the device's own (48,000 while there is none) and stays, whatever device comes back later.
    While a device is lost, queued samples wait for it; `gone` tells when patience is over.
    """

    kind = "output"

    def __init__(self, settings: DeviceSettings, host: AudioHost, report: Report) -> None:
        self.wanted = settings.device
        self.sample_rate = settings.rate or host.rate_of(settings.device, "output")
        self.underruns = 0  # the device ran out of samples although the stream was open
        self.refused = 0  # samples that did not fit into the queue
        self._settings = settings
        self._host = host
        self._report = report
        self._stream: Any = None
        self._ring = Ring(int(settings.queue_s * self.sample_rate))
        self._rate = float(self.sample_rate)  # of the open stream
        self._base = (0, 0)  # position and ring frame from which on `_rate` counts
        self._timeline = Timeline(self.sample_rate)
        self._held: int | None = None  # ring frame at which a pause holds
        self._played = 0
        self._waiting_since = 0.0
        # Written by the callback alone:
        self._clock = StreamClock(self._rate, jump_s=_JUMP_S)
        self._offset = ClockOffset()
        self._frames = self._first_frame = 0  # handed to the device, silence included
        self._dry = True
        self._period = 0  # the most frames a callback has asked for
        self._alive_at = time.monotonic()
        self._anchors: deque[tuple[int, float]] = deque(maxlen=256)  # ring frame, instant
        self.history = History(int(_HISTORY_S * self.sample_rate))
        self.history_clock = self._clock
        self.lost_since: float | None = self._alive_at
        host.add(self)

    # --- the Sink port ----------------------------------------------------------------------------------------

    def write(self, audio: Audio) -> int:
        """Raises EngineError when more than `queue_s` would wait: somebody writes faster than speech for minutes."""
        if self._rate != self.sample_rate:
            audio = resample(audio, self.sample_rate, int(self._rate))
        if self._ring.available == 0:
            self._waiting_since = time.monotonic()
        position = self._position(self._ring.written)
        taken = self._ring.push(audio)
        if taken < len(audio):
            self.refused += len(audio) - taken
            raise EngineError(
                f"More than {self._settings.queue_s:.0f} s of answer wait to be heard on {self.wanted}.",
                "Raise queue_s of the station's output, or let answers be shorter.",
            )
        return position

    def played(self) -> int:
        self._collect()
        reached = self._timeline.reached(time.monotonic())
        self._played = max(self._played, min(self._position(self._ring.taken), reached))
        return self._played

    def audible_at(self, position: int) -> float | None:
        return self._timeline.instant(position) if position < self.played() else None

    def pause(self, paused: bool) -> None:
        ring = self._ring
        if paused and self._held is None:
            fade = int(_FADE_S * self._rate)
            # A callback under way may take one more period whatever is decided now.
            held = min(ring.written, ring.taken + max(fade, self._period))
            ring.fade(held, fade, fade_in=True)
            self._held = held
        elif not paused:
            self._held = None

    def flush(self) -> int:
        fade = int(_FADE_S * self._rate)
        if self._held is not None:  # the callback stops there, whatever it sees
            end = self._ring.rewind(self._held, fade)
        else:
            end = self._ring.rewind(self._ring.taken + fade, fade, spare=self._period)
        return self._position(end)

    # --- more -------------------------------------------------------------------------------------------------

    @property
    def level_dbfs(self) -> float:
        """The level of the last 32 ms handed to the device."""
        count = int(0.032 * self._rate)
        return dbfs(self.history.read(self.history.written - count, count)) if self._stream else SILENCE_DBFS

    @property
    def latency_ms(self) -> float:
        """What the device says lies between the callback and the ear."""
        return float(self._stream.latency) * 1000.0 if self._stream else 0.0

    def gone(self) -> bool:
        """Whether the device has been away for longer than an answer should wait."""
        since = self.lost_since
        return since is not None and time.monotonic() - since > self._settings.patience_s

    def close(self) -> None:
        self._host.remove(self)

    # --- the host's side --------------------------------------------------------------------------------------

    def open(self, sd: Any, device: DeviceInfo) -> None:
        channels = self._settings.channels or min(2, device.output_channels)
        fault: Exception | None = None
        for rate in dict.fromkeys((self.sample_rate, device.rate, 48_000, 44_100)):
            try:
                stream = sd.OutputStream(
                    device=device.index,
                    samplerate=rate,
                    channels=channels,
                    dtype="float32",
                    latency=self._settings.latency_ms / 1000.0,
                    callback=self._callback,
                )
            except sd.PortAudioError as error:
                fault = error
                continue
            self._begin(float(stream.samplerate))
            self._stream = stream
            stream.start()
            return
        assert fault is not None
        raise fault

    def halt(self) -> None:
        if self.lost_since is None:
            self.lost_since = time.monotonic()
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close(ignore_errors=True)

    def silent_for(self, now: float) -> float:
        return now - self._alive_at

    def limit_s(self) -> float:
        return self._settings.gap_ms / 1000.0

    def report(self, status: str, detail: str) -> None:
        self._report("output", self.wanted, status, detail)

    def _begin(self, rate: float) -> None:
        """A new stream: its frames and stamps count afresh, positions go on."""
        if rate != self._rate:
            waiting = np.zeros(self._ring.available, dtype=np.float32)
            base = self._position(self._ring.taken)
            self._ring.pop(waiting)
            self._ring.push(resample(waiting, int(self._rate), int(rate)))
            self._base, self._rate = (base, self._ring.taken), rate
            self._held = None if self._held is None else self._ring.taken
            self.history = History(int(_HISTORY_S * rate))
        self._clock = StreamClock(rate, jump_s=_JUMP_S)
        self._offset = ClockOffset()
        self._frames = self._first_frame = self.history.written
        self.history_clock = self._clock
        self._dry = True
        self._alive_at = time.monotonic()
        self.lost_since = None

    def _position(self, frame: int) -> int:
        position, base = self._base
        return position + round((frame - base) * self.sample_rate / self._rate)

    def _collect(self) -> None:
        while self._anchors:
            frame, instant = self._anchors.popleft()
            self._timeline.anchor(self._position(frame), instant)

    def _callback(self, out: Any, frames: int, info: Any, status: Any) -> None:
        now = time.monotonic()
        self._alive_at = now
        if self._frames == self._first_frame:
            prefer_this_thread(realtime=True)
        self._period = max(self._period, frames)
        ahead = info.outputBufferDacTime - info.currentTime
        if not 0.0 <= ahead < 1.0:  # some drivers leave these stamps empty
            ahead = self._settings.latency_ms / 1000.0
        current = self._offset.feed(now, info.currentTime) + info.currentTime
        jumped = self._clock.feed(self._frames, current + ahead)
        # PulseAudio's ALSA plugin hides underruns; their trace is that the stamps jump in the middle of sound.
        if status.output_underflow or (jumped and not self._dry):
            self.underruns += 1
        mono = np.zeros(frames, dtype=np.float32)
        taken = 0
        if not self._dry or self._ready(now):
            before = self._ring.taken
            taken = self._ring.pop(mono, self._held)
            if taken and (self._dry or jumped):
                self._anchors.append((before, self._clock.instant(self._frames) or now))
        self._dry = taken < frames
        out[:] = mono[:, None]
        self.history.write(mono)
        self._frames += frames

    def _ready(self, now: float) -> bool:
        """Whether enough waits to begin, or what waits has waited long enough."""
        start_s = self._settings.start_buffer_ms / 1000.0
        return self._ring.available >= start_s * self._rate or now - self._waiting_since >= start_s
