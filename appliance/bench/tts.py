"""Synthesis: how soon a clause begins to sound and how much faster than speech it is made, by clause length.

It owns the clauses and the sums. With a load (the language model writing) each clause is measured again while
the load runs; who runs the load is the caller's affair.
"""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from appliance.engines.ports import CancelToken, Priority, Synthesizer

CLAUSES = (
    "Well,",
    "It is half past three.",
    "The capital of France is Paris, which lies on the Seine.",
    "Hamlet was written by William Shakespeare around the year sixteen hundred, and it is still played everywhere.",
)
Load = Callable[[], Awaitable[object]]


async def measure(voice: Synthesizer, repeat: int) -> list[dict[str, float]]:
    """A row a clause: characters, audio ms, median ms to the first audio, median real-time factor."""
    rows: list[dict[str, float]] = []
    for text in CLAUSES:
        first: list[float] = []
        factors: list[float] = []
        spoken = 0.0
        for _ in range(repeat):
            started, begun, spoken = time.perf_counter(), 0.0, 0.0
            stream = voice.synthesize(text, priority=Priority.FINAL, deadline=0.0, cancel=CancelToken())
            async for piece in stream:
                begun = begun or time.perf_counter() - started
                spoken += len(piece.audio) / piece.sample_rate
            first.append(begun * 1000)
            factors.append((time.perf_counter() - started) / max(spoken, 1e-3))
        rows.append(
            {
                "characters": len(text),
                "audio_ms": round(spoken * 1000),
                "first_ms": round(statistics.median(first), 1),
                "rtf": round(statistics.median(factors), 3),
            }
        )
    return rows


async def run(voice: Synthesizer, *, repeat: int = 5, load: Load | None = None) -> dict[str, Any]:
    """Rows alone and, with `load`, while it runs; `load` is started anew whenever it ends."""
    out: dict[str, Any] = {"sample_rate": voice.sample_rate, "alone": await measure(voice, repeat), "loaded": None}
    if load is not None:
        async with _running(load):
            out["loaded"] = await measure(voice, repeat)
    alone = out["alone"]
    out["first_ms_p50"] = statistics.median(row["first_ms"] for row in alone)
    out["rtf_p50"] = statistics.median(row["rtf"] for row in alone)
    return out


@asynccontextmanager
async def _running(load: Load) -> AsyncIterator[None]:
    async def again() -> None:
        while True:
            await load()

    task = asyncio.create_task(again())
    await asyncio.sleep(0)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
