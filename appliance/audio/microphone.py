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
from typing import Any

import numpy as np

from appliance.audio.catalog import DeviceInfo
from appliance.audio.cutter import BlockCutter, Cleaner
from appliance.audio.host import AudioHost
from appliance.audio.levels import LevelSettings, LevelWatch
from appliance.audio.ports import Block
from appliance.audio.priority import prefer_this_thread
from appliance.audio.settings import DeviceSettings
from appliance.audio.status import Report
from appliance.audio.timeline import ClockOffset, StreamClock
from appliance.engines.ports import BLOCK, RATE, Audio

_CAPTURED = 512  # callbacks that may wait: some seconds
_BACKLOG = 300  # blocks that may wait for the loop: about 10 s
_NAP_S = 0.004
_MARGIN_S = 0.001  # behind the callback that is expected to bring the rest of a block


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
                        blocksize=whole_blocks(rate),
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
        behind = max(behind, self._period_s)  # the first frame is no younger than the buffer is long; some stamps are
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
        cutter = BlockCutter(self._cleaner, self.levels)
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


def whole_blocks(rate: float) -> int:
    """Frames a callback shall bring: one block's, since each callback has its price; 0 if that is no whole number."""
    frames, rest = divmod(int(rate) * BLOCK, RATE)
    return 0 if rest else frames


def whole(seconds: float, period_s: float) -> float:
    """`seconds` rounded up to whole callbacks; as it is while their period is not known."""
    return math.ceil(seconds / period_s - 1e-6) * period_s if period_s > 0 else seconds
