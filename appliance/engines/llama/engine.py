"""The language model as the conversation sees it: `Llama` opens sessions, one thread owns the context.

Owns the thread, its bounded command queue and the way back to the event loop. What the thread does stands in `core`.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TypeVar

from appliance.engines.llama.core import Core, Delivery
from appliance.engines.llama.settings import LlamaSettings
from appliance.engines.llama.stream import LlamaGeneration
from appliance.engines.ports import ChatSession, Generation, Message, Sampling
from appliance.errors import ApplianceError, EngineError

T = TypeVar("T")
_COMMANDS = 512
_log = logging.getLogger(__name__)


class Llama:
    """`ports.LanguageModel` on one llama.cpp context. `await start()` first; `await close()` at the end."""

    def __init__(self, model: Path, settings: LlamaSettings | None = None) -> None:
        self.model = model
        self.settings = settings or LlamaSettings()
        self._commands: deque[Callable[[Core], None]] = deque()
        self._wake = threading.Condition()
        self._poked = False
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._ready: Future[None] = Future()

    async def start(self) -> None:
        """Load the model and read the system prompt. Raises ModelFileError, EngineError or UsageError."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="llm", daemon=True)
            self._thread.start()
        await asyncio.wrap_future(self._ready)

    async def open(self, session: str, history: Sequence[Message] = ()) -> ChatSession:
        await self.start()
        await self.call(lambda core: core.open(session, history))
        return LlamaSession(self, session)

    async def close(self) -> None:
        """Cancel what runs, free the context, join the thread. Idempotent."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    async def call(self, fn: Callable[[Core], T]) -> T:
        """Run `fn` on the thread between two steps."""
        future: Future[T] = Future()

        def run(core: Core) -> None:
            try:
                future.set_result(fn(core))
            except ApplianceError as error:
                future.set_exception(error)

        self.post(run, future.set_exception)
        return await asyncio.wrap_future(future)

    def post(self, command: Callable[[Core], None], refused: Callable[[ApplianceError], None]) -> None:
        """Queue `command`; `refused` is called when the engine has stopped or its queue is full."""
        with self._wake:
            if not self._stopping and len(self._commands) < _COMMANDS:
                self._commands.append(command)
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
            core = Core(self.model, self.settings)
        except BaseException as error:  # noqa: BLE001  the edge of the thread: whoever awaits start() gets it
            with self._wake:
                self._stopping = True
            self._ready.set_exception(error)
            return
        self._ready.set_result(None)
        worked = True
        while True:
            with self._wake:
                if not worked and not self._commands and not self._poked and not self._stopping:
                    self._wake.wait(timeout=1.0)
                commands = list(self._commands)
                self._commands.clear()
                self._poked = False
                stopping = self._stopping
            for command in commands:
                command(core)
            if stopping:
                break
            worked = self._step(core)
            self._deliver(core)
        core.close()
        self._deliver(core)

    def _step(self, core: Core) -> bool:
        try:
            return core.step()
        except Exception:  # noqa: BLE001  the edge of the thread: one faulty step must not silence all sessions for good
            _log.exception("a step of the language model failed")
            core.fail_all(EngineError("the language model failed in a step"))
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

        def run(core: Core) -> None:
            try:
                core.anticipate(self._name, words, answer)
            except ApplianceError:
                answer(None)

        self._engine.post(run, lambda _: answer(None))
        return await future

    def generate(self, words: str, sampling: Sampling, *, urgent: bool = True, note: str = "") -> Generation:
        generation = LlamaGeneration(self._engine.poke)
        if self._generation is not None:
            self._generation.cancelled = True
        self._generation = generation

        def run(core: Core) -> None:
            try:
                core.generate(self._name, words, sampling, urgent, note, generation)
            except ApplianceError as failure:
                core.outbox.append((generation, None, "cancelled", failure))

        self._engine.post(run, lambda error: generation.end("cancelled", error))
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
