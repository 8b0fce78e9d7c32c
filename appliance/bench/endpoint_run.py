"""Runs `appliance bench endpoint`: loads the engines, fills the cache of traces, and puts the report together.

Owns the order of the work and the keys of the report. The corpus, the traces, the simulated ways and the quiet set
have modules of their own.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from appliance.bench import endpoint as sim
from appliance.bench.endpoint_costs import measured, some
from appliance.bench.quiet import COMMANDS, commands, heard, quiet, short_answers
from appliance.bench.traces import Cache, Ears, Studio, Trace, listen, turns
from appliance.config import Config
from appliance.engines.kokoro import Kokoro
from appliance.engines.llama.engine import Llama
from appliance.engines.llama.requantise import fast_weights
from appliance.engines.piper import Piper
from appliance.engines.ports import RATE, CancelToken, Synthesizer
from appliance.engines.silero import SileroVad
from appliance.engines.smart_turn import SmartTurn
from appliance.engines.whisper import Whisper
from appliance.engines.worker import Worker
from appliance.errors import UsageError
from appliance.models.shelf import Shelf
from appliance.turns.endpoint import Endpoint

RECORDINGS = ("recordings-aligner", "recordings-pocketsphinx", "recordings-audioeval")
PIPER, KOKORO, VOICES = "piper-en_US-joe-medium", "kokoro-v1.0-int8", "kokoro-voices"

# (what is being done, done so far, of so many)
Tell = Callable[[str, int, int], object]


@dataclass(slots=True)
class Rig:
    """The engines of the benchmark, each on a thread of its own. `close` stops them."""

    vad: SileroVad
    end_of_turn: SmartTurn
    stock: SmartTurn
    whisper: Whisper
    llama: Llama
    studio: Studio
    cache: Cache
    shelf: Shelf
    workers: tuple[Worker, ...]

    def ears(self) -> Ears:
        return Ears(self.vad, self.end_of_turn, self.stock, self.whisper, self.llama)

    async def close(self) -> None:
        await self.llama.close()
        for worker in self.workers:
            await asyncio.to_thread(worker.stop)


def models_needed(config: Config) -> tuple[str, ...]:
    models = config.models
    return (models.vad, models.end_of_turn, models.asr, models.llm, PIPER, KOKORO, VOICES, *RECORDINGS)


def cache_of(config: Config) -> Cache:
    return Cache(f"{config.models.asr}-{config.models.llm}")


def load(config: Config, shelf: Shelf | None = None) -> Rig:
    """Every engine loaded; voices when they are first needed. Raises ModelFileError for what is missing."""
    shelf = shelf or Shelf()
    missing = shelf.missing(models_needed(config))
    if missing:
        shelf.path(missing[0])
    hear, look, speak = Worker("hear"), Worker("look"), Worker("speak")
    cache, weights = cache_of(config), shelf.path(config.models.llm)
    if not config.llm.gpu_layers:
        weights = fast_weights(weights, config.llm.requantise)

    def voice(speaker: str) -> Synthesizer:
        if speaker == "joe":
            # Without its noise the voice says the same twice: the corpus is the same wherever it is made.
            return Piper(shelf.path(PIPER), replace(config.piper, noise_scale=0.0, noise_w=0.0), speak)
        # Every Kokoro voice speaks American here, so that the corpus is the same whatever espeak-ng knows.
        settings = replace(config.kokoro, voice=speaker, language="en-us")
        return Kokoro(shelf.path(KOKORO), shelf.folder(VOICES), settings, speak)

    return Rig(
        SileroVad(shelf.path(config.models.vad), hear),
        SmartTurn(shelf.path(config.models.end_of_turn), look, config.end_of_turn),
        SmartTurn(shelf.path(config.models.end_of_turn), look, replace(config.end_of_turn, seconds=8.0)),
        Whisper(shelf.folder(config.models.asr), config.asr, hear),
        Llama(weights, replace(config.llm, sessions=1, share_tokens=512)),
        Studio(cache, voice),
        cache,
        shelf,
        (hear, look, speak),
    )


async def fill(rig: Rig, tell: Tell, *, limit: int = 0, kept: bool = False) -> list[Trace]:
    """Traces of the whole corpus, or of `limit` turns spread over it; what the cache has is not asked again.

    `kept`: only what the cache has.
    """
    if kept:
        return rig.cache.traces()
    todo = await asyncio.to_thread(lambda: list(turns(rig.shelf.folder, rig.studio.speak)))
    if limit:
        todo = todo[:: max(1, len(todo) // limit)]
    ears = rig.ears()
    found = []
    for i, (name, make) in enumerate(todo):
        trace = rig.cache.trace(name)
        if trace is None:
            await rig.llama.start()
            trace = await listen(await asyncio.to_thread(make), ears)
            rig.cache.keep(trace)
        found.append(trace)
        tell("listening to the corpus", i + 1, len(todo))
    return found


async def costs_here(rig: Rig, traces: Sequence[Trace], tell: Tell) -> sim.Costs:
    """What the engines take on this machine, at pauses of the corpus."""
    makers = dict(await asyncio.to_thread(lambda: list(turns(rig.shelf.folder, rig.studio.speak))))
    chosen = some(traces, "en")
    tell("measuring the engines", 0, 1)
    pauses = [(await asyncio.to_thread(makers[trace.id]), pause) for trace, pause in chosen if trace.id in makers]
    costs = await measured(pauses, rig.ears())
    tell("measuring the engines", 1, 1)
    return costs


async def hush(rig: Rig, tell: Tell) -> dict[str, Any]:
    """Turns made of silence, noise and music; short commands that were heard."""
    false: list[str] = []
    opened = 0
    sounds = list(quiet())
    for i, (name, audio) in enumerate(sounds):
        candidates = await heard(audio, rig.vad, rig.whisper)
        opened += len(candidates)
        false += [name for c in candidates if c.text]
        tell("listening to noise and music", i + 1, len(sounds))
    caught, right = 0, 0
    said = await asyncio.to_thread(lambda: list(commands(rig.studio.speak)))
    for i, (text, audio) in enumerate(said):
        candidates = [c for c in await heard(audio, rig.vad, rig.whisper) if c.text]
        caught += bool(candidates)
        right += any(_bare(text) in _bare(c.text) for c in candidates)
        tell("listening to short commands", i + 1, len(said))
    return {
        "false_turns": len(false),
        "false_turns_in": sorted(set(false)),
        "quiet_minutes": round(sum(len(a) for _, a in sounds) / RATE / 60, 1),
        "gate_openings": opened,
        "short_commands": len(COMMANDS),
        "short_commands_heard": caught,
        "short_commands_right": right,
    }


async def yes_or_no(rig: Rig, config: Config, costs: sim.Costs) -> dict[str, Any]:
    """How soon a bare "yes" or "no" ends the turn where a yes/no question has been put."""
    said = await asyncio.to_thread(lambda: list(short_answers(rig.studio.speak)))
    traces = [await listen(turn, rig.ears()) for turn in said]
    delays = sim.delays(traces, sim.policy(Endpoint(config.talk.endpoint), costs, yes_no=True))
    return {
        "short_answers": len(said),
        "short_answer_ms": round(float(np.median(delays))) if delays else None,
        "short_answers_by_400": sum(delay <= 400.0 for delay in delays),
    }


async def look_cost_ms(rig: Rig, looks: int = 12) -> float:
    """CPU time of one smart-turn look, whole process, median; the audio is 8 s of noise."""
    audio = np.random.default_rng(0).normal(0, 0.05, 8 * RATE).astype(np.float32)
    spent = []
    for _ in range(looks):
        before = time.process_time()
        await rig.end_of_turn.score(audio, CancelToken())
        spent.append((time.process_time() - before) * 1000)
    return float(np.median(spent))


def report(traces: Sequence[Trace], config: Config, costs: sim.Costs) -> dict[str, Any]:
    """Everything that follows from traces: the report half, and the human clips of both halves apart."""
    settings = config.talk.endpoint
    half = [t for t in traces if t.half == "report"]
    human = [t for t in traces if t.human]
    synthetic = [t for t in half if not t.human]
    ways = {name: sim.summary(points) for name, points in sim.three_ways(half, settings, costs).items()}
    of_people = {name: sim.summary(points) for name, points in sim.three_ways(human, settings, costs).items()}
    made = {name: sim.summary(points) for name, points in sim.three_ways(synthetic, settings, costs).items()}
    own = sim.policy(Endpoint(settings), costs)
    stock = sim.stock(sim.STOCK_LOOK_MS, costs)
    return {
        **ways,
        "human": of_people,
        "synthetic": made,
        "as_shipped": {
            "stock": sim.shown(sim.point(half, stock)),
            "policy": sim.shown(sim.point(half, own)),
            "human_stock": sim.shown(sim.point(human, stock)),
            "human_policy": sim.shown(sim.point(human, own)),
        },
        "without": {
            part: sim.summary(sim.sweep(half, settings, costs, without=frozenset((part,))))
            for part in ("audio", "text", "llm", "length")
        },
        "turns": {"report": len(half), "fit": len(traces) - len(half), "human": len(human)},
        "pauses_inside": sum(not t.is_end(p) for t in traces for p in t.pauses),
        "ends": sum(any(t.is_end(p) for p in t.pauses) for t in traces),
        "costs_ms": {
            name: round(value)
            for name, value in zip(
                ("audio", "stock", "draft", "llm"),
                (costs.audio_ms, costs.stock_ms, costs.draft_ms, costs.llm_ms),
                strict=True,
            )
        },
        "looks_per_s": round(sim.looks_per_second(human, Endpoint(settings), costs), 2),
        "looks_per_s_synthetic": round(sim.looks_per_second(synthetic, Endpoint(settings), costs), 2),
    }


async def run(
    config: Config, given: dict[str, float], tell: Tell, *, limit: int = 0, kept: bool = False
) -> dict[str, Any]:
    """The whole benchmark; costs that are not `given` (by their names in `Costs`) are measured. Raises UsageError when
    nothing is kept and nothing may be asked.
    """
    rig = await asyncio.to_thread(load, config)
    try:
        traces = await fill(rig, tell, limit=limit, kept=kept)
        if not traces:
            raise UsageError("no turn has been listened to yet", "leave out --kept")
        costs = replace(await costs_here(rig, traces, tell), **given)
        quiet_set = {**await hush(rig, tell), **await yes_or_no(rig, config, costs)}
        cost = await look_cost_ms(rig)
    finally:
        await rig.close()
    tell("trying the policies", 0, 1)
    result = await asyncio.to_thread(report, traces, config, costs)
    tell("trying the policies", 1, 1)
    share = result["looks_per_s"] * cost / 1000
    return {**result, **quiet_set, "look_cpu_ms": round(cost, 1), "looks_share_of_core": round(share, 4)}


def _bare(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalpha())
