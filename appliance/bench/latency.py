"""Voice-to-voice over the demo questions, in real time, through every real stage, as the ear has it.

It owns the repetition, the ledger's sums and the processor seconds a turn; the parts and percentiles are those of
`telemetry.spans`, the conversation is the product's own.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from appliance.app import Appliance
from appliance.audio.files import AudioFile
from appliance.config import Config
from appliance.converse import Talk, hold_in
from appliance.events import LatencyParts, TurnRecord
from appliance.telemetry.spans import percentile, share_in_budget, summary


@dataclass(frozen=True, slots=True)
class LatencyRun:
    """What was measured. `cpu_s_per_turn`: processor seconds of this process, all threads, silence included."""

    records: tuple[TurnRecord, ...]
    ready_s: float
    cpu_s_per_turn: float
    config: Config

    def as_dict(self) -> dict[str, object]:
        """The JSON object: p50, p95, in_budget, speculation, cpu_s_per_turn, and beside them ttft_ms, tokens_per_s…"""
        ledger = [r.speculation for r in self.records]
        turns = max(1, len(self.records))
        return {
            **summary(self.records, self.config.budget),
            "tier": self.config.tier,
            "speculation": {
                "held": round(sum(e.held for e in ledger) / turns, 3),
                "tries": sum(e.tries for e in ledger),
                "wasted_tokens": sum(e.wasted_tokens for e in ledger),
                "spoken_tokens": sum(e.spoken_tokens for e in ledger),
                "saved_ms_p50": _rounded(percentile((e.saved_ms for e in ledger), 50)),
            },
            "llm_and_tts_held_ms_p50": _rounded(percentile(self._held(), 50)),
            "ttft_ms_p50": _rounded(percentile((r.ttft_ms for r in self.records if r.ttft_ms is not None), 50)),
            "tokens_per_s_p50": _rounded(
                percentile((r.tokens_per_s for r in self.records if r.tokens_per_s is not None), 50)
            ),
            "starvation_ms_p95": _rounded(percentile((r.starvation_ms for r in self.records), 95)),
            "cpu_s_per_turn": round(self.cpu_s_per_turn, 3),
            "ready_s": round(self.ready_s, 2),
        }

    def _held(self) -> list[float]:
        return [r.ms.llm + r.ms.tts for r in self.records if r.ms is not None and r.speculation.held]

    @property
    def parts(self) -> list[LatencyParts]:
        return [r.ms for r in self.records if r.ms is not None]

    @property
    def in_budget(self) -> float | None:
        return share_in_budget(self.parts, self.config.budget)


def without_speculation(config: Config) -> Config:
    """The same settings, but the LLM starts only when the turn is over."""
    talk = replace(config.talk, speculation=replace(config.talk.speculation, enabled=False))
    return replace(config, talk=talk)


async def run(
    config: Config,
    files: Sequence[AudioFile],
    *,
    repeat: int = 1,
    tell: Callable[[TurnRecord], None] = lambda _: None,
) -> LatencyRun:
    """Ask all `files` in order, `repeat` times over, each time in a new session."""
    started = time.monotonic()
    records: list[TurnRecord] = []
    async with Appliance(config) as box:
        ready_s = time.monotonic() - started
        cpu = time.process_time()
        for _ in range(repeat):
            records += await hold_in(box, Talk(files), tell)
        cpu = time.process_time() - cpu
    return LatencyRun(tuple(records), ready_s, cpu / max(1, len(records)), config)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
