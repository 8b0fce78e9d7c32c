#!/usr/bin/env python3
"""Fit the weights of appliance/turns/endpoint.toml on the fit half of the end-of-turn corpus.

It reads the traces that `appliance bench endpoint` keeps, so run that first. Each pause of a turn is a row for every
moment at which something new was known about it; rows of one pause weigh as much as one. Inputs are dropped at
random, so that the model is right with any of them. Logistic regression by Newton's method with prior beliefs about
the weights; the growth of certainty with silence is fitted along.

A likely model is not yet a polite one: it counts every moment of a pause, and what matters is the moment at which it
ends. So the weights of sound and model are then scaled, one factor each, and the slope of the wait
(turns/endpoint.py) is chosen, step by step on a coarse grid, for the fewest cut-offs at median delays of 250 to 600 ms
and the least delay at 5 % of cut-offs, on the same half, for both packs, and once more for its recordings of people.

    scripts/fit_endpoint.py            # show the weights
    scripts/fit_endpoint.py --write    # and write them
"""

import argparse
import itertools
import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np

from appliance.bench.endpoint import Costs, curve, cut_at, delay_at, inputs_of, policy, steps_cache
from appliance.bench.endpoint_run import cache_of
from appliance.bench.traces import Trace
from appliance.config import load
from appliance.engines.ports import RATE
from appliance.turns.combine import Weights, logit, octaves, parse
from appliance.turns.completeness import FEATURES
from appliance.turns.endpoint import Endpoint, EndpointSettings

SEED = 8
HUMAN_WEIGHT = 4.0  # recordings of people are few, and are what counts

# What is known beforehand, and how many pauses' worth of evidence it takes to move it: (mean, strength). Several
# features hardly occur in the corpus; a feature never crosses zero, because its sign is not in doubt.
BELIEFS = {
    "prior": (0.0, 0.01),
    "audio.bias": (0.0, 2.0), "audio.slope": (0.5, 2.0),
    "text.bias": (0.0, 2.0),
    "text.open_end": (-2.0, 6.0), "text.begun": (-1.5, 6.0), "text.filler": (-2.0, 6.0),
    "text.trailing": (-1.5, 6.0), "text.groups": (-1.5, 6.0), "text.listing": (-0.7, 6.0),
    "text.searching": (-1.0, 6.0), "text.few": (-0.5, 6.0),
    "text.stop_mark": (0.3, 6.0), "text.question": (0.3, 6.0), "text.answer": (2.0, 6.0), "text.reply": (1.0, 6.0),
    "llm.bias": (0.0, 2.0), "llm.slope": (0.3, 2.0),
    "length.bias": (0.0, 2.0), "length.slope": (0.3, 2.0),
    "growth": (0.7, 2.0),
}  # fmt: skip
NAMES = tuple(BELIEFS)

# What words and the model's opinion take on two cores, ms (BENCHMARKS.md).
COSTS = {"starter": Costs(), "tiny": Costs(draft_ms=45.0, llm_ms=40.0)}
# Factors on the fitted weights, in the order in which they are tried, and the slope of the wait. Few and coarse: the
# fit half has 250 turns, and what more freedom gained there was lost on the other half. The audio score never counts
# for less than a fifth: on synthetic pauses it is near chance, on people's it is not.
SHAPES = {
    "with_words": (0.2, 0.35, 0.5),
    "llm": (1.0, 0.75),
    "audio": (1.0, 0.75, 1.25),
    "slope": (3.0, 2.0, 2.5, 3.5),
}
DELAYS_MS = (250.0, 275.0, 300.0, 325.0, 350.0, 400.0, 500.0, 600.0)
SLOWEST_MS = 3_000.0  # as a share of which the delay at 5 % of cut-offs counts
WORTH_IT = 0.002  # a step must gain that much of the sum of shares, or the grid follows chance
KNOBS = tuple(0.12 * 1.25**i for i in range(20))


def row(
    silence_ms: float,
    audio: float | None,
    text: tuple[float, ...] | None,
    llm: float | None,
    voiced_ms: float | None,
) -> list[float]:
    return [
        1.0,
        *((0.0, 0.0) if audio is None else (1.0, logit(audio))),
        *((0.0,) * (1 + len(FEATURES)) if text is None else (1.0, *text)),
        *((0.0, 0.0) if llm is None else (1.0, logit(llm))),
        *((0.0, 0.0) if voiced_ms is None else (1.0, octaves(voiced_ms))),
        float(np.log(max(50.0, silence_ms) / 200.0)),
    ]


def rows_of(traces: list[Trace], rng: random.Random) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Design matrix, labels and weights."""
    xs, ys, ws = [], [], []
    for trace in traces:
        for pause in trace.pauses:
            late = (pause.last - pause.voiced) * 1000 / RATE
            steps = [s for s in inputs_of(trace, pause, Costs()) if s.since_ms < pause.ms]
            mine = []
            for step in steps:
                text = step.text.values() if step.text else None
                given = (step.audio_score, text, step.llm_score, step.voiced_ms)
                mine.append(row(step.since_ms + late, *given))
                for drop in itertools.product((True, False), repeat=4):
                    if any(d and g is not None for d, g in zip(drop, given, strict=True)) and rng.random() < 0.15:
                        left = [None if d else g for d, g in zip(drop, given, strict=True)]
                        mine.append(row(step.since_ms + late, *left))
            weight = (HUMAN_WEIGHT if trace.human else 1.0) / max(1, len(mine))
            xs += mine
            ys += [float(trace.is_end(pause))] * len(mine)
            ws += [weight] * len(mine)
    return np.array(xs), np.array(ys), np.array(ws)


def fit(x: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The most probable weights under BELIEFS, each on its own side of zero where it may have only one."""
    mean = np.array([m for m, _ in BELIEFS.values()])
    strength = np.array([s for _, s in BELIEFS.values()])
    signed = np.array([m != 0 for m in mean])
    beta, free = mean.copy(), np.ones(len(mean), bool)
    for _ in range(200):
        p = 1 / (1 + np.exp(-(x @ beta)))
        gradient = x.T @ (w * (y - p)) - strength * (beta - mean)
        hessian = (x * (w * p * (1 - p))[:, None]).T @ x + np.diag(strength)
        step = np.zeros(len(beta))
        step[free] = np.linalg.solve(hessian[np.ix_(free, free)], gradient[free])
        beta += step
        crossed = signed & free & (beta * mean < 0)
        beta[crossed], free[crossed] = 0.0, False
        if np.abs(step).max() < 1e-8:
            break
    return beta


def shaped(weights: Weights, shape: dict[str, float]) -> Weights:
    return replace(
        weights,
        audio_bias=weights.audio_bias * shape["audio"],
        audio_slope=weights.audio_slope * shape["audio"],
        audio_with_words=shape["with_words"],
        llm_bias=weights.llm_bias * shape["llm"],
        llm_slope=weights.llm_slope * shape["llm"],
    )


def bend(weights: Weights, kept: dict[str, list[Trace]]) -> dict[str, float]:
    """The shape with the fewest cut-offs, found by two rounds over the grid."""
    sets = []
    for tier, traces in kept.items():
        for some in (traces, [t for t in traces if t.human]):
            sets.append((some, COSTS[tier], steps_cache()))

    def rudeness(shape: dict[str, float]) -> float:
        endpoint = Endpoint(replace(EndpointSettings(), slope=shape["slope"]), shaped(weights, shape))
        total = 0.0
        for traces, costs, steps in sets:
            points = curve(traces, lambda f, c=costs, s=steps: policy(endpoint, c, patience=f, steps=s), KNOBS)
            shares = [cut_at(points, delay_ms) for delay_ms in DELAYS_MS]
            total += sum(0.5 if math.isnan(share) else share for share in shares) / len(shares)
            total += min(SLOWEST_MS, delay_at(points, 0.05)) / SLOWEST_MS * 0.1
        return total

    shape = {name: values[0] for name, values in SHAPES.items()}
    least = rudeness(shape)
    print(f"before bending {least:.3f}")
    for _ in range(2):
        for name, values in SHAPES.items():
            for value in values:
                other = {**shape, name: value}
                if (found := rudeness(other)) < least - WORTH_IT:
                    shape, least = other, found
            print(f"{name:16} {shape[name]:5.2f}  {least:.3f}", flush=True)
    return shape


def toml(weights: Weights, note: str) -> str:
    """The weights as the file that `turns.combine` reads."""
    lines = [f"# Weights of turns/combine.py. {note}", "# Made by scripts/fit_endpoint.py; do not edit.", ""]
    lines += [f"prior = {weights.prior:.4f}"]
    lines += ["", "[audio]", f"bias = {weights.audio_bias:.4f}", f"slope = {weights.audio_slope:.4f}"]
    lines += [f"with_words = {weights.audio_with_words:.4f}"]
    lines += ["", "[text]", f"bias = {weights.text_bias:.4f}"]
    lines += [f"{name} = {weight:.4f}" for name, weight in zip(FEATURES, weights.text, strict=True)]
    lines += ["", "[llm]", f"bias = {weights.llm_bias:.4f}", f"slope = {weights.llm_slope:.4f}"]
    lines += ["", "[length]", f"bias = {weights.length_bias:.4f}", f"slope = {weights.length_slope:.4f}"]
    return "\n".join(lines) + "\n"


def weights_of(named: dict[str, float]) -> Weights:
    return Weights(
        named["prior"],
        named["audio.bias"],
        named["audio.slope"],
        1.0,
        named["text.bias"],
        tuple(named[f"text.{name}"] for name in FEATURES),
        named["llm.bias"],
        named["llm.slope"],
        named["length.bias"],
        named["length.slope"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write appliance/turns/endpoint.toml")
    args = parser.parse_args()
    kept = {tier: [t for t in cache_of(load(tier=tier)).traces() if t.half == "fit"] for tier in COSTS}
    traces = [t for each in kept.values() for t in each]
    if not all(kept.values()):
        parser.exit(1, "error: there are no traces\nhint: run `appliance bench endpoint --tier TIER` for both packs\n")
    x, y, w = rows_of(traces, random.Random(SEED))
    beta = fit(x, y, w)
    named = dict(zip(NAMES, beta.tolist(), strict=True))
    pauses = sum(len(t.pauses) for t in traces)
    p = 1 / (1 + np.exp(-(x @ beta)))
    loss = float(-(w * (y * np.log(p) + (1 - y) * np.log(1 - p))).sum() / w.sum())
    for name, value in named.items():
        print(f"{name:16} {value:8.3f}")
    print(f"{len(traces)} turns, {pauses} pauses, {len(y)} rows, log loss {loss:.4f}")
    shape = bend(weights_of(named), kept)
    text = toml(shaped(weights_of(named), shape), f"Fitted on {len(traces)} turns with {pauses} pauses.")
    assert parse(text)
    print(f"\n{text}\nslope of the wait: {shape['slope']}")
    if args.write:
        target = Path(__file__).parents[1] / "appliance" / "turns" / "endpoint.toml"
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
