"""`appliance bench load`: how many conversations this box really holds."""

import asyncio
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from appliance.errors import UsageError

if TYPE_CHECKING:
    from appliance.bench.load import Point
    from appliance.capacity.limiter import Objectives
    from appliance.capacity.predict import Calibration, TurnProfile
    from appliance.config import Config


def load(
    closed: Annotated[str, typer.Option(metavar="N,N,…", help="Conversations at once.")] = "",
    open_: Annotated[str, typer.Option("--open", metavar="R,R,…", help="Arrivals a second.")] = "",
    turns: Annotated[int, typer.Option(min=1, help="Questions of each conversation (closed).")] = 10,
    seconds: Annotated[float, typer.Option(min=1, help="Length of each point (open).")] = 60.0,
    limiter: Annotated[bool, typer.Option("--limiter", help="Arrivals ask the admission limiter first.")] = False,
    objective: Annotated[Path | None, typer.Option(metavar="FILE", help="TOML: v2v_ms_p95, …")] = None,
    tier: Annotated[str, typer.Option(metavar="NAME", help="tiny, starter, …")] = "starter",
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="A TOML file instead of a tier.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE.jsonl", help="Every turn, failures too.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Only the JSON line.")] = False,
    report: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Draw the result as one page.")] = None,
) -> None:
    """Hold more and more conversations with real models in real time until an objective breaks.

    Example: appliance bench load --tier tiny --closed 1,2,4
    """
    from appliance.bench.load import safe_sessions, write_turns
    from appliance.capacity.predict import predict
    from appliance.capacity.tts import plan_tts
    from appliance.config import load as load_config
    from appliance.service.calibrate import remember

    if bool(closed) == bool(open_):
        raise UsageError("bench load needs one of --closed and --open", "for example --closed 1,2,4")
    settings = load_config(config, None if config else tier)
    objectives = _objectives(objective, settings)
    loads = _numbers(closed or open_, whole=bool(closed))
    measured = _measure(settings, objectives, loads, bool(closed), turns, seconds, limiter)
    points, speeds, asked, single = asyncio.run(measured)
    foreseen = {n: predict(speeds, asked, int(n), single).v2v_ms_p95 for n in loads} if closed else {}
    if out is not None:
        write_turns(out, points)
    if not as_json:
        _table(points, foreseen)
    if report is not None:
        from appliance.bench.report import write_load

        write_load(report, points, settings, foreseen)
    safe = safe_sessions(points)
    if closed and objective is None and not all(point.safe for point in points):
        remember(settings, replace(speeds, carried=safe))  # `run` does not admit what was seen to fail
    rows = [
        p.as_dict() | ({"predicted_v2v_ms_p95": round(foreseen[p.load], 1)} if p.load in foreseen else {})
        for p in points
    ]
    result: dict[str, object] = {"tier": settings.tier, "points": rows, "safe_sessions": safe}
    if safe:
        result["replicas_for"] = {str(n): plan_tts(safe, n).replicas for n in (100, 250, 500)}
    print(json.dumps(result))


async def _measure(
    settings: "Config",
    objectives: "Objectives",
    loads: list[float],
    closed: bool,
    turns: int,
    seconds: float,
    limiter: bool,
) -> "tuple[list[Point], Calibration, TurnProfile, list[TurnProfile]]":
    """The points; the speeds of the engines alone, measured anew and stored for `run`'s speed limit; the mean turn of
    the first point and its single turns, which with the speeds predict the others.
    """
    from appliance.app import Appliance
    from appliance.bench.load import closed_loop, open_loop
    from appliance.bench.workload import gather, profile, profiles
    from appliance.capacity.predict import engines_cpu_s
    from appliance.demo import questions
    from appliance.service import calibrate
    from appliance.service.ceiling import ceiling
    from appliance.service.reception import Reception
    from appliance.setup.sums import tier_sum
    from appliance.telemetry.metrics import Metrics

    files = [question.open() for question in questions()]
    points = []
    async with Appliance(settings) as box:
        speeds = await calibrate.measure(box)
        calibrate.remember(settings, speeds)
        first = box.bus.subscribe(durable=True)
        gathering = asyncio.create_task(gather(first))
        cpu = cpu_s = time.process_time()
        for load_ in loads:
            print(f"measuring {load_:g} {'sessions' if closed else 'arrivals a second'} …", file=sys.stderr)
            if closed:
                points.append(await closed_loop(box, files, int(load_), turns, objectives))
                first.close()
                cpu_s = cpu_s if len(points) > 1 else time.process_time() - cpu
                continue
            reception = watch = None
            if limiter:
                metrics = Metrics(settings.budget)
                cap = ceiling(settings, tier_sum(settings), speeds)
                reception = Reception(cap, settings.capacity, settings.ladder, metrics, box.bus, box.clock)
                watch = [
                    asyncio.create_task(metrics.run(box.bus.subscribe())),
                    asyncio.create_task(reception.run()),
                ]
            points.append(await open_loop(box, files, load_, seconds, objectives, reception=reception))
            first.close()
            for task in watch or ():
                task.cancel()
        heard = await gathering
        asked = profile(heard)
        beside = cpu_s / max(1, len(points[0].records)) - engines_cpu_s(speeds, asked) if closed else 0.0
        return points, speeds, replace(asked, other_cpu_s=max(0.0, beside)), profiles(heard)


def _objectives(path: Path | None, settings: "Config") -> "Objectives":
    """Those of the file, else 99 % of turns, the tier's voice-to-voice objective and 100 ms of starvation."""
    import tomllib
    from dataclasses import fields, replace

    from appliance.capacity.limiter import Objectives

    if path is None:
        return settings.objectives
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as TOML ({error})", "keys: v2v_ms_p95, starvation_ms_p95") from None
    known = {f.name for f in fields(Objectives)}
    for key, value in values.items():
        if key not in known or not isinstance(value, int | float):
            raise UsageError(f"{path}: {key} is not an objective with a number", f"known: {', '.join(sorted(known))}")
    return replace(settings.objectives, **values)


def _numbers(text: str, *, whole: bool) -> list[float]:
    try:
        numbers = [int(part) if whole else float(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"{text!r} is not a list of numbers", "for example 1,2,4,8") from None
    if not numbers or min(numbers) <= 0:
        raise UsageError(f"{text!r}: loads are above zero", "for example 1,2,4,8")
    return [float(n) for n in numbers]


def _table(points: "list[Point]", foreseen: dict[float, float]) -> None:
    """`foreseen`: predicted p95 by number of sessions."""
    from rich.console import Console
    from rich.table import Table

    table = Table("load", "turns", "failed", "refused", "v2v p50", "v2v p95", "predicted p95", "starvation p95", "safe")
    for point in points:
        row = point.as_dict()
        cells = [f"{point.load:g}", *(str(row[key]) for key in ("turns", "failed", "refused"))]
        cells += [f"{row[key]} ms" for key in ("v2v_ms_p50", "v2v_ms_p95")]
        cells += [f"{foreseen[point.load]:.1f} ms" if point.load in foreseen else "–", f"{row['starvation_ms_p95']} ms"]
        table.add_row(*cells, "yes" if point.safe else "no")
    Console(stderr=True).print(table)
