"""The engine on the tiny pack's model: the numbers that only real weights give."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from appliance.engines.llama.core import Core
from appliance.engines.llama.engine import Llama
from appliance.engines.llama.settings import LlamaSettings
from appliance.engines.ports import Generation, Message, Sampling
from appliance.models.shelf import Shelf

pytestmark = pytest.mark.models

SETTINGS = LlamaSettings(
    system_prompt="You are a voice assistant. Answer in one short sentence.", sessions=3, share_tokens=512
)


@pytest.fixture(scope="module")
def model() -> Path:
    return Shelf().path("smollm2-135m")


def with_engine(model: Path, body: Callable[[Llama], Awaitable[None]]) -> None:
    async def main() -> None:
        llama = Llama(model, SETTINGS)
        await llama.start()
        try:
            await body(llama)
        finally:
            await llama.close()

    asyncio.run(main())


async def read(generation: Generation) -> str:
    return "".join([piece.text async for piece in generation])


def test_answers_make_sense_and_the_prefix_is_never_read_again(model: Path) -> None:
    async def body(llama: Llama) -> None:
        chat = await llama.open("a")
        generation = chat.generate("What is the capital of France?", Sampling(max_tokens=24))
        text = await read(generation)
        assert "Paris" in text
        assert generation.finish == "stop"
        assert generation.prompt_tokens < 20
        await chat.settle("What is the capital of France?", text)
        await llama.at_rest()
        stats = await llama.stats()
        assert stats.cells_prefix > 10
        assert 20 < stats.cells_used < 60

    with_engine(model, body)


def test_complete_words_are_told_from_broken_off_ones(model: Path) -> None:
    """The end-of-turn mass orders the two; facts about the model say AUC 0.95 over 26 requests."""
    complete = ["what time is it", "who wrote hamlet", "turn off the lights", "how are you today"]
    broken = ["what time is", "who wrote the", "turn off the lights in", "how are you going to"]

    async def body(llama: Llama) -> None:
        chat = await llama.open("a")
        scores: dict[str, float] = {}
        for words in (*complete, *broken):
            score = await chat.anticipate(words)
            assert score is not None
            scores[words] = score
        right = sum(scores[c] > scores[b] for c in complete for b in broken)
        assert right >= 14, scores

    with_engine(model, body)


def test_a_draft_makes_the_answer_cheap_and_the_opinion_stays(model: Path) -> None:
    async def body(llama: Llama) -> None:
        chat = await llama.open("a")
        score = await chat.anticipate("what is the capital of france")
        generation = chat.generate("What is the capital of France?", Sampling(max_tokens=4))
        await read(generation)
        assert generation.turn_end == score
        assert generation.prompt_tokens <= 8  # the question mark and the template

    with_engine(model, body)


@pytest.fixture
def core(model: Path) -> Iterator[Core]:
    made = Core(model, SETTINGS)
    yield made
    made.close()


def test_moved_positions_leave_a_usable_memory(core: Core) -> None:
    """After old turns are cut out and the rest moved up, the model still knows what was said since."""
    history = [Message("user", "Hello there."), Message("assistant", "Hello! How can I help?")] * 6
    history += [Message("user", "My name is Maria."), Message("assistant", "Nice to meet you, Maria.")]
    core.open("a", history)
    while core.step():
        pass
    seat = core.seats["a"]
    size = sum(len(turn.tokens) for turn in seat.turns[:4])
    core.memory.cut(seat, 0, size)
    del seat.turns[:4]
    assert seat.kv == seat.base()
    moved = _top_after(core, "a", "What is my name?")
    core.open("b", [m for turn in seat.turns for m in (Message("user", turn.words), Message("assistant", turn.reply))])
    fresh = _top_after(core, "b", "What is my name?")
    assert len(set(moved) & set(fresh)) >= 3
    assert core.seats["a"].kv == core.seats["b"].kv


def _top_after(core: Core, name: str, words: str) -> list[int]:
    """The five likeliest first tokens of an answer."""
    seat = core.seats[name]
    core.anticipate(name, words, lambda _: None)
    while core.step():
        pass
    want = core.prompts.compose(seat, words, "", answering=True).tokens
    batch, held = core.memory.ctx.batch, len(seat.kv)
    batch.clear()
    batch.add(seat.seq, len(core.prompts.head) + held, want[held:])
    batch.want(batch.size - 1)
    assert core.memory.ctx.decode() == 0
    seat.kv += want[held:]
    core.memory.use(seat)
    best: list[int] = core.memory.ctx.logits()[0].argsort()[-5:].tolist()
    return best
