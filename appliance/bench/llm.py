"""The language model under several conversations at once: this engine, and the stock one behind a lock.

Owns the load, the clocks and the sums. Both engines get the same model, threads, prompts and lengths in the same run;
the stock engine is `llama_cpp.Llama` with a lock around each answer, as a program without a scheduler would use it.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from appliance.engines.llama.engine import Llama
from appliance.engines.llama.settings import LlamaSettings
from appliance.engines.ports import Sampling
from appliance.telemetry.spans import percentile

QUESTIONS = (
    "What is the capital of France?",
    "Who wrote the play about the prince of Denmark?",
    "How do I boil an egg so that it stays soft?",
    "Tell me one fact about the moon.",
    "What should I wear when it rains?",
    "Why is the sky blue during the day?",
    "Name three animals that can swim.",
    "How far is it from London to Paris?",
)
_GUIDE = (
    "Answer in plain words, as one speaks. Keep each answer to one or two sentences. Do not use lists, links or "
    "symbols. When you do not know something, say so. Numbers are read aloud, so round them. "
)
_LONG_TURNS = 20


@dataclass(frozen=True, slots=True)
class LlmBenchSettings:
    """`turns` of each session are measured, all sessions asking at once; `answer_tokens` is each answer's limit."""

    sessions: tuple[int, ...] = (1, 2, 4, 8)
    prefix_tokens: int = 1500
    turns: int = 2
    answer_tokens: int = 32
    baseline: bool = False


@dataclass(slots=True)
class _Load:
    """What was seen under one load. Times in ms."""

    ttft: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    tokens: int = 0
    seconds: float = 0.0

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0


async def run(
    model: Path, settings: LlamaSettings, bench: LlmBenchSettings, tell: Callable[[str], object] = lambda _: None
) -> dict[str, Any]:
    """Measure and return the JSON object: sessions{n: {…}}, prefix_ttft_ratio, long{…}."""
    most = max(bench.sessions)
    settings = replace(
        settings,
        system_prompt=await _prompt_of(model, settings, bench.prefix_tokens),
        sessions=most,
        context_tokens=0,
        share_tokens=min(settings.share_tokens, 1024),
        unread_pieces=max(settings.unread_pieces, 2 * bench.answer_tokens),
    )
    sampling = Sampling(max_tokens=bench.answer_tokens, temperature=0.0, repeat_penalty=1.1)
    result: dict[str, Any] = {"model": model.stem.lstrip("."), "threads": settings.threads, "sessions": {}}
    llama = Llama(model, settings)
    await llama.start()
    try:
        for count in bench.sessions:
            tell(f"{count} sessions")
            load, overhead, step = await _ours(llama, count, bench.turns, sampling)
            result["sessions"][str(count)] = {
                **_summary(load),
                "overhead_ms_per_step": round(overhead, 3),
                "step_ms_mean": round(step, 1),
            }
        tell("the shared prefix")
        result |= await _prefix(llama, sampling)
        tell(f"a conversation of {_LONG_TURNS} turns")
        result["long"] = await _long(llama, sampling)
        result["cancel_steps"] = await _cancel(llama)
    finally:
        await llama.close()
    if bench.baseline:
        tell("loading the stock engine")
        stock = await asyncio.to_thread(_Stock, model, settings)
        for count in bench.sessions:
            tell(f"{count} sessions behind a lock")
            load = await asyncio.to_thread(stock.load, count, bench.turns, bench.answer_tokens)
            result["sessions"][str(count)] |= _against(result["sessions"][str(count)], _summary(load))
        stock.close()
    return result


def _summary(load: _Load) -> dict[str, float | None]:
    return {
        "tokens_per_s": round(load.tokens_per_s, 1),
        "ttft_ms_p50": _rounded(percentile(load.ttft, 50)),
        "ttft_ms_p95": _rounded(percentile(load.ttft, 95)),
        "inter_token_ms_p95": _rounded(percentile(load.gaps, 95)),
    }


def _against(ours: dict[str, Any], stock: dict[str, float | None]) -> dict[str, Any]:
    """The stock engine's figures beside ours, and the ratios of the two."""
    out: dict[str, Any] = {f"baseline_{key}": value for key, value in stock.items()}
    for key in ("tokens_per_s", "ttft_ms_p95"):
        out[f"{key}_ratio"] = round(ours[key] / stock[key], 3) if ours[key] and stock[key] else None
    return out


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


async def _prompt_of(model: Path, settings: LlamaSettings, tokens: int) -> str:
    """A system prompt of about `tokens` tokens that the model could be given."""

    def build() -> str:
        from appliance.engines.llama.binding import Model

        loaded = Model(model)
        try:
            each = len(loaded.tokenize(_GUIDE))
        finally:
            loaded.close()
        return settings.system_prompt if tokens <= 0 else (_GUIDE * max(1, round(tokens / each))).strip()

    return await asyncio.to_thread(build)


# -- this engine -------------------------------------------------------------------------------------------------


async def _ours(llama: Llama, count: int, turns: int, sampling: Sampling) -> tuple[_Load, float, float]:
    """All sessions ask at once, read their answers, settle, and ask again."""
    load = _Load()
    before = await llama.call(lambda core: (core.meter.steps, core.meter.step_s, core.meter.own_cpu_s))
    chats = [await llama.open(f"bench-{count}-{i}") for i in range(count)]

    async def talk(i: int) -> None:
        for turn in range(turns):
            words = QUESTIONS[(i + turn) % len(QUESTIONS)]
            last, text, first = time.perf_counter(), "", True
            async for piece in chats[i].generate(words, sampling):
                now = time.perf_counter()
                (load.ttft if first else load.gaps).append((now - last) * 1000)
                last, first = now, False
                text += piece.text
                load.tokens += piece.tokens
            await chats[i].settle(words, text)

    started = time.perf_counter()
    await asyncio.gather(*(talk(i) for i in range(count)))
    load.seconds = time.perf_counter() - started
    after = await llama.call(lambda core: (core.meter.steps, core.meter.step_s, core.meter.own_cpu_s))
    for chat in chats:
        await chat.close()
    steps, whole, own = (b - a for a, b in zip(before, after, strict=True))
    return load, own / max(1, steps) * 1000, whole / max(1, steps) * 1000


async def _first_token_ms(llama: Llama, name: str, words: str, sampling: Sampling) -> float:
    chat = await llama.open(name)
    started = time.perf_counter()
    took = 0.0
    async for _ in chat.generate(words, sampling):
        took = took or (time.perf_counter() - started) * 1000
    await chat.close()
    return took


async def _prefix(llama: Llama, sampling: Sampling) -> dict[str, float | None]:
    """A new session's time to first token with the prefix shared, and when it has to read the prefix itself."""
    short = replace(sampling, max_tokens=2)
    shared = percentile([await _first_token_ms(llama, f"prefix-{i}", q, short) for i, q in enumerate(QUESTIONS)], 50)
    unshared = (shared or 0.0) + await llama.call(lambda core: core.memory.time_head_ms())
    return {
        "prefix_tokens": await llama.call(lambda core: len(core.memory.head)),
        "prefix_ttft_ms": _rounded(shared),
        "unshared_ttft_ms": _rounded(unshared),
        "prefix_ttft_ratio": round((shared or 0.0) / unshared, 3) if unshared else None,
    }


async def _long(llama: Llama, sampling: Sampling) -> dict[str, float | None]:
    """One conversation: does the time to first token grow with its length? The same words are asked each time."""
    chat = await llama.open("long")
    times = []
    for _ in range(_LONG_TURNS + 1):
        started, text, first = time.perf_counter(), "", 0.0
        async for piece in chat.generate(QUESTIONS[3], replace(sampling, max_tokens=12)):
            first = first or (time.perf_counter() - started) * 1000
            text += piece.text
        times.append(first)
        await chat.settle(QUESTIONS[3], text or "Well.")
        await llama.at_rest()
    await chat.close()
    early, late = percentile(times[1:4], 50), percentile(times[-3:], 50)
    return {
        "turn2_ttft_ms": _rounded(early),
        "turn20_ttft_ms": _rounded(late),
        "ratio": round(late / early, 3) if early and late else None,
    }


async def _cancel(llama: Llama) -> int:
    """Steps from a cancel to the return of the cells that were promised."""
    chat = await llama.open("cancel")
    generation = chat.generate(QUESTIONS[2], Sampling(max_tokens=200))
    await generation.__aiter__().__anext__()
    generation.cancel()
    before = await llama.call(lambda core: core.meter.steps)
    async for _ in generation:
        pass
    steps, reserved = await llama.call(lambda core: (core.meter.steps - before, core.memory.cells.reserved))
    await chat.close()
    return steps if reserved == 0 else -1


# -- the stock engine ----------------------------------------------------------------------------------------------


class _Stock:
    """`llama_cpp.Llama` behind a lock, one thread a session."""

    def __init__(self, model: Path, settings: LlamaSettings) -> None:
        from appliance.engines.llama.binding import library

        library()
        import llama_cpp

        self._system = settings.system_prompt
        self._lock = threading.Lock()
        self._llama = llama_cpp.Llama(
            model_path=str(model),
            n_ctx=settings.share_tokens + 4096,
            n_batch=settings.batch_tokens,
            n_threads=settings.threads,
            n_threads_batch=settings.threads_batch,
            n_gpu_layers=settings.gpu_layers,
            flash_attn=settings.flash_attention,
            verbose=False,
        )
        self._answer([{"role": "user", "content": "Hello."}], 2, _Load())  # warm, and the prefix is read

    def load(self, count: int, turns: int, tokens: int) -> _Load:
        load = _Load()
        threads = [threading.Thread(target=self._talk, args=(i, turns, tokens, load)) for i in range(count)]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        load.seconds = time.perf_counter() - started
        return load

    def close(self) -> None:
        self._llama.close()

    def _talk(self, i: int, turns: int, tokens: int, load: _Load) -> None:
        messages: list[dict[str, str]] = []
        for turn in range(turns):
            messages.append({"role": "user", "content": QUESTIONS[(i + turn) % len(QUESTIONS)]})
            messages.append({"role": "assistant", "content": self._answer(messages, tokens, load)})

    def _answer(self, messages: Sequence[dict[str, str]], tokens: int, load: _Load) -> str:
        asked = last = time.perf_counter()
        text, first = "", True
        with self._lock:
            for chunk in self._llama.create_chat_completion(
                messages=[{"role": "system", "content": self._system}, *messages],
                max_tokens=tokens,
                temperature=0.0,
                repeat_penalty=1.1,
                stream=True,
            ):
                piece = chunk["choices"][0]["delta"].get("content")
                if piece is None:
                    continue
                now = time.perf_counter()
                (load.ttft if first else load.gaps).append((now - (asked if first else last)) * 1000)
                last, first = now, False
                load.tokens += 1
                text += piece
        return text
