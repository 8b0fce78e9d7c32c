"""The composition root: the only importer of vendor files. Engines start in order, warm up, and stop in order.

It owns which engine stands behind which port, their threads, and what every conversation shares. It is ready
only after each engine has really run once.
"""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import cast

from appliance.audio.player import Player
from appliance.audio.ports import Sink
from appliance.clock import Clock, MonotonicClock
from appliance.config import Config
from appliance.conversation.conversation import Conversation
from appliance.conversation.desk import Conduct, Desk, Engines
from appliance.engines.kokoro import Kokoro
from appliance.engines.llama.engine import Llama
from appliance.engines.llama.fallback import FallbackModel
from appliance.engines.llama.requantise import fast_weights, made
from appliance.engines.piper import Piper
from appliance.engines.ports import LanguageModel, Sampling, Transcriber
from appliance.engines.silero import SileroVad
from appliance.engines.smaller import SmallerInNeed
from appliance.engines.smart_turn import SmartTurn
from appliance.engines.whisper import Whisper
from appliance.engines.worker import Worker
from appliance.errors import ApplianceError, ConfigError, first_of
from appliance.events import Notice
from appliance.models.shelf import Shelf
from appliance.skills.skills import Skills
from appliance.store.database import default_path
from appliance.store.feed import StoreFeed
from appliance.store.store import Store
from appliance.telemetry.bus import Bus


@dataclass(slots=True)
class Loaded:
    """The engines by their vendors' names, as only this module knows them."""

    vad: SileroVad
    end_of_turn: SmartTurn
    whisper: Whisper
    llama: Llama
    voice: Piper | Kokoro
    whisper_small: Whisper | None = None  # what the degrade ladder falls back to
    llama_small: Llama | None = None


class Appliance:
    """`async with Appliance(config) as box:` loads, warms, and in the end stops everything."""

    def __init__(self, config: Config, *, clock: Clock | None = None, shelf: Shelf | None = None) -> None:
        self.config = config
        self.clock = clock or MonotonicClock()
        self.bus = Bus()
        self.store: Store | None = None
        self.skills = Skills(config.skills, self.clock, lambda: datetime.now().astimezone())
        self.loaded: Loaded | None = None
        self.conduct: Callable[[], Conduct] = Conduct  # what the ladder allows; the service puts its own here
        self._shelf = shelf or Shelf()
        # One thread an engine; smart-turn apart from silero, because a look takes as long as three blocks.
        self._workers = {name: Worker(name) for name in ("vad", "turn", "asr", "partial", "tts")}
        self._feed: StoreFeed | None = None
        self._sessions = 0
        self._answered: set[str] = set()  # sessions whose answer is under way

    async def __aenter__(self) -> "Appliance":
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self.stop)  # cancelled or failed, what was loaded is freed
            await self.start()
            undo.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self, progress: Callable[[str], None] = lambda _: None) -> None:
        """Load all engines side by side, run each once, then return. Raises ApplianceError; nothing is half ready."""
        models = self.config.models
        progress("checking models")
        missing = self._shelf.missing(models.ids())
        if missing:
            self._shelf.path(missing[0])
        progress("loading")
        load = asyncio.to_thread
        try:
            async with asyncio.TaskGroup() as group:
                vad = group.create_task(load(self._load_vad))
                end_of_turn = group.create_task(load(self._load_end_of_turn))
                whisper = group.create_task(load(self._load_whisper, models.asr))
                llama = group.create_task(self._load_llama(models.llm, progress))
                voice = group.create_task(load(self._load_voice))
                whisper_small = group.create_task(load(self._load_whisper, models.asr_small))
                llama_small = group.create_task(self._load_llama(models.llm_small, progress))
        except* ApplianceError as failed:
            raise first_of(failed) from None
        if whisper.result() is None or llama.result() is None:
            raise ConfigError("models.asr and models.llm must be named", "compare with the files in configs/")
        self.loaded = Loaded(
            vad.result(),
            end_of_turn.result(),
            cast(Whisper, whisper.result()),
            cast(Llama, llama.result()),
            voice.result(),
            whisper_small.result(),
            llama_small.result(),
        )
        progress("warming up")
        await load(self._warm, self.loaded)
        await asyncio.to_thread(self.skills.warm)
        await self._rehearse()

    @staticmethod
    def _warm(loaded: Loaded) -> None:
        for warm in (loaded.vad.warm, loaded.end_of_turn.warm, loaded.whisper.warm, loaded.voice.warm):
            warm()
        if loaded.whisper_small is not None:
            loaded.whisper_small.warm()

    async def _rehearse(self) -> None:
        """One token through the language model, so that the first person does not pay for its first step."""
        assert self.loaded is not None
        for llama in filter(None, (self.loaded.llama, self.loaded.llama_small)):
            chat = await llama.open("rehearsal")
            async for _ in chat.generate("Hello.", Sampling(max_tokens=1)):
                pass
            await chat.close()

    def keep(self, path: Path | None = None) -> None:
        """Keep turns in the store at `path` (default: the user's). Raises StoreError or DiskFullError."""
        self.store = Store(path, self.config.store)
        self._feed = StoreFeed(self.store, self.bus, clock=self.clock)
        self._feed.start()

    async def open(
        self,
        sink: Sink,
        *,
        session: str = "",
        station: str = "default",
        paced: bool = True,
        conduct: Callable[[], Conduct] = Conduct,
        turn_began: Callable[[str], None] = lambda _: None,
        turn_ended: Callable[[str], None] = lambda _: None,
    ) -> Conversation:
        """A conversation that answers on `sink`. Raises NoRoomError when the LLM has no share left."""
        self._ready()
        self._sessions += 1
        name = session or f"session-{self._sessions}"

        def began(session: str) -> None:
            self._answered.add(session)
            turn_began(session)

        def ended(session: str) -> None:
            self._answered.discard(session)
            turn_ended(session)

        desk = Desk(
            session=name,
            engines=self.engines,
            chat=await self.engines.llm.open(name),
            player=Player(sink, self.clock),
            bus=self.bus,
            clock=self.clock,
            settings=self.config.talk,
            conduct=conduct,
            keep_language=not (self.config.asr.language or self.config.asr.languages),
            measured=paced,
            skills=self.skills,
            turn_began=began,
            turn_ended=ended,
            alone=lambda: not self._answered,
        )
        return Conversation(desk, station=station, paced=paced)

    @property
    def voice_rate(self) -> int:
        """Samples a second of the voice."""
        return self._ready().voice.sample_rate

    def compact_from(self, share: float | None) -> None:
        """Let the language model summarise older turns from this part of a session's share on; None: as configured."""
        self._ready().llama.compact_from(share)

    async def wipe(self, session: str) -> None:
        """Forget the turns of `session`, once the store has them all."""
        if self.store is not None and self._feed is not None:
            await self._feed.caught_up()
            await self.store.forget(session=session)

    @property
    def engines(self) -> Engines:
        loaded = self._ready()
        asr: Transcriber = loaded.whisper
        llm: LanguageModel = loaded.llama
        if loaded.whisper_small is not None:
            asr = SmallerInNeed(loaded.whisper, loaded.whisper_small, lambda: self.conduct().small_asr)
        if loaded.llama_small is not None:
            llm = FallbackModel(loaded.llama, loaded.llama_small, lambda: self.conduct().fallback_llm)
        return Engines(loaded.vad, loaded.end_of_turn, asr, llm, loaded.voice)

    async def stop(self) -> None:
        """Engines first, then the store, so that the last turn is written. Idempotent."""
        loaded, self.loaded = self.loaded, None
        if loaded is not None:
            await loaded.llama.close()
            if loaded.llama_small is not None:
                await loaded.llama_small.close()
        for worker in self._workers.values():
            await asyncio.to_thread(worker.stop)
        feed, self._feed = self._feed, None
        store, self.store = self.store, None
        if feed is not None:
            await feed.close()
        if store is not None:
            await asyncio.to_thread(store.close)

    def _ready(self) -> Loaded:
        if self.loaded is None:
            raise RuntimeError("the appliance has not been started")
        return self.loaded

    def _load_vad(self) -> SileroVad:
        return SileroVad(self._shelf.path(self.config.models.vad), self._workers["vad"])

    def _load_end_of_turn(self) -> SmartTurn:
        path = self._shelf.path(self.config.models.end_of_turn)
        return SmartTurn(path, self._workers["turn"], self.config.end_of_turn)

    def _load_whisper(self, model: str) -> Whisper | None:
        if not model:
            return None
        return Whisper(self._shelf.folder(model), self.config.asr, self._workers["asr"], self._workers["partial"])

    async def _load_llama(self, model: str, progress: Callable[[str], None]) -> Llama | None:
        if not model:
            return None
        settings = self.config.llm
        path = await asyncio.to_thread(self._shelf.path, model)
        if settings.requantise and not settings.gpu_layers:
            if made(path, settings.requantise) is None:
                progress("making the language model's weights anew for this processor, once")
            notices: list[str] = []
            path = await asyncio.to_thread(fast_weights, path, settings.requantise, notices.append)
            for notice in notices:
                self._notice(notice)
        if settings.park_dir == "":
            settings = replace(settings, park_dir=str(default_path().with_name("parked") / model))
        llama = Llama(path, settings, on_stats=self.bus.publish, on_notice=self._notice)
        await llama.start()
        return llama

    def _notice(self, message: str) -> None:
        self.bus.publish(Notice(at=self.clock.now(), level="warning", message=message))

    def _load_voice(self) -> Piper | Kokoro:
        models, worker = self.config.models, self._workers["tts"]
        path = self._shelf.path(models.tts)
        if models.voices:
            return Kokoro(path, self._shelf.folder(models.voices), self.config.kokoro, worker)
        return Piper(path, self.config.piper, worker)
