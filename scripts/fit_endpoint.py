#!/usr/bin/env python3
"""Fit the weights of appliance/turns/endpoint.toml on the fit half of the end-of-turn corpus.

It reads the traces that `appliance bench endpoint` keeps, so run that first. Each pause of a turn is a row for every
moment at which something new was known about it; rows of one pause weigh as much as one. Inputs are dropped at
random, so that the model is right with any of them. Logistic regression by Newton's method with prior beliefs about
the weights; the growth of certainty with silence is fitted along and becomes the slope of the wait (turns/endpoint.py).

    scripts/fit_endpoint.py            # show the weights
    scripts/fit_endpoint.py --write    # and write them
"""

import argparse
import itertools
import random
from pathlib import Path

import numpy as np

from appliance.bench.endpoint import Costs, inputs_of
from appliance.bench.endpoint_run import cache_of
from appliance.bench.traces import Trace
from appliance.config import load
from appliance.engines.ports import RATE
from appliance.turns.combine import logit, octaves
from appliance.turns.completeness import FEATURES

SEED = 8
HUMAN_WEIGHT = 4.0  # recordings of people are few, and are what counts

# What is known beforehand, and how many pauses' worth of evidence it takes to move it: (mean, strength). Several
# features hardly occur in the corpus; a feature never crosses zero, because its sign is not in doubt.
BELIEFS = {
    "prior": (0.0, 0.01),
    "audio.bias": (0.0, 2.0), "audio.slope": (0.5, 2.0),
    "text.bias": (0.0, 2.0),
    "text.open_end": (-2.0, 6.0), "text.begun": (-1.5, 6.0), "text.filler": (-2.0, 6.0),
    "text.trailing": (-1.5, 6.0), "text.groups": (-1.5, 6.0), "text.listing": (-0.7, 6.0), "text.few": (-0.5, 6.0),
    "text.stop_mark": (0.3, 6.0), "text.question": (0.3, 6.0), "text.answer": (2.0, 6.0), "text.reply": (1.0, 6.0),
    "llm.bias": (0.0, 2.0), "llm.slope": (0.3, 2.0),
    "length.bias": (0.0, 2.0), "length.slope": (0.3, 2.0),
    "growth": (0.7, 2.0),
}  # fmt: skip
NAMES = tuple(BELIEFS)


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


def toml(named: dict[str, float], note: str) -> str:
    lines = [f"# Weights of turns/combine.py. {note}", "# Made by scripts/fit_endpoint.py; do not edit.", ""]
    lines.append(f"prior = {named['prior']:.4f}")
    for table in ("audio", "text", "llm", "length"):
        lines += ["", f"[{table}]"]
        lines += [f"{k.split('.')[1]} = {v:.4f}" for k, v in named.items() if k.startswith(table + ".")]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write appliance/turns/endpoint.toml")
    parser.add_argument("--tiers", default="starter,tiny", help="whose models made the traces; they are pooled")
    args = parser.parse_args()
    kept = [cache_of(load(tier=tier)).traces() for tier in args.tiers.split(",")]
    traces = [t for each in kept for t in each if t.half == "fit"]
    if not traces:
        parser.exit(1, "error: there are no traces\nhint: run `appliance bench endpoint` first\n")
    x, y, w = rows_of(traces, random.Random(SEED))
    beta = fit(x, y, w)
    named = dict(zip(NAMES, beta.tolist(), strict=True))
    pauses = sum(len(t.pauses) for t in traces)
    p = 1 / (1 + np.exp(-(x @ beta)))
    loss = float(-(w * (y * np.log(p) + (1 - y) * np.log(1 - p))).sum() / w.sum())
    for name, value in named.items():
        print(f"{name:16} {value:8.3f}")
    print(f"{len(traces)} turns, {pauses} pauses, {len(y)} rows, log loss {loss:.4f}")
    print(f"slope of the wait (1 / growth): {1 / named['growth']:.3f}")
    if args.write:
        target = Path(__file__).parents[1] / "appliance" / "turns" / "endpoint.toml"
        target.write_text(toml(named, f"Fitted on {len(traces)} turns with {pauses} pauses."), encoding="utf-8")


if __name__ == "__main__":
    main()
