"""The language model as the conversation sees it: `Llama` opens sessions, one thread owns the context.

Owns the thread, its bounded command queue and the way back to the event loop. What the thread does stands in `core`.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from appliance.engines.llama.core import Core, Delivery
from appliance.engines.llama.settings import LlamaSettings
from appliance.engines.llama.stream import LlamaGeneration
from appliance.engines.ports import ChatSession, Generation, Halt, Message, Sampling
from appliance.errors import ApplianceError, EngineError
from appliance.events import LlmStats

T = TypeVar("T")
_COMMANDS = 512
_FAILED = "the language model failed"
_log = logging.getLogger(__name__)

_Command = tuple[Callable[[Core], None], Callable[[ApplianceError], None]]  # what to do, and who hears of its failure


class Llama:
    """`ports.LanguageModel` on one llama.cpp context. `await start()` first; `await close()` at the end.

    `on_stats` and `on_notice` are called on the loop that called `start`: a snapshot a few times a second while there
    is work, and sentences that an installer should read.
    """

    def __init__(
        self,
        model: Path,
        settings: LlamaSettings | None = None,
        *,
        on_stats: Callable[[LlmStats], None] | None = None,
        on_notice: Callable[[str], None] | None = None,
    ) -> None:
        self.model = model
        self.settings = settings or LlamaSettings()
        self._on_stats, self._on_notice = on_stats, on_notice
        self._loop: asyncio.AbstractEventLoop | None = None
        self._commands: deque[_Command] = deque()
        self._wake = threading.Condition()
        self._poked = False
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._ready: Future[None] = Future()
        self._resting: list[Future[None]] = []  # touched on the thread only

    async def start(self) -> None:
        """Load the model and read the system prompt. Raises ModelFileError, EngineError or UsageError."""
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=self._run, name="llm", daemon=True)
            self._thread.start()
        await asyncio.shield(asyncio.wrap_future(self._ready))  # the thread answers it, also when nobody waits any more

    async def open(self, session: str, history: Sequence[Message] = ()) -> ChatSession:
        await self.start()
        await self.call(lambda core: core.open(session, history))
        return LlamaSession(self, session)

    def compact_from(self, share: float | None) -> None:
        """Summarise older turns from this part of a session's share on; None: as configured."""
        value = self.settings.compact_at if share is None else share

        def change(core: Core) -> None:
            core.summaries.compact_at = value

        self.post(change, lambda _: None)

    async def close(self) -> None:
        """Cancel what runs, free the context, join the thread. Idempotent."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    async def stats(self) -> LlmStats:
        """A snapshot taken between two steps."""
        return await self.call(lambda core: core.stats())

    async def at_rest(self) -> None:
        """Return when nothing is left to evaluate: no answer, no draft, no idle work."""
        future: Future[None] = Future()
        self.post(lambda _: self._resting.append(future), lambda error: _answer(future, error=error))
        await asyncio.wrap_future(future)

    async def call(self, fn: Callable[[Core], T]) -> T:
        """Run `fn` on the thread between two steps."""
        future: Future[T] = Future()

        def run(core: Core) -> None:
            if not future.cancelled():
                _answer(future, fn(core))

        self.post(run, lambda error: _answer(future, error=error))
        return await asyncio.wrap_future(future)

    def post(self, command: Callable[[Core], None], refused: Callable[[ApplianceError], None]) -> None:
        """Queue `command`; `refused`, on any thread, hears why it came to nothing: the engine has stopped, its queue is
        full, or the command failed.
        """
        with self._wake:
            if not self._stopping and len(self._commands) < _COMMANDS:
                self._commands.append((command, refused))
                self._wake.notify()
                return
        refused(EngineError("the language model has stopped" if self._stopping else "the language model is overloaded"))

    def poke(self) -> None:
        """Look at the cancel flags before the next step."""
        with self._wake:
            self._poked = True
            self._wake.notify()

    def _run(self) -> None:
        try:
            core = Core(self.model, self.settings, self._notice)
        except BaseException as error:  # noqa: BLE001  the edge of the thread: who awaits start() would wait for ever
            with self._wake:
                self._stopping = True
            self._ready.set_exception(error)
            return
        self._ready.set_result(None)
        worked, published = True, 0.0
        todo: deque[_Command] = deque()
        while True:
            with self._wake:
                if not (worked or self._commands or self._poked or self._stopping):
                    self._wake.wait(core.next_wake_s())
                todo.extend(self._commands)
                self._commands.clear()
                self._poked = False
                stopping = self._stopping
            worked = self._round(core, todo, stopping=stopping)
            if stopping and not todo:
                break
            self._deliver(core)
            if not worked and self._resting:
                resting, self._resting = self._resting, []
                for future in resting:
                    _answer(future, None)
            if not worked or time.monotonic() - published >= self.settings.stats_every_s:
                published = time.monotonic()
                self._publish(core.stats())
        core.close()
        self._deliver(core)
        for future in self._resting:
            _answer(future, None)

    def _publish(self, stats: LlmStats) -> None:
        if self._on_stats is not None and self._loop is not None:
            _on(self._loop, partial(self._on_stats, stats))

    def _notice(self, message: str) -> None:
        _log.warning("%s", message)
        if self._on_notice is not None and self._loop is not None:
            _on(self._loop, partial(self._on_notice, message))

    def _round(self, core: Core, todo: "deque[_Command]", *, stopping: bool) -> bool:
        """Obey what waits, then take a step; True: there may be more to do."""
        while todo:
            command, refused = todo.popleft()
            try:
                command(core)
            except ApplianceError as error:
                refused(error)
            except Exception:  # noqa: BLE001  the edge of the thread: who gave the command is told, the rest go on
                _log.exception("a command of the language model failed")
                refused(EngineError(_FAILED))
        try:
            return False if stopping else core.step()
        except Exception:  # noqa: BLE001  the edge of the thread: one fault must not silence all sessions for good
            _log.exception(_FAILED)
            core.fail_all(EngineError(_FAILED))
            return False

    def _deliver(self, core: Core) -> None:
        news, core.outbox = core.outbox, []
        loops: dict[asyncio.AbstractEventLoop, list[Delivery]] = {}
        for delivery in news:
            loops.setdefault(delivery[0].loop, []).append(delivery)
        for loop, deliveries in loops.items():
            _on(loop, partial(_hand_over, deliveries))  # one wake-up of the loop a step


class LlamaSession:
    """`ports.ChatSession`."""

    def __init__(self, engine: Llama, name: str) -> None:
        self._engine = engine
        self._name = name
        self._generation: LlamaGeneration | None = None
        self._closed = False

    async def anticipate(self, words: str) -> float | None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[float | None] = loop.create_future()

        def answer(value: float | None) -> None:
            _on(loop, lambda: None if future.done() else future.set_result(value))

        self._engine.post(lambda core: core.anticipate(self._name, words, answer), lambda _: answer(None))
        return await future

    def generate(self, words: str, sampling: Sampling, *, note: str = "", halt: Halt | None = None) -> Generation:
        generation = LlamaGeneration(self._engine.poke, halt)
        if self._generation is not None:
            self._generation.cancelled = True
        self._generation = generation

        self._engine.post(
            lambda core: core.generate(self._name, words, sampling, note, generation),
            lambda error: _on(generation.loop, partial(generation.end, "cancelled", error)),
        )
        return generation

    async def settle(self, heard: str | None, reply: str | None = None) -> None:
        await self._engine.call(lambda core: core.settle(self._name, heard, reply))

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            await self._engine.call(lambda core: core.close_session(self._name))
        except EngineError:
            return  # the engine has stopped and with it every session


def _answer(future: Future[T], value: Any = None, error: ApplianceError | None = None) -> None:
    """Resolve `future` unless whoever awaited it has left."""
    if not future.set_running_or_notify_cancel():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)


def _on(loop: asyncio.AbstractEventLoop, fn: Callable[[], object]) -> None:
    """Run `fn` on `loop`; a loop that is closed has nobody left who could listen."""
    if not loop.is_closed():
        try:
            loop.call_soon_threadsafe(fn)
        except RuntimeError:
            return


def _hand_over(deliveries: list[Delivery]) -> None:
    for generation, piece, finish, error in deliveries:
        if piece is not None:
            generation.deliver(piece)
        else:
            generation.end(finish, error)
