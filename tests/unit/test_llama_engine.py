"""The engine through its async face, on a toy model: streams, cancels, faults, stop."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.engines.llama.engine import Llama
from appliance.engines.llama.settings import LlamaSettings
from appliance.engines.ports import Generation, Message, Sampling
from appliance.errors import EngineError, ModelFileError, NoRoomError, UsageError
from appliance.events import LlmStats
from tests.fakes.toy_gguf import write_toy

SMALL = LlamaSettings(
    system_prompt="Be brief.", sessions=2, share_tokens=256, batch_tokens=64, ubatch_tokens=64, threads=1, max_open=4
)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy(tmp_path_factory.mktemp("toy") / "toy.gguf", layers=2)


def with_engine(toy: Path, body: Callable[[Llama], Awaitable[None]], settings: LlamaSettings = SMALL) -> None:
    async def main() -> None:
        llama = Llama(toy, settings)
        await llama.start()
        try:
            await asyncio.wait_for(body(llama), 60)
        finally:
            await llama.close()
            await llama.close()

    asyncio.run(main())


async def read(generation: Generation) -> str:
    return "".join([piece.text async for piece in generation])


def test_a_turn_streams_and_settles(toy: Path) -> None:
    async def body(llama: Llama) -> None:
        chat = await llama.open("a", [Message("user", "hi"), Message("assistant", "hello")])
        score = await chat.anticipate("what is")
        assert score is not None
        generation = chat.generate("what is it?", Sampling(max_tokens=12))
        pieces = [piece async for piece in generation]
        assert generation.finish in ("stop", "length")
        assert generation.turn_end is not None
        assert generation.prompt_tokens > 0
        assert sum(piece.tokens for piece in pieces) <= 12
        assert [piece.at for piece in pieces] == sorted(piece.at for piece in pieces)
        await chat.settle("what is it?", "".join(piece.text for piece in pieces))
        await chat.close()
        await chat.close()
        assert (await llama.stats()).cells_used == 0

    with_engine(toy, body)


def test_cancel_ends_the_stream_and_another_answer_follows(toy: Path) -> None:
    async def body(llama: Llama) -> None:
        chat = await llama.open("a")
        generation = chat.generate("hello", Sampling(max_tokens=200))
        count = 0
        async for _ in generation:
            count += 1
            if count == 3:
                generation.cancel()
        assert generation.finish == "cancelled"
        assert (await llama.stats()).cells_reserved == 0
        await chat.settle("hello", None)
        again = chat.generate("go on", Sampling(max_tokens=4))
        await read(again)
        assert again.finish in ("stop", "length")

    with_engine(toy, body)


def test_a_new_answer_cancels_the_running_one(toy: Path) -> None:
    async def body(llama: Llama) -> None:
        chat = await llama.open("a")
        first = chat.generate("hello", Sampling(max_tokens=200))
        second = chat.generate("hello there", Sampling(max_tokens=5))
        await read(second)
        await read(first)
        assert (first.finish, second.finish != "cancelled") == ("cancelled", True)

    with_engine(toy, body)


def test_faults_reach_whoever_reads(toy: Path) -> None:
    async def body(llama: Llama) -> None:
        chat = await llama.open("a")
        with pytest.raises(UsageError):
            async for _ in chat.generate("hello", Sampling(grammar="root ::= (")):
                pass
        with pytest.raises(NoRoomError):
            async for _ in chat.generate("hello", Sampling(max_tokens=5000)):
                pass
        await chat.settle(None)
        with pytest.raises(EngineError):
            await llama.open("a")
        await chat.close()
        with pytest.raises(EngineError):
            async for _ in chat.generate("hello", Sampling(max_tokens=5)):
                pass
        assert await chat.anticipate("hello") is None

    with_engine(toy, body)


def test_no_place_is_an_error_of_its_own(toy: Path) -> None:
    async def body(llama: Llama) -> None:
        for name in "abcd":
            await llama.open(name)
        with pytest.raises(NoRoomError):
            await llama.open("e")

    with_engine(toy, body)


def test_everyone_answers_when_sessions_outnumber_sequences(toy: Path) -> None:
    async def body(llama: Llama) -> None:
        chats = [await llama.open(name) for name in "abcd"]

        async def talk(i: int) -> int:
            told = 0
            for turn in range(3):
                text = ""
                async for piece in chats[i].generate(f"say {i} {turn}", Sampling(max_tokens=8)):
                    text += piece.text
                    told += 1
                await chats[i].settle(f"say {i} {turn}", text or "ok")
            return told

        assert all(await asyncio.gather(*(talk(i) for i in range(4))))

    with_engine(toy, body)


def test_closing_ends_every_stream(toy: Path) -> None:
    async def main() -> None:
        llama = Llama(toy, SMALL)
        await llama.start()
        chat = await llama.open("a")
        waiting = asyncio.ensure_future(chat.anticipate("word " * 40))
        other = await llama.open("b")
        generation = other.generate("word " * 20, Sampling(max_tokens=100))
        await llama.close()
        await read(generation)
        assert generation.finish == "cancelled"
        told = await asyncio.wait_for(waiting, 5)  # it may just have been read
        assert told is None or 0 <= told <= 1
        with pytest.raises(EngineError):
            await llama.open("c")

    asyncio.run(main())


def test_a_model_that_cannot_load_is_said_by_start(tmp_path: Path) -> None:
    async def main() -> None:
        llama = Llama(tmp_path / "none.gguf", SMALL)
        with pytest.raises(ModelFileError):
            await llama.start()
        await llama.close()

    asyncio.run(main())


def test_snapshots_come_while_there_is_work(toy: Path) -> None:
    async def main() -> None:
        seen: list[LlmStats] = []
        llama = Llama(toy, replace(SMALL, stats_every_s=0.0), on_stats=seen.append)
        await llama.start()
        chat = await llama.open("a")
        async for _ in chat.generate("hello", Sampling(max_tokens=20)):
            pass
        await chat.close()
        await llama.close()
        await asyncio.sleep(0)
        assert any(stats.live == 1 for stats in seen)
        assert all(s.cells_used + s.cells_reserved + s.cells_prefix <= s.cells_total for s in seen)
        assert any(stats.step_ms > 0 for stats in seen)
        assert any(dict(stats.held).get("a", 0) > 0 for stats in seen)
        assert all(sum(dict(s.held).values()) == s.cells_used + s.cells_reserved for s in seen)

    asyncio.run(main())


def test_at_rest_the_thread_sleeps(toy: Path) -> None:
    """No polling: between turns the engine's step is not even tried, and nothing is waited for but a command."""

    async def body(llama: Llama) -> None:
        chat = await llama.open("a")
        await llama.at_rest()
        tried: list[int] = []
        await llama.call(lambda core: setattr(core, "step", lambda: tried.append(1)))
        await chat.close()
        loop, asleep, wait = asyncio.get_running_loop(), asyncio.Event(), llama._wake.wait
        limits: list[float | None] = []

        def watched(timeout: float | None) -> bool:
            limits.append(timeout)
            loop.call_soon_threadsafe(asleep.set)
            return wait(timeout)

        llama._wake.wait = watched  # type: ignore[method-assign]
        llama.poke()  # it may have been asleep already
        await asyncio.wait_for(asleep.wait(), 10)
        assert set(limits) == {None}
        assert len(tried) <= 3  # one look after each of the two commands, and one for the poke

    with_engine(toy, body)


def test_a_faulty_command_takes_neither_those_behind_it_nor_the_thread_along(toy: Path) -> None:
    async def body(llama: Llama) -> None:
        chat = await llama.open("a")
        generation = chat.generate("what is it?", Sampling(max_tokens=60))
        told: list[EngineError] = []
        with llama._wake:  # one batch: the thread takes both commands up together
            llama.post(lambda core: 1 / 0, told.append)  # type: ignore[arg-type]
            behind = asyncio.create_task(llama.call(lambda core: "obeyed"))
            await asyncio.sleep(0)
        assert await behind == "obeyed"
        assert [str(error) for error in told] == ["the language model failed"]
        assert await read(generation)
        assert await read(chat.generate("what is it?", Sampling(max_tokens=5)))

    with_engine(toy, body)
