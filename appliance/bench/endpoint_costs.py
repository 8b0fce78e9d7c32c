"""What a look, a draft and the model's opinion take on this machine, asked for as the appliance asks.

Owns the measurement that the simulation of `bench.endpoint` reckons with. It asks the engines about pauses of the
corpus and judges nothing.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Sequence
from statistics import median

from appliance.bench.corpus import Turn
from appliance.bench.endpoint import Costs
from appliance.bench.traces import Ears, PauseTrace, Trace, take_from
from appliance.engines.ports import BLOCK, RATE, Audio, CancelToken, Priority, Sampling

SEED = 8
PAUSES = 40
PARTIAL_S = 0.8  # as often as the appliance makes a partial, whose last two words the language model does not read


def some(traces: Sequence[Trace], language: str, count: int = PAUSES) -> list[tuple[Trace, PauseTrace]]:
    """Pauses that have words, drawn by a fixed seed."""
    found = [(t, p) for t in traces if t.language == language for p in t.pauses if p.draft]
    random.Random(SEED).shuffle(found)
    return found[:count]


async def measured(pauses: Sequence[tuple[Turn, PauseTrace]], ears: Ears) -> Costs:
    """Medians in ms: our look, which runs beside the draft; the draft; the opinion, which comes with an answer's first
    token; stock's look, which has the machine to itself. What cannot be asked costs as on two cores.
    """
    looks, stocks, drafts, opinions = [], [], [], []
    for turn, pause in pauses:
        begin = await take_from(turn, ears.vad)
        audio = turn.audio[begin : pause.last + 2 * BLOCK]
        stocks.append(await _took(ears.stock.score(audio[-8 * RATE :], CancelToken())))
        if ears.transcriber is None:
            looks.append(await _took(ears.end_of_turn.score(audio[-8 * RATE :], CancelToken())))
            continue
        chat = await ears.llm.open("costs") if ears.llm is not None else None
        said = await _partial(audio, ears, turn.language)
        if chat is not None and said:
            await chat.anticipate(" ".join(said.split()[:-2]))
        look = asyncio.create_task(_took(ears.end_of_turn.score(audio[-8 * RATE :], CancelToken())))
        started = time.perf_counter()
        draft = await ears.transcriber.transcribe(
            audio, priority=Priority.DRAFT, cancel=CancelToken(), language=turn.language, expected=said, quick=True
        )
        drafts.append((time.perf_counter() - started) * 1000)
        looks.append(await look)
        if chat is not None:
            started = time.perf_counter()
            async for _ in chat.generate(draft.text, Sampling(max_tokens=1)):
                opinions.append((time.perf_counter() - started) * 1000)
                break
            await chat.close()
    usual = Costs()
    return Costs(
        median(looks or [usual.audio_ms]),
        median(stocks or [usual.stock_ms]),
        median(drafts or [usual.draft_ms]),
        median(opinions or [usual.llm_ms]),
    )


async def _partial(audio: Audio, ears: Ears, language: str) -> str:
    """The words of the newest partial: it ends at a whole multiple of its period, before the pause."""
    assert ears.transcriber is not None
    whole = int((len(audio) - 2 * BLOCK) / RATE / PARTIAL_S) * int(PARTIAL_S * RATE)
    if not whole:
        return ""
    found = await ears.transcriber.transcribe(
        audio[:whole], priority=Priority.PARTIAL, cancel=CancelToken(), language=language, quick=True
    )
    return found.text


async def _took(work: Awaitable[object]) -> float:
    started = time.perf_counter()
    await work
    return (time.perf_counter() - started) * 1000
