"""Voice-to-voice through real devices: a mouth that speaks to the microphone, and an ear that hears the loudspeaker.

It owns the two extra devices and the measuring, which rests on what they were given and what they captured, not on
what the appliance says of itself. The station under test, its echo canceller included, is the product's own.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from appliance.app import Appliance
from appliance.audio.devices import AudioHost, DeviceSettings, DeviceSink, DeviceSource, StationAudio, open_station
from appliance.audio.files import AudioFile
from appliance.audio.levels import amplitude
from appliance.audio.resample import resample
from appliance.audio.status import reporter
from appliance.bench.latency import LatencyRun
from appliance.config import Config
from appliance.conversation.conversation import Conversation
from appliance.engines.ports import RATE, Audio
from appliance.errors import ApplianceError, MissingError
from appliance.events import Event, TurnFinished, TurnRecord
from appliance.telemetry.bus import Subscription
from appliance.telemetry.spans import percentile
from appliance.turns.gate import last_voiced

_TAPE_BLOCKS = 3000  # 96 s: a question and its answer
_OPEN_S = 10.0
_TURN_S = 40.0
_LINGER_S = 0.8  # quiet between an answer and the next question
_SOONEST_S = 0.12  # no answer comes sooner; until then the ear may still hear the question's own sound die away
_AUDIBLE_DBFS = -50.0
_OVER_NOISE = 3.0  # times the loudest sample of the second before the question


@dataclass(frozen=True, slots=True)
class LiveRun:
    """`measured`: voice-to-voice in ms for each question that got one answer; `own`: the appliance's for the same."""

    latency: LatencyRun
    measured: tuple[float, ...]
    own: tuple[float, ...]

    def as_dict(self) -> dict[str, object]:
        apart = [a - b for a, b in zip(self.measured, self.own, strict=True)]
        return {
            **self.latency.as_dict(),
            "measured_turns": len(self.measured),
            "measured_p50": _rounded(percentile(self.measured, 50)),
            "measured_p95": _rounded(percentile(self.measured, 95)),
            "measured_minus_own_p50": _rounded(percentile(apart, 50)),
        }


class Recorder:
    """What the ear heard in the last minute and a half, by instant."""

    def __init__(self) -> None:
        self._blocks: deque[tuple[float, Audio]] = deque(maxlen=_TAPE_BLOCKS)

    @property
    def begun(self) -> bool:
        return bool(self._blocks)

    def add(self, samples: Audio, captured_at: float) -> None:
        """16 kHz; `captured_at` is the instant of the last sample."""
        self._blocks.append((captured_at - len(samples) / RATE, samples))

    def loudest(self, since: float, until: float) -> float:
        """The largest magnitude between two instants; 0 where nothing was captured."""
        return max((float(np.abs(s).max()) for at, s in self._blocks if since <= at < until), default=0.0)

    def first_above(self, level: float, since: float) -> float | None:
        """The instant of the first sample from `since` on whose magnitude exceeds `level`."""
        for at, samples in self._blocks:
            if at + len(samples) / RATE <= since:
                continue
            for index in np.flatnonzero(np.abs(samples) > level):
                if (instant := at + int(index) / RATE) >= since:
                    return instant
        return None


async def run(
    config: Config,
    files: Sequence[AudioFile],
    mouth: str,
    ear: str,
    *,
    repeat: int = 1,
    tell: Callable[[TurnRecord], None] = lambda _: None,
) -> LiveRun:
    """Ask all `files` aloud through the output device `mouth`, `repeat` times over, and hear the answers at `ear`.

    The first of the config's stations answers. Raises MissingError where a device does not open.
    """
    started = time.monotonic()
    async with Appliance(config) as box:
        host = await asyncio.to_thread(AudioHost)
        station = open_station(config.stations[0], host, box.clock, box.bus.publish)
        report = reporter("bench", box.clock, box.bus.publish)
        sink = DeviceSink(DeviceSettings(device=mouth), host, report)
        source = DeviceSource(DeviceSettings(device=ear), host, report)
        stand = _Stand(box, station, sink, Recorder(), tell)
        hearing = asyncio.create_task(stand.listen(source))
        try:
            await stand.open({"mouth": mouth, "ear": ear})
            ready_s = time.monotonic() - started
            cpu = time.process_time()
            await stand.session([file for _ in range(repeat) for file in files])
            cpu = time.process_time() - cpu
        finally:
            await source.close()
            await hearing
            await station.close()
            await asyncio.to_thread(sink.close)
            await asyncio.to_thread(host.stop)
    latency = LatencyRun(tuple(stand.records), ready_s, cpu / max(1, len(stand.records)), config)
    return LiveRun(latency, tuple(stand.measured), tuple(stand.own))


class _Stand:
    """One station under test between a mouth and an ear."""

    def __init__(
        self,
        box: Appliance,
        station: StationAudio,
        mouth: DeviceSink,
        recorder: Recorder,
        tell: Callable[[TurnRecord], None],
    ) -> None:
        self.records: list[TurnRecord] = []
        self.measured: list[float] = []
        self.own: list[float] = []
        self._box, self._station, self._mouth, self._recorder, self._tell = box, station, mouth, recorder, tell

    async def listen(self, source: DeviceSource) -> None:
        async for block in source.blocks():
            self._recorder.add(block.samples, block.captured_at)

    async def open(self, names: dict[str, str]) -> None:
        """Wait for the two devices and the station's loudspeaker."""

        def waiting() -> list[str]:
            speaker = "" if self._station.sink.lost_since is None else "the station's loudspeaker"
            mouth = "" if self._mouth.lost_since is None else f"the mouth ({names['mouth']})"
            ear = "" if self._recorder.begun else f"the ear ({names['ear']})"
            return [name for name in (speaker, mouth, ear) if name]

        end = self._box.clock.now() + _OPEN_S
        while waiting():
            if self._box.clock.now() > end:
                raise MissingError(f"{' and '.join(waiting())} did not open", "appliance doctor lists the devices")
            await asyncio.sleep(0.05)

    async def session(self, files: Sequence[AudioFile]) -> None:
        """One conversation over all `files`; the station's microphone is closed behind it."""
        told = self._box.bus.subscribe(limit=64, durable=True)
        conversation = await self._box.open(self._station.sink, station=self._station.settings.name)
        talk = asyncio.create_task(conversation.run(self._station.ear))
        try:
            for file in files:
                await self._ask(file, conversation, told, talk)
        finally:
            await self._station.microphone.close()
            await talk
            told.close()

    async def _ask(
        self, file: AudioFile, conversation: Conversation, told: Subscription, talk: "asyncio.Task[None]"
    ) -> None:
        clock, mouth = self._box.clock, self._mouth
        audio = file.read()
        noise = self._recorder.loudest(clock.now() - 1.0, clock.now())
        position = mouth.write(resample(audio, RATE, mouth.sample_rate))
        last = position + round((last_voiced(audio) - 1) * mouth.sample_rate / RATE)
        turns = await self._turns_of(conversation, told, talk, position + round(len(audio) * mouth.sample_rate / RATE))
        for record in turns:
            self._tell(record)
        self.records += turns
        said = mouth.audible_at(last)
        answered = [record for record in turns if record.ms is not None]
        if said is None or len(turns) != 1 or not answered:
            return  # cut in two, or not answered: there is no one latency to measure
        level = max(amplitude(_AUDIBLE_DBFS), _OVER_NOISE * noise)
        heard = self._recorder.first_above(level, said + _SOONEST_S)
        if heard is not None and answered[0].ms is not None:
            self.measured.append((heard - said) * 1000)
            self.own.append(answered[0].ms.voice_to_voice)

    async def _turns_of(
        self, conversation: Conversation, told: Subscription, talk: "asyncio.Task[None]", until: int
    ) -> list[TurnRecord]:
        """The turns that finish until the question is out and all has been quiet for a while."""
        clock = self._box.clock
        end, quiet_since = clock.now() + _TURN_S, clock.now()
        turns: list[TurnRecord] = []
        while clock.now() < end and (not turns or clock.now() - quiet_since < _LINGER_S):
            if talk.done():
                talk.result()
                raise ApplianceError("the microphone's stream ended", "appliance doctor")
            await asyncio.sleep(0.02)
            turns += _of(told.drain(), conversation.session)
            if not conversation.idle or self._mouth.played() < until:
                quiet_since = clock.now()
        return turns


def _of(events: list[Event], session: str) -> list[TurnRecord]:
    return [event.record for event in events if isinstance(event, TurnFinished) and event.session == session]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
