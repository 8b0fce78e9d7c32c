"""Where the milliseconds of a turn went: the five parts, their budget, and how turns add up.

Pure arithmetic over instants and records. It owns the one definition of voice-to-voice and of the
percentiles that screen, store, printer and benchmark share; it knows nothing of how anything was measured.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.text import Text

from appliance.clock import ms
from appliance.events import PARTS, LatencyParts, TurnRecord

TOTAL = "voice_to_voice"
KEYS = (*PARTS, TOTAL)


@dataclass(frozen=True, slots=True)
class Budget:
    """What each part may take, in ms. The parts may add up to more than the total: work overlaps."""

    total_ms: float = 800.0
    endpoint_ms: float = 300.0
    asr_ms: float = 150.0
    llm_ms: float = 200.0
    tts_ms: float = 120.0
    output_ms: float = 30.0

    def of(self, key: str) -> float:
        """The budget of a part, or of `voice_to_voice`."""
        return float(self.total_ms if key == TOTAL else getattr(self, f"{key}_ms"))


def latency_parts(
    last_speech: float,
    turn_over: float,
    transcript: float | None,
    first_clause: float | None,
    first_chunk: float | None,
    audible: float,
) -> LatencyParts:
    """Split `last_speech` -> `audible` (instants in seconds) along the critical path.

    A step that was ready before the one it follows (a draft that stood, a clause held ready) costs nothing:
    each boundary is the latest instant so far, and none lies beyond `audible`. None: the step did not happen.
    """
    end = max(audible, last_speech)
    edges = [last_speech]
    for instant in (turn_over, transcript, first_clause, first_chunk):
        edges.append(edges[-1] if instant is None else min(max(edges[-1], instant), end))
    edges.append(end)
    return LatencyParts(*(ms(a, b) for a, b in itertools.pairwise(edges)))


def percentile(values: Iterable[float], percent: float) -> float | None:
    """Nearest rank: the smallest measured value that at least `percent` % of the values do not exceed.

    Always a value that was really measured. None where there are none.
    """
    ordered = sorted(values)
    if not ordered:
        return None
    rank = math.ceil(percent / 100.0 * len(ordered))
    return ordered[min(max(rank, 1), len(ordered)) - 1]


def value_of(parts: LatencyParts, key: str) -> float:
    """The ms of one of `KEYS`."""
    return float(getattr(parts, key))


def percentiles(turns: Sequence[LatencyParts], percent: float) -> dict[str, float | None]:
    """One percentile of each of `KEYS`, in ms to 0.1. Percentiles of parts do not add up to that of the whole."""
    return {key: _rounded(percentile((value_of(t, key) for t in turns), percent)) for key in KEYS}


def share_in_budget(turns: Sequence[LatencyParts], budget: Budget, key: str = TOTAL) -> float | None:
    """The share (0..1) of turns whose `key` is within its budget; None where there are no turns."""
    if not turns:
        return None
    return sum(value_of(t, key) <= budget.of(key) for t in turns) / len(turns)


def summary(records: Iterable[TurnRecord], budget: Budget | None = None) -> dict[str, object]:
    """{turns, p50{…}, p95{…}} over the six keys; with a budget also `in_budget`. `measured` counts timed turns."""
    records = list(records)
    timed = [r.ms for r in records if r.ms is not None]
    out: dict[str, object] = {
        "turns": len(records),
        "measured": len(timed),
        "p50": percentiles(timed, 50),
        "p95": percentiles(timed, 95),
    }
    if budget is not None:
        share = share_in_budget(timed, budget)
        out["in_budget"] = None if share is None else round(share, 4)
    return out


def missed(record: TurnRecord, budget: Budget) -> list[str]:
    """What was over its budget and by how much, the largest first: "endpoint +320 ms: end of turn unsure"."""
    parts = record.ms
    if parts is None:
        return []
    over = sorted(((value_of(parts, p) - budget.of(p), p) for p in PARTS), reverse=True)
    out = []
    for excess, part in over:
        if excess > 0.5:
            why = _why(part, record)
            out.append(f"{part} +{excess:.0f} ms" + (f": {why}" if why else ""))
    return out


def _why(part: str, record: TurnRecord) -> str:
    """The reason as far as the record knows it; nothing is guessed."""
    if part == "endpoint":
        reasons = {"silence": "end of turn unsure", "cap": "the turn ran into its cap"}
        return reasons.get(record.end_reason, "")
    if part == "llm" and record.queue_wait_ms > 1:
        return f"{record.queue_wait_ms:.0f} ms of it waiting for room"
    if part in ("asr", "llm", "tts") and record.speculation.tries and not record.speculation.held:
        return "the early work did not stand"
    return ""


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


# One texture a part, so that the bars can be told apart without colour, and colours that stay apart for
# people who cannot tell red from green.
TEXTURE = {"endpoint": "█", "asr": "▓", "llm": "▒", "tts": "░", "output": "■"}
COLOUR = {"endpoint": "blue", "asr": "cyan", "llm": "magenta", "tts": "yellow", "output": "white"}


def waterfall(parts: LatencyParts, budget: Budget, width: int = 80) -> Text:
    """The turn as six lines: each part a bar that starts where the one before it ended, to scale.

    A part over its budget carries "▲ +ms" behind its number, the whole a "│" where its budget ends.
    """
    columns = max(10, width - 34)
    scale = columns / max(parts.voice_to_voice, budget.total_ms, 1.0)
    out = Text(no_wrap=True)
    start = 0.0
    for part in PARTS:
        value = value_of(parts, part)
        first, last = round(start * scale), round((start + value) * scale)
        size = max(last - first, 1 if value >= 0.5 else 0)
        bar = Text(" " * min(first, columns - size)).append(TEXTURE[part] * size, style=COLOUR[part])
        out.append(_line(part, value, budget.of(part), bar, columns)).append("\n")
        start += value
    total = Text("━" * max(1, round(parts.voice_to_voice * scale)))
    edge = min(columns - 1, round(budget.total_ms * scale))
    total.append(" " * max(0, edge - len(total)))
    total = total[:edge].append("│", style="bold").append(total[edge + 1 :])
    return out.append(_line("in all", parts.voice_to_voice, budget.total_ms, total, columns))


def _line(name: str, value: float, allowed: float, bar: Text, columns: int) -> Text:
    """`  name  ms / budget  bar  ▲ +ms`."""
    over = value - allowed > 0.5
    line = Text(f"{name:>9} {value:6.0f} ").append(f"/ {allowed:4.0f}  ", style="dim").append(bar)
    line.append(" " * max(0, columns - len(bar)))
    return line.append(f" ▲ +{value - allowed:.0f}", style="bold") if over else line
