"""`appliance bench tts`: how soon the voice begins, alone and while the language model writes."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from appliance.bench.tts import Load
    from appliance.config import Config
    from appliance.models.shelf import Shelf


def tts(
    repeat: Annotated[int, typer.Option(min=1, help="Times each clause is spoken.")] = 5,
    loaded: Annotated[bool, typer.Option(help="Measure again while the language model writes.")] = True,
    tier: Annotated[str, typer.Option(metavar="NAME", help="tiny, starter, …")] = "starter",
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="A TOML file instead of a tier.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Only the JSON line.")] = False,
) -> None:
    """First audio and real-time factor by clause length. Example: appliance bench tts --tier tiny --no-loaded"""
    from rich.console import Console

    from appliance.config import load
    from appliance.models.shelf import Shelf

    settings, shelf = load(config, None if config else tier), Shelf()
    console = Console(stderr=True, highlight=False)
    with console.status("measuring"):
        result = asyncio.run(_measured(settings, shelf, repeat, loaded))
    if not as_json:
        _table(console, result)
    print(json.dumps(result))


async def _measured(settings: "Config", shelf: "Shelf", repeat: int, loaded: bool) -> dict[str, Any]:
    from appliance.bench import tts as bench
    from appliance.engines.kokoro import Kokoro
    from appliance.engines.piper import Piper
    from appliance.engines.worker import Worker

    worker, chosen = Worker("tts"), settings.models
    try:
        path = shelf.path(chosen.tts)
        voice = (
            Kokoro(path, shelf.folder(chosen.voices), settings.kokoro, worker)
            if chosen.voices
            else Piper(path, settings.piper, worker)
        )
        voice.warm()
        if not loaded:
            return await bench.run(voice, repeat=repeat)
        async with _writing(settings, shelf) as load:
            return await bench.run(voice, repeat=repeat, load=load)
    finally:
        worker.stop()


@asynccontextmanager
async def _writing(settings: "Config", shelf: "Shelf") -> "AsyncIterator[Load]":
    """The tier's language model, writing one long answer each time it is called."""
    from appliance.engines.llama.engine import Llama
    from appliance.engines.ports import Sampling

    llama = Llama(shelf.path(settings.models.llm), settings.llm)
    await llama.start()
    session = await llama.open("bench")

    async def load() -> None:
        answer = session.generate("Tell me a long story about the sea.", Sampling(max_tokens=200))
        async for _ in answer:
            pass
        await session.settle(None)

    try:
        yield load
    finally:
        await session.close()
        await llama.close()


def _table(console: Any, result: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(title="Voice: first audio and real-time factor (medians)")
    for title in ("characters", "audio ms", "first ms", "rtf", "first ms, LLM writing", "rtf, LLM writing"):
        table.add_column(title, justify="right")
    for alone, busy in zip(result["alone"], result["loaded"] or [None] * len(result["alone"]), strict=True):
        cells = [f"{alone[k]:g}" for k in ("characters", "audio_ms", "first_ms", "rtf")]
        table.add_row(*cells, *([f"{busy['first_ms']:g}", f"{busy['rtf']:g}"] if busy else ["", ""]))
    console.print(table)
