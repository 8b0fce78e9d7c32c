"""`appliance bench endpoint`: how often people are cut off, and how long they wait, for three ways to end a turn.

Owns the simulation of voice activity alone, of stock smart-turn and of this appliance's policy on recorded traces,
and the operating curves drawn from it. Every way pays for its engines: a score or a draft counts from the moment it
would be ready. It loads no model; `bench.traces` does.

A turn is cut off when it is ended in any silence inside it. A delay runs from the last sample of speech, as the
corpus knows it, to the end of the turn. An operating point is one value of a way's knob: the silence waited for
(voice activity), the moment of the look (stock), patience (policy).
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from appliance.bench.traces import LOOKS, PauseTrace, Trace
from appliance.engines.ports import BLOCK, RATE
from appliance.turns.completeness import TextLook, read
from appliance.turns.endpoint import Endpoint, EndpointSettings, Look

BLOCK_MS = BLOCK * 1000 / RATE
FALLBACK_MS = 3_000.0  # the silence that ends a turn whatever the scores: stock's, and the most for the policy too
STOCK_THRESHOLD = 0.5
STOCK_LOOK_MS = 200.0
HORIZON_MS = 3_500.0  # as long as the corpus's tails


@dataclass(frozen=True, slots=True)
class Costs:
    """Time from asking to answer, in ms, on the machine that is simulated; the default is two cores with VNNI."""

    audio_ms: float = 25.0  # a look at 4 s of audio, beside a draft
    stock_ms: float = 50.0  # a look at 8 s
    draft_ms: float = 80.0  # whisper base
    llm_ms: float = 60.0
    fade_ms: float = 40.0  # by which the level finds a pause before the traces' gate does, see turns.fade


@dataclass(frozen=True, slots=True)
class Inputs:
    """What is known from `since_ms` of silence (by the gate's count) on, until the next Inputs of the same pause."""

    since_ms: float
    audio_score: float | None
    text: TextLook | None
    llm_score: float | None
    voiced_ms: float


@dataclass(frozen=True, slots=True)
class Point:
    """One operating point over a set of turns."""

    knob: float
    cut: float  # share of turns cut off, 0..1
    delay_ms: float  # median over the true ends
    by_250: float = 0.0  # share of true ends that were declared within 250 ms


# (trace, pause) -> silence in ms, by the gate's count, at which the turn is ended; inf when it is not
Way = Callable[[Trace, PauseTrace], float]


def inputs_of(trace: Trace, pause: PauseTrace, costs: Costs, *, pause_ms: float = 32.0) -> list[Inputs]:
    """The steps in which knowledge about `pause` arrives, in order, beginning with nothing."""
    arrivals: list[tuple[float, str, float | int]] = []
    busy_until, asked = 0.0, -math.inf
    drafted = pause_ms - costs.fade_ms + costs.draft_ms if pause.draft is not None else -math.inf
    for blocks, score in sorted(pause.looks.items()):
        at = blocks * BLOCK_MS
        # One look at a time, no sooner than the policy asks again, and beside a draft only the first.
        if at < pause_ms or at < busy_until or at < asked + 96.0 or (at < drafted and arrivals):
            continue
        busy_until, asked = at + costs.audio_ms, at
        arrivals.append((busy_until, "audio", score))
    if pause.draft is not None:
        arrivals.append((drafted, "text", 0))
        if pause.llm is not None:
            arrivals.append((drafted + costs.llm_ms, "llm", pause.llm))
    text = read(pause.draft, trace.language, asked=trace.asked) if pause.draft else None
    voiced_ms = trace.voiced_ms(pause)
    steps = [Inputs(pause_ms, None, None, None, voiced_ms)]
    for at, kind, value in sorted(arrivals):
        before = steps[-1]
        steps.append(
            Inputs(
                max(at, pause_ms),
                float(value) if kind == "audio" else before.audio_score,
                text if kind == "text" else before.text,
                float(value) if kind == "llm" else before.llm_score,
                voiced_ms,
            )
        )
    return steps


def steps_cache() -> Callable[[Trace, PauseTrace, Costs], list[Inputs]]:
    """`inputs_of`, each pause asked once."""
    kept: dict[int, list[Inputs]] = {}

    def steps(trace: Trace, pause: PauseTrace, costs: Costs) -> list[Inputs]:
        if id(pause) not in kept:
            kept[id(pause)] = inputs_of(trace, pause, costs)
        return kept[id(pause)]

    return steps


def voice_activity(silence_ms: float) -> Way:
    """End after so much silence."""
    return lambda trace, pause: _on_block(silence_ms)


def stock(look_ms: float, costs: Costs, *, threshold: float = STOCK_THRESHOLD) -> Way:
    """Look once at `look_ms`; end when the score says so, else at the fallback."""

    def ends(trace: Trace, pause: PauseTrace) -> float:
        scored = [b for b in pause.stock if b * BLOCK_MS <= look_ms + 1]
        if not scored or pause.ms < look_ms:
            return math.inf
        if pause.stock[max(scored)] >= threshold:
            return _on_block(max(scored) * BLOCK_MS + costs.stock_ms)
        return FALLBACK_MS

    return ends


def policy(
    endpoint: Endpoint,
    costs: Costs,
    *,
    patience: float = 1.0,
    yes_no: bool = False,
    without: frozenset[str] = frozenset(),
    steps: Callable[[Trace, PauseTrace, Costs], list[Inputs]] = inputs_of,
) -> Way:
    """This appliance. `yes_no`: it has just put such a question. `without` takes inputs away: audio, text, …"""

    def ends(trace: Trace, pause: PauseTrace) -> float:
        known = steps(trace, pause, costs)
        gate_is_late_ms = (pause.last - pause.voiced) * 1000 / RATE
        for i, step in enumerate(known):
            until = known[i + 1].since_ms if i + 1 < len(known) else math.inf
            look = Look(
                step.since_ms + gate_is_late_ms,
                None if "audio" in without else step.audio_score,
                None if "text" in without else step.text,
                None if "llm" in without else step.llm_score,
                None if "length" in without else step.voiced_ms,
                patience=patience,
                yes_no=yes_no,
            )
            at = _on_block(max(step.since_ms, endpoint.decide(look).wait_ms - gate_is_late_ms))
            if at < until:
                return min(at, FALLBACK_MS)  # at any patience, so that no way buys its median with longer waits
        return FALLBACK_MS

    return ends


def point(traces: Sequence[Trace], way: Way, knob: float = 0.0) -> Point:
    """Try `way` on every pause of every turn; pauses are judged apart, so that one cut hides no delay."""
    cut, delays = 0, []
    for trace in traces:
        hit = False
        ended = False
        for pause in trace.pauses:
            at = way(trace, pause)
            if at >= min(pause.ms, HORIZON_MS) and not (trace.is_end(pause) and pause.until is None):
                continue
            if not trace.is_end(pause):
                hit = True
            elif not ended:
                ended = True
                delays.append((pause.last - trace.end) * 1000 / RATE + min(at, HORIZON_MS))
        cut += hit
    quick = sum(d <= 250.0 for d in delays) / max(1, len(delays))
    return Point(knob, cut / max(1, len(traces)), median(delays) if delays else math.inf, quick)


def delays(traces: Sequence[Trace], way: Way) -> list[float]:
    """Milliseconds from the last sample of speech to the end of each turn, as far as it ends."""
    found = []
    for trace in traces:
        for pause in trace.pauses:
            if trace.is_end(pause) and (at := way(trace, pause)) < min(pause.ms, HORIZON_MS):
                found.append((pause.last - trace.end) * 1000 / RATE + at)
                break
    return found


def curve(traces: Sequence[Trace], make: Callable[[float], Way], knobs: Iterable[float]) -> list[Point]:
    return [point(traces, make(knob), knob) for knob in knobs]


def cut_at(points: Sequence[Point], delay_ms: float) -> float:
    """The least share of turns cut off at a median delay of at most `delay_ms`, between points on a line."""
    front = _front(points)
    i = bisect_left([p.delay_ms for p in front], delay_ms + 1e-9)
    if i == 0:
        return math.nan
    if i == len(front):
        return front[-1].cut
    a, b = front[i - 1], front[i]
    share = (delay_ms - a.delay_ms) / (b.delay_ms - a.delay_ms)
    return a.cut + (b.cut - a.cut) * share


def delay_at(points: Sequence[Point], cut: float) -> float:
    """The least median delay with at most `cut` of the turns cut off, between points on a line; inf if never."""
    front = _front(points)
    for a, b in zip([None, *front], front, strict=False):
        if b.cut <= cut:
            if a is None:
                return b.delay_ms
            return b.delay_ms - (b.delay_ms - a.delay_ms) * (cut - b.cut) / (a.cut - b.cut)
    return math.inf


def summary(points: Sequence[Point]) -> dict[str, float | None]:
    """The three numbers of one way, rounded; None where the curve does not reach so far."""
    values = {
        "cut_at_300": (cut_at(points, 300.0), 4),
        "cut_at_600": (cut_at(points, 600.0), 4),
        "delay_ms_at_5pct": (delay_at(points, 0.05), 0),
    }
    return {name: round(v, digits) if math.isfinite(v) else None for name, (v, digits) in values.items()}


PATIENCE = tuple(0.12 * 1.12**i for i in range(54))
SILENCES = tuple(BLOCK_MS * k for k in range(2, 95))
LOOKS_MS = tuple(blocks * BLOCK_MS for blocks in LOOKS)


def three_ways(traces: Sequence[Trace], settings: EndpointSettings, costs: Costs) -> dict[str, list[Point]]:
    """The operating curves of voice activity, stock and policy."""
    return {
        "vad": curve(traces, voice_activity, SILENCES),
        "stock": curve(traces, lambda at: stock(at, costs), LOOKS_MS),
        "policy": sweep(traces, settings, costs),
    }


def sweep(
    traces: Sequence[Trace], settings: EndpointSettings, costs: Costs, *, without: frozenset[str] = frozenset()
) -> list[Point]:
    """The policy's curve over patience."""
    endpoint, steps = Endpoint(settings), steps_cache()
    return curve(
        traces, lambda factor: policy(endpoint, costs, patience=factor, without=without, steps=steps), PATIENCE
    )


def looks_per_second(traces: Sequence[Trace], endpoint: Endpoint, costs: Costs) -> float:
    """Looks a second between the first and the last sample of speech, the end's own looks counted in."""
    looks, seconds = 0, 0.0
    way = policy(endpoint, costs)
    for trace in traces:
        for pause in trace.pauses:
            late = (pause.last - pause.voiced) * 1000 / RATE
            lasts = min(way(trace, pause), pause.ms, HORIZON_MS)
            at = BLOCK_MS
            while at < lasts:
                looks += 1
                at = _on_block(max(at + costs.audio_ms, endpoint.next_look_ms(at + late) - late))
        seconds += max(0, trace.end - max(0, trace.first)) / RATE
    return looks / max(seconds, 1e-9)


def shown(at: Point) -> dict[str, float]:
    """One operating point, rounded."""
    return {"cut": round(at.cut, 4), "delay_ms": round(at.delay_ms), "ended_by_250": round(at.by_250, 3)}


def _front(points: Sequence[Point]) -> list[Point]:
    """The points that no other beats, by rising delay and falling share."""
    front: list[Point] = []
    for p in sorted(points, key=lambda p: (p.delay_ms, p.cut)):
        if not front or (p.cut < front[-1].cut and p.delay_ms > front[-1].delay_ms):
            front.append(p)
    return front


def _on_block(ms: float) -> float:
    """Decisions are taken when a block has come: the next block's end."""
    return math.ceil(ms / BLOCK_MS - 1e-9) * BLOCK_MS
