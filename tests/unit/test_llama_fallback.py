"""Two toy models as one: a turn goes where it should, and both keep the conversation."""

import asyncio
from pathlib import Path

import pytest

from appliance.engines.llama.engine import Llama
from appliance.engines.llama.fallback import FallbackModel
from appliance.engines.llama.settings import LlamaSettings
from appliance.engines.ports import Message, Sampling
from appliance.errors import NoRoomError
from tests.fakes.toy_gguf import write_toy

SMALL = LlamaSettings(system_prompt="Be brief.", sessions=2, share_tokens=256, batch_tokens=64, threads=1, max_open=2)


def test_the_small_model_takes_turns_and_both_remember(tmp_path: Path) -> None:
    async def main() -> None:
        big = Llama(write_toy(tmp_path / "big.gguf", layers=2), SMALL)
        little = Llama(write_toy(tmp_path / "little.gguf", layers=1, seed=7), SMALL)
        wanted = [False]
        model = FallbackModel(big, little, lambda: wanted[0])
        chat = await model.open("a", [Message("user", "hi"), Message("assistant", "hello")])
        steps = []
        for wanted[0] in (False, True, False):
            await asyncio.gather(big.at_rest(), little.at_rest())
            await chat.anticipate("what is")
            generation = chat.generate("what is it?", Sampling(max_tokens=5))
            text = "".join([piece.text async for piece in generation])
            steps.append(text)
            await chat.settle("what is it?", text or "ok")
        turns = [
            await engine.call(lambda core: [(t.words, t.reply) for t in core.seats["a"].turns])
            for engine in (big, little)
        ]
        assert turns[0] == turns[1]
        assert len(turns[0]) == 4
        assert steps[1] != steps[2]  # other weights, other noise
        await chat.close()
        assert (await big.stats()).cells_used == (await little.stats()).cells_used == 0
        await big.close()
        await little.close()

    asyncio.run(main())


def test_no_room_in_the_small_model_leaves_nothing_open(tmp_path: Path) -> None:
    async def main() -> None:
        path = write_toy(tmp_path / "toy.gguf", layers=1)
        big, little = Llama(path, SMALL), Llama(path, SMALL)
        model = FallbackModel(big, little, lambda: False)
        for name in "xy":
            await little.open(name)
        with pytest.raises(NoRoomError):
            await model.open("a")
        await big.open("a")  # the name is free again
        await big.close()
        await little.close()

    asyncio.run(main())
