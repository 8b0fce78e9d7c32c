"""What the box tests share: a station on the rig that collects its blocks, and sounds to measure with."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rig import RATE

from appliance.audio.devices import AudioHost, StationAudio, StationSettings, open_station
from appliance.audio.ports import Block
from appliance.clock import MonotonicClock
from appliance.events import DeviceChanged

Audio = NDArray[np.float32]


class Bench:
    """One open station, its blocks so far and its device events."""

    station: StationAudio

    def __init__(self, clock: MonotonicClock, host: AudioHost) -> None:
        self.clock = clock
        self.host = host
        self.blocks: list[Block] = []
        self.events: list[DeviceChanged] = []
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def hear(self, block: Block) -> None:
        self.blocks.append(block)
        self._news.set()

    def note(self, event: DeviceChanged) -> None:
        """From any thread."""
        self.events.append(event)
        self._loop.call_soon_threadsafe(self._news.set)

    async def until(self, true: Callable[[], object], timeout: float = 10.0) -> float:
        """Ask `true` with every block and device event until it holds; returns the seconds it took."""
        begin = self.clock.now()
        try:
            async with asyncio.timeout(timeout):
                while not true():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            assert true(), f"nothing within {timeout} s; {self.events}"
        return self.clock.now() - begin

    async def passes(self, seconds: float) -> None:
        """Wait by the microphone's own clock."""
        count = len(self.blocks) + math.ceil(seconds * 16_000 / 512)
        await self.until(lambda: len(self.blocks) >= count)

    def sound(self, since: int = 0) -> Audio:
        return np.concatenate([block.samples for block in self.blocks[since:]] or [np.zeros(0, np.float32)])

    def statuses(self, role: str) -> list[str]:
        return [event.status for event in self.events if event.role == role]


@asynccontextmanager
async def bench(settings: StationSettings | None = None, *, wait: bool = True) -> AsyncIterator[Bench]:
    clock, host = MonotonicClock(), AudioHost()
    the = Bench(clock, host)
    the.station = station = open_station(settings or StationSettings(), host, clock, the.note)

    async def listen() -> None:
        async for block in station.microphone.blocks():
            the.hear(block)

    task = asyncio.create_task(listen())
    try:
        if wait:
            await the.until(lambda: len(the.blocks) > 10 and station.sink.lost_since is None)
        yield the
    finally:
        await station.close()
        host.stop()
        await task


def steady(scene: Callable[[], Coroutine[Any, Any, None]], tries: int = 3) -> None:
    """Run a measurement that needs a processor which is free when sound is due; torn, it is repeated.

    On a machine that is busy with something else, samples are late however the program was written. What is
    wrong in the program is wrong every time.
    """
    for left in range(tries - 1, -1, -1):
        try:
            asyncio.run(scene())
        except AssertionError:
            if not left:
                raise
        else:
            return


def longest(stretches: list[tuple[float, float]]) -> tuple[float, float]:
    return max(stretches, key=lambda stretch: stretch[1] - stretch[0])


def tone(seconds: float, rate: int, hz: float = 440.0, level: float = 0.3) -> Audio:
    return (level * np.sin(2 * np.pi * hz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def loud(audio: Audio, rate: int = RATE, threshold: float = 0.05) -> list[tuple[float, float]]:
    """Stretches of sound in seconds (begin, end), joined over gaps below 50 ms."""
    places = np.flatnonzero(np.abs(audio) > threshold) / rate
    if len(places) == 0:
        return []
    cuts = np.flatnonzero(np.diff(places) > 0.05)
    begins = [places[0], *places[cuts + 1]]
    ends = [*places[cuts], places[-1]]
    return [(float(b), float(e)) for b, e in zip(begins, ends, strict=True)]


def pitch(audio: Audio, rate: int) -> float:
    spectrum = np.abs(np.fft.rfft(audio * np.hanning(len(audio)).astype(np.float32)))
    return float(spectrum.argmax() * rate / len(audio))


def babble(seconds: float, rate: int, seed: int = 3, pitch_hz: float = 120.0) -> Audio:
    """Speech-like: a gliding voice with syllables, and some noise."""
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * rate)) / rate
    phase = 2 * np.pi * np.cumsum(pitch_hz + 30 * np.sin(2 * np.pi * 0.7 * t)) / rate
    voice = sum(np.sin(k * phase) / k for k in range(1, 25))
    syllables = (0.5 + 0.5 * np.sin(2 * np.pi * 3.1 * t)) ** 2
    return (0.12 * voice * syllables + 0.005 * rng.standard_normal(len(t))).astype(np.float32)
