"""The appliance as a service: stations, reception and the screen's door around one `Appliance`, started and
stopped in order.

It owns that order: engines warm before anyone is let in, drained before engines stop. What a station does is
`visit`'s business, who is let in is `reception`'s.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from appliance import events
from appliance.app import Appliance
from appliance.audio.chime import CHIME_MARGIN_S, chime
from appliance.audio.devices import AudioHost, StationAudio, StationSettings, open_station
from appliance.config import Config
from appliance.service.calibrate import calibration
from appliance.service.ceiling import ceiling
from appliance.service.reception import Reception
from appliance.service.visits import Visits
from appliance.setup.sums import tier_sum
from appliance.telemetry.metrics import Metrics

_log = logging.getLogger(__name__)
_LONG_S = 60.0  # a station that ran for so long before it failed is begun again at once


class Service:
    """`await start()`, then `await serve()` until `stop()` is called."""

    def __init__(self, config: Config, box: Appliance) -> None:
        self.config = config
        self.box = box
        self.metrics = Metrics(config.budget)
        self.reception: Reception | None = None
        self.visits: list[Visits] = []
        self._audio: list[StationAudio] = []
        self._host: AudioHost | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._cutting: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()

    async def start(self, progress: Callable[[str], None] = lambda _: None) -> None:
        """Load, warm, measure and open the stations. Raises ApplianceError."""
        config, box = self.config, self.box
        memory = await asyncio.to_thread(tier_sum, config)
        await box.start(progress)
        progress("measuring this box")
        cap = ceiling(config, memory, await calibration(box))
        small = (bool(config.models.asr_small), bool(config.models.llm_small))
        self.reception = Reception(
            cap,
            config.capacity,
            config.ladder,
            self.metrics,
            box.bus,
            box.clock,
            small_models=small,
            compact_from=box.compact_from,
        )
        box.conduct = self.reception.conduct
        assert box.loaded is not None
        await self.reception.rehearse(box.loaded.voice)
        self._tasks.append(asyncio.create_task(self.metrics.run(box.bus.subscribe(durable=True))))
        self._tasks.append(asyncio.create_task(self.reception.run()))
        self._host = await asyncio.to_thread(AudioHost)
        for settings in config.stations:
            audio = open_station(settings, self._host, box.clock, self._device_changed, self._woken(settings))
            self._audio.append(audio)
            self.visits.append(
                Visits(
                    box,
                    self.reception,
                    audio.ear,
                    audio.sink,
                    config.visits,
                    station=settings.name,
                    gate=audio.gate,
                )
            )

    async def serve(self) -> None:
        """Run all stations until `stop`."""
        stations = [asyncio.create_task(self._station(visits)) for visits in self.visits]
        stopper = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([stopper])
        assert self.reception is not None
        self.reception.drain()
        await asyncio.gather(*(visits.stop() for visits in self.visits))
        if stations:
            await asyncio.wait(stations, timeout=3.0)  # their inputs have ended; sessions close by themselves
        for task in stations:
            task.cancel()
        await asyncio.gather(*stations, return_exceptions=True)

    def stop(self) -> None:
        """Begin to drain; `serve` returns when the running turns have ended. Safe to call twice."""
        self._stopping.set()

    async def close(self) -> None:
        """Input first, then output, then the engines."""
        for task in (*self._tasks, *self._cutting):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._cutting, return_exceptions=True)
        for audio in self._audio:
            await audio.close()
        if self._host is not None:
            await asyncio.to_thread(self._host.stop)
        await self.box.stop()

    # what the screen's keys do

    def talk(self, session: str) -> None:
        for visits in self._of(session):
            visits.talk()

    def mute(self, session: str) -> None:
        for visits, audio in zip(self.visits, self._audio, strict=True):
            if visits in self._of(session):
                audio.microphone.mute(not audio.microphone.muted)
                visits.mute(audio.microphone.muted)

    def interrupt(self, session: str) -> None:
        for visits in self._of(session):
            if visits.conversation is not None:
                cutting = asyncio.create_task(visits.conversation.interrupt())
                self._cutting.add(cutting)
                cutting.add_done_callback(self._cutting.discard)

    def finish(self, session: str) -> None:
        """The visitor leaves."""
        for visits in self._of(session):
            visits.finish()

    def _device_changed(self, event: events.DeviceChanged) -> None:
        self.box.bus.publish(event)
        if event.role == "input" and event.status in ("open", "lost", "waiting"):
            for visits in self.visits:
                if visits.station == event.station:
                    visits.deafen(event.status != "open")

    def _woken(self, settings: StationSettings) -> Callable[[bool, float], None]:
        """What happens when a station's wake word is heard: a chime that it does not hear itself."""

        def woken(awake: bool, at: float) -> None:
            state = events.State.LISTENING if awake else events.State.WAITING
            self.box.bus.publish(events.StateChanged(at=at, session=settings.name, state=state))
            audio = next((a for a in self._audio if a.settings is settings), None)
            if not awake or audio is None or audio.gate is None or not settings.chime or not settings.wake_word:
                return
            if all(v.conversation is None or v.conversation.idle for v in self.visits if v.station == settings.name):
                sound = chime(audio.sink.sample_rate)
                audio.sink.write(sound)
                audio.gate.deafen(len(sound) / audio.sink.sample_rate + CHIME_MARGIN_S)

        return woken

    def _of(self, session: str) -> list[Visits]:
        """The station that `session` sits at; all of them for an empty name."""
        named = [
            v
            for v in self.visits
            if v.station == session or (v.conversation is not None and v.conversation.session == session)
        ]
        return named or self.visits

    async def _station(self, visits: Visits) -> None:
        """One station must not take the others with it: what goes wrong is said, and it begins again."""
        tries = 0
        while not self._stopping.is_set():
            began = self.box.clock.now()
            running = asyncio.create_task(visits.run(), name=f"visits-{visits.station}")
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError:
                running.cancel()
                await asyncio.wait([running])
                raise
            error = None if running.cancelled() else running.exception()
            if error is None:
                return
            _log.error("station %s failed", visits.station, exc_info=error)
            self.box.bus.publish(
                events.Notice(
                    at=self.box.clock.now(),
                    level="error",
                    message=f"station {visits.station} failed ({type(error).__name__}) and begins again",
                    hint="appliance doctor",
                )
            )
            tries = tries + 1 if self.box.clock.now() - began < _LONG_S else 0
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), min(30.0, 2.0**tries))
