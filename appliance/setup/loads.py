"""Load one engine and let it do one small thing: `python -m appliance.setup.loads KIND [--config FILE|--tier NAME]`.

The doctor runs this in a process of its own, so that a library that aborts is reported, not suffered. It prints one
JSON object, {"took_ms": …}; errors go to stderr as on the command line.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np

from appliance.config import Config, load
from appliance.engines.ports import BLOCK, RATE, CancelToken, Priority
from appliance.errors import ApplianceError
from appliance.models.shelf import Shelf

_SILENCE = np.zeros(RATE, np.float32)


async def _vad(config: Config, shelf: Shelf) -> None:
    from appliance.engines.silero import SileroVad
    from appliance.engines.worker import Worker

    worker = Worker("vad")
    await SileroVad(shelf.path(config.models.vad), worker).probability("doctor", _SILENCE[:BLOCK])
    worker.stop()


async def _end_of_turn(config: Config, shelf: Shelf) -> None:
    from appliance.engines.smart_turn import SmartTurn
    from appliance.engines.worker import Worker

    worker = Worker("end-of-turn")
    await SmartTurn(shelf.path(config.models.end_of_turn), worker, config.end_of_turn).score(_SILENCE, CancelToken())
    worker.stop()


async def _asr(config: Config, shelf: Shelf) -> None:
    from appliance.engines.whisper import Whisper
    from appliance.engines.worker import Worker

    worker = Worker("asr")
    whisper = Whisper(shelf.folder(config.models.asr), config.asr, worker)
    noise = np.random.default_rng(0).normal(0, 0.05, RATE).astype(np.float32)
    await whisper.transcribe(noise, priority=Priority.FINAL, cancel=CancelToken())
    worker.stop()


async def _llm(config: Config, shelf: Shelf) -> None:
    from dataclasses import replace

    from appliance.engines.llama.engine import Llama
    from appliance.engines.ports import Sampling

    # One small session: the question is whether it runs, not whether all of them fit (the memory check says that).
    settings = replace(config.llm, sessions=1, share_tokens=512, park_dir="")
    llama = Llama(shelf.path(config.models.llm), settings)
    chat = await llama.open("doctor")
    async for _ in chat.generate("Hello.", Sampling(max_tokens=2)):
        pass
    await llama.close()


async def _tts(config: Config, shelf: Shelf) -> None:
    from appliance.engines.worker import Worker

    worker = Worker("tts")
    model = shelf.path(config.models.tts)
    if config.models.tts.startswith("kokoro"):
        from appliance.engines.kokoro import Kokoro

        voices = shelf.folder(config.models.voices)
        packed = voices / "voices-v1.0.bin"
        speech = Kokoro(model, packed if packed.is_file() else voices, config.kokoro, worker).synthesize(
            "Hello.", priority=Priority.FINAL, deadline=0.0, cancel=CancelToken()
        )
    else:
        from appliance.engines.piper import Piper

        speech = Piper(model, config.piper, worker).synthesize(
            "Hello.", priority=Priority.FINAL, deadline=0.0, cancel=CancelToken()
        )
    async for _ in speech:
        pass
    worker.stop()


ENGINES: dict[str, Callable[[Config, Shelf], Awaitable[None]]] = {
    "vad": _vad,
    "end-of-turn": _end_of_turn,
    "asr": _asr,
    "llm": _llm,
    "tts": _tts,
}


def main(arguments: list[str]) -> int:
    """`KIND --config FILE` or `KIND --tier NAME`; returns the exit code."""
    kind, option, value = arguments
    try:
        config = load(Path(value)) if option == "--config" else load(tier=value)
        started = time.monotonic()
        asyncio.run(_run(ENGINES[kind], config))
    except ApplianceError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return error.exit_code
    print(json.dumps({"took_ms": round((time.monotonic() - started) * 1000)}))
    return 0


async def _run(engine: Callable[[Config, Shelf], Awaitable[None]], config: Config) -> None:
    await engine(config, Shelf())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
