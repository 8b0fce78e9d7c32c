"""A microphone: an input stream that comes back when it was unplugged, as blocks with true instants.

Owns the way from PortAudio's callback to the event loop. The callback copies into a bounded queue and nothing
else (muted, it copies nothing). A thread of its own turns that into 16 kHz mono, through an optional `Cleaner`
(echo, noise), cuts blocks and hands them to the loop, where the newest push out the oldest if nobody listens.
"""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Protocol

import numpy as np

from appliance.audio.catalog import DeviceInfo
from appliance.audio.host import AudioHost
from appliance.audio.levels import LevelSettings, LevelWatch
from appliance.audio.ports import Block
from appliance.audio.priority import prefer_this_thread
from appliance.audio.resample import EMPTY, LiveResampler
from appliance.audio.settings import DeviceSettings
from appliance.audio.status import Report
from appliance.audio.timeline import ClockOffset, StreamClock
from appliance.engines.ports import BLOCK, RATE, Audio

_CAPTURED = 512  # callbacks that may wait: some seconds
_BACKLOG = 300  # blocks that may wait for the loop: about 10 s
_NAP_S = 0.004
_MARGIN_S = 0.001  # behind the callback that is expected to bring the rest of a block


class Cleaner(Protocol):
    """What a microphone's sound goes through before it is heard."""

    def clean(self, audio: Audio, instant: float) -> Audio:
        """16 kHz mono captured from `instant` on, in order; returns what is ready, in order, nothing lost."""
        ...

    def restart(self) -> None:
        """The stream was interrupted: what was held back is dropped."""
        ...


class DeviceSource:
    """A `Source` on a device. Iterate `blocks` once, on the event loop; positions go on across interruptions."""

    kind = "input"

    def __init__(
        self,
        settings: DeviceSettings,
        host: AudioHost,
        report: Report,
        cleaner: Cleaner | None = None,
        levels: LevelSettings | None = None,
    ) -> None:
        self.wanted = settings.device
        self.muted = False
        self.levels = LevelWatch(levels)
        self.dropped = 0  # blocks nobody took in time
        self.overruns = 0  # times the device or the thread lost input
        self._settings = settings
        self._host = host
        self._report = report
        self._cleaner = cleaner
        self._stream: Any = None
        self._captured: deque[tuple[int, Any, StreamClock]] = deque()
        self._blocks: deque[Block] = deque(maxlen=_BACKLOG)
        self._arrived = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = False
        self._thread: threading.Thread | None = None
        self._opened_at: float | None = None  # instant of position 0
        # Written by the callback alone:
        self._clock = StreamClock(RATE)
        self._offset = ClockOffset()
        self._frames = 0
        self._period_s = 0.0  # sound a callback brings
        self._alive_at = time.monotonic()

    async def blocks(self) -> AsyncIterator[Block]:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._pump, name=f"microphone {self.wanted}", daemon=True)
        self._thread.start()
        self._host.add(self)
        while True:
            while self._blocks:
                yield self._blocks.popleft()
            if self._closing:
                return
            self._arrived.clear()
            if not self._blocks:
                await self._arrived.wait()

    async def close(self) -> None:
        """Close the device and end `blocks`. Idempotent."""
        self._closing = True
        self._arrived.set()
        await asyncio.to_thread(self._host.remove, self)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, 2.0)

    def mute(self, muted: bool) -> None:
        """Muted, no sample leaves the callback; what waits is dropped."""
        self.muted = muted
        if muted:
            self._captured.clear()
            self._blocks.clear()

    @property
    def latency_ms(self) -> float:
        """What the device says lies between the ear and the callback."""
        return float(self._stream.latency) * 1000.0 if self._stream else 0.0

    # --- the host's side --------------------------------------------------------------------------------------

    def open(self, sd: Any, device: DeviceInfo) -> None:
        rates = [self._settings.rate] if self._settings.rate else []
        counts = [self._settings.channels] if self._settings.channels else [1, 2, device.input_channels]
        fault: Exception | None = None
        for rate in dict.fromkeys((*rates, device.rate, 48_000, 44_100, RATE)):
            for channels in dict.fromkeys(min(count, device.input_channels) for count in counts):
                try:
                    stream = sd.InputStream(
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
                self._clock = StreamClock(float(stream.samplerate))
                self._offset = ClockOffset()
                self._frames = 0
                self._alive_at = time.monotonic()
                self._stream = stream
                stream.start()
                return
        assert fault is not None
        raise fault

    def halt(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close(ignore_errors=True)

    def silent_for(self, now: float) -> float:
        return now - self._alive_at

    def limit_s(self) -> float:
        return self._settings.gap_ms / 1000.0

    def report(self, status: str, detail: str) -> None:
        self._report("input", self.wanted, status, detail)

    def _callback(self, data: Any, frames: int, info: Any, status: Any) -> None:
        now = time.monotonic()
        self._alive_at = now
        if self._frames == 0:
            prefer_this_thread(realtime=True)
        self._period_s = frames / self._clock.rate
        behind = info.currentTime - info.inputBufferAdcTime
        if not 0.0 <= behind < 1.0:  # some drivers leave these stamps empty
            behind = self._settings.latency_ms / 1000.0
        # The stamp is that of the buffer's first frame.
        current = self._offset.feed(now, info.currentTime) + info.currentTime
        self._clock.feed(self._frames, current - behind)
        if status.input_overflow:
            self.overruns += 1
        if not self.muted:
            if len(self._captured) < _CAPTURED:
                self._captured.append((self._frames, data.copy(), self._clock))
            else:
                self.overruns += 1
        self._frames += frames

    # --- the thread -------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        prefer_this_thread(realtime=False)
        cutter = _Cutter(self._cleaner, self.levels)
        while not self._closing:
            for mono, first, clock in self._take():
                for block in cutter.feed(mono, first, clock):
                    self._deliver(block)
                if cutter.change:
                    self._report("input", self.wanted, "open" if cutter.change == "ok" else cutter.change, "")
            # Wake behind the callback that completes the next block, not at every one: each waking has its price.
            due = self._alive_at + whole(cutter.missing_s, self._period_s) + _MARGIN_S
            time.sleep(min(2 * BLOCK / RATE, max(_NAP_S, due - time.monotonic())))

    def _take(self) -> list[tuple[Audio, int, StreamClock]]:
        """What was captured since, as uninterrupted stretches of mono."""
        stretches: list[tuple[list[Audio], int, StreamClock, int]] = []
        while self._captured:
            try:
                first, data, clock = self._captured.popleft()
            except IndexError:  # muted between the look and the taking
                break
            mono = data.mean(axis=1) if data.shape[1] > 1 else data[:, 0]
            if stretches and stretches[-1][2] is clock and stretches[-1][3] == first:
                pieces, begin, _, _ = stretches.pop()
                stretches.append(([*pieces, mono], begin, clock, first + len(mono)))
            else:
                stretches.append(([mono], first, clock, first + len(mono)))
        return [(np.concatenate(pieces), first, clock) for pieces, first, clock, _ in stretches]

    def _deliver(self, block: Block) -> None:
        loop = self._loop
        if self.muted or loop is None or loop.is_closed():
            return
        if len(self._blocks) == _BACKLOG:
            self.dropped += 1
        self._blocks.append(block)
        loop.call_soon_threadsafe(self._arrived.set)


def whole(seconds: float, period_s: float) -> float:
    """`seconds` rounded up to whole callbacks; as it is while their period is not known."""
    return math.ceil(seconds / period_s - 1e-6) * period_s if period_s > 0 else seconds


class _Cutter:
    """From a device's frames to 512-sample blocks at 16 kHz whose positions keep step with real time."""

    def __init__(self, cleaner: Cleaner | None, levels: LevelWatch) -> None:
        self._cleaner = cleaner
        self._levels = levels
        self.change = ""  # what the level watch said about the newest sound
        self._clock: StreamClock | None = None
        self._resampler = LiveResampler(RATE, RATE)
        self._zero: float | None = None  # instant of position 0
        self._expected = -1  # device frame that continues the stream
        self._first = 0  # device frame at which this uninterrupted stretch began
        self._made = 0  # samples at 16 kHz made of this stretch before cleaning
        self._held: Audio = EMPTY
        self._start = 0  # position of _held[0]
        self._cut = 0  # samples at 16 kHz cut from this stretch

    @property
    def missing_s(self) -> float:
        """How much sound is wanting for the next block."""
        return (BLOCK - len(self._held)) / RATE

    def feed(self, mono: Audio, first: int, clock: StreamClock) -> list[Block]:
        if clock is not self._clock or first != self._expected:
            self._begin(first, clock)
        self._expected = first + len(mono)
        audio = self._resampler.push(mono)
        self.change = self._levels.feed(audio)  # as captured: cancelling would hide clipping and add silence
        if self._cleaner is not None and len(audio):
            instant = self._instant(self._made)
            self._made += len(audio)
            audio = self._cleaner.clean(audio, instant)
        self._held = np.concatenate((self._held, audio))
        blocks = []
        while len(self._held) >= BLOCK:
            self._cut += BLOCK
            blocks.append(Block(self._held[:BLOCK], self._start, self._instant(self._cut)))
            self._held = self._held[BLOCK:]
            self._start += BLOCK
        return blocks

    def _begin(self, first: int, clock: StreamClock) -> None:
        """A new stretch: after opening, muting or a loss. Its position follows from its instant."""
        self._clock, self._first = clock, first
        self._resampler = LiveResampler(int(clock.rate), RATE)
        if self._cleaner is not None:
            self._cleaner.restart()
        self._held = EMPTY
        self._made = self._cut = 0
        instant = clock.instant(first) or 0.0
        if self._zero is None:
            self._zero = instant
        self._start = max(self._start, round((instant - self._zero) * RATE))

    def _instant(self, samples: int) -> float:
        """The instant at which sample `samples` of this stretch was captured."""
        assert self._clock is not None
        return self._clock.instant(self._first + samples * self._clock.rate / RATE) or 0.0
