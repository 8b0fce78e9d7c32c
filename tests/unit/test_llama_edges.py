"""The edge of the engine's thread: whoever waits hears of a fault, whoever has left does no harm."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from llama_steps import SMALL

from appliance.engines.llama.core import Core
from appliance.engines.llama.engine import Llama
from appliance.engines.ports import Generation, Sampling
from appliance.errors import EngineError


def with_engine(toy: Path, body: Callable[[Llama], Awaitable[None]]) -> None:
    async def main() -> None:
        llama = Llama(toy, SMALL)
        await llama.start()
        try:
            await asyncio.wait_for(body(llama), 30)
        finally:
            await llama.close()

    asyncio.run(main())


async def read(generation: Generation) -> int:
    return sum([piece.tokens async for piece in generation])


async def cancelled(work: "asyncio.Task[object]") -> None:
    await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work


def test_a_caller_that_leaves_before_its_turn_takes_nobody_along(toy: Path) -> None:
    async def body(llama: Llama) -> None:
        chat = await llama.open("a")
        generation = chat.generate("what is it?", Sampling(max_tokens=60))
        gate = threading.Event()
        llama.post(lambda _: gate.wait(10) and None, lambda _: None)  # the thread is busy while they leave
        await cancelled(asyncio.create_task(llama.call(lambda core: "unheard")))
        await cancelled(asyncio.create_task(llama.at_rest()))
        gate.set()
        assert await read(generation)
        assert await llama.call(lambda core: "heard") == "heard"

    with_engine(toy, body)


def test_a_start_that_is_called_off_ends_without_a_fault(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults: list[object] = []
    monkeypatch.setattr(threading, "excepthook", faults.append)
    gate, load = threading.Event(), Core.__init__

    def slow(core: Core, *args: object) -> None:
        gate.wait(10)
        load(core, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Core, "__init__", slow)

    async def main() -> None:
        llama = Llama(toy, SMALL)
        await cancelled(asyncio.create_task(llama.start()))
        gate.set()
        await llama.close()

    asyncio.run(main())
    assert faults == []


def test_a_faulty_step_ends_the_answers_under_way_and_nothing_else(toy: Path) -> None:
    async def body(llama: Llama) -> None:
        chat = await llama.open("a")

        def break_once(core: Core) -> None:
            def faulty() -> bool:
                del core.step  # type: ignore[method-assign]
                return bool(1 / 0)

            core.step = faulty  # type: ignore[method-assign]

        with llama._wake:  # one batch: the step behind both commands is the faulty one
            generation = chat.generate("what is it?", Sampling(max_tokens=60))
            llama.post(break_once, lambda _: None)
        with pytest.raises(EngineError, match="the language model failed"):
            await read(generation)
        assert await read(chat.generate("what is it?", Sampling(max_tokens=5)))

    with_engine(toy, body)


def test_a_faulty_call_is_told_to_its_caller_only(toy: Path) -> None:
    async def body(llama: Llama) -> None:
        chat = await llama.open("a")
        generation = chat.generate("what is it?", Sampling(max_tokens=60))
        with pytest.raises(EngineError, match="the language model failed"):
            await llama.call(lambda core: 1 / 0)
        assert await read(generation)

    with_engine(toy, body)
