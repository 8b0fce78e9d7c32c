"""`appliance plan`: capacity arithmetic on the command line. Nothing is loaded, nothing is measured.

It owns flags, tables and JSON keys. Every figure comes from `appliance.capacity`.
"""

import json
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from appliance.errors import UsageError

if TYPE_CHECKING:
    from appliance.capacity.fleet import FleetPlan
    from appliance.capacity.geometry import Geometry
    from appliance.capacity.kv import KvPlan

app = typer.Typer(
    help="Capacity arithmetic: memory of a model, the sizing guide, a fleet, text to speech.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]


@app.command("kv", epilog="Example: appliance plan kv gemma-3-4b --context 8192 --sessions 10 --kv-type q8_0")
def kv(
    model: Annotated[str, typer.Argument(metavar="MODEL.gguf|NAME", help="A file, or a name of the catalogue.")] = "",
    config: Annotated[str, typer.Option("--config", metavar="TIER|FILE", help="The limiter's sum for a tier.")] = "",
    context: Annotated[int, typer.Option(help="Tokens of one session's share.")] = 8192,
    sessions: Annotated[int, typer.Option(help="Sessions at once.")] = 10,
    kv_type: Annotated[str, typer.Option("--kv-type", help="f16, q8_0, q4_0, …; or two, K then V: q8_0,f16.")] = "f16",
    prefix: Annotated[int, typer.Option(help="Tokens of the system prompt, held once for all.")] = 0,
    ubatch: Annotated[int, typer.Option(help="Tokens of one micro-batch.")] = 512,
    full_windows: Annotated[bool, typer.Option("--full-windows", help="Windowed layers keep everything.")] = False,
    split: Annotated[bool, typer.Option("--split", help="A stream of cells for each session, not one pool.")] = False,
    memory: Annotated[str, typer.Option(metavar="BYTES", help="How many sessions fit here: 24GB, 16GiB, 24e9.")] = "",
    as_json: Json = False,
) -> None:
    """Print the bytes that one llama.cpp context takes, with the sum written out."""
    from appliance.capacity.kv import KvPlan

    if config and model:
        raise UsageError("give a model or --config, not both", "appliance plan kv --config starter")
    if config:
        _kv_of_config(config, memory, as_json)
        return
    if not model:
        raise UsageError("no model is named", "appliance plan kv gemma-3-4b, or the path of a GGUF file")
    k_type, _, v_type = kv_type.partition(",")
    plan = KvPlan(
        context_tokens=context,
        sessions=sessions,
        k_type=k_type,
        v_type=v_type or k_type,
        prefix_tokens=prefix,
        unified=not split,
        window_full=full_windows,
        ubatch_tokens=ubatch,
    )
    _print_kv(_geometry(model), plan, memory, as_json)


@app.command("tiers", epilog="Example: appliance plan tiers --context 4096 --sessions 20")
def tiers(
    context: Annotated[int, typer.Option(help="Tokens of one session's share.")] = 8192,
    sessions: Annotated[int, typer.Option(help="Sessions at once.")] = 10,
    as_json: Json = False,
) -> None:
    """Print a published sizing guide beside the exact sums, and which GPUs each tier really fits."""
    from appliance.capacity.kv import KvPlan
    from appliance.cli.plan_tables import print_tiers, tiers_json

    plan = KvPlan(context_tokens=context, sessions=sessions)
    if as_json:
        _print_json(tiers_json(plan))
        return
    print_tiers(plan)


def fleet(as_json: bool, **assumptions: Any) -> None:
    """Walk from monthly users to GPUs; every assumption is a flag. Memory in bytes, shares from 0 to 1."""
    from appliance.capacity.fleet import FleetAssumptions, plan_fleet
    from appliance.cli.plan_tables import print_fleet

    given = FleetAssumptions(**assumptions)
    plan = plan_fleet(given)
    if as_json:
        _print_json(_fleet_json(plan))
        return
    print_fleet(given, plan)


@app.command("tts", epilog="Example: appliance plan tts --safe-capacity 1 --target 100 --price-per-hour 1.006")
def tts(
    safe_capacity: Annotated[float, typer.Option(help="Requests at once that one replica serves safely.")],
    target: Annotated[float, typer.Option(help="Requests at once to serve.")],
    headroom: Annotated[float, typer.Option(help="Factor on top of the bare number.")] = 1.4,
    utilisation: Annotated[float, typer.Option(help="Planned share of the safe capacity.")] = 0.6,
    price_per_hour: Annotated[float, typer.Option(help="Of one replica.")] = 0.0,
    as_json: Json = False,
) -> None:
    """Turn a measured safe capacity into replicas, both ways, and their price."""
    from appliance.capacity.tts import plan_tts
    from appliance.cli.plan_tables import print_tts

    plan = plan_tts(safe_capacity, target, headroom=headroom, utilisation=utilisation, price_per_hour=price_per_hour)
    if as_json:
        _print_json(_rounded(asdict(plan)))
        return
    print_tts(plan, target, headroom, utilisation)


def _with_fleet_flags(function: Any) -> Any:
    """Give `function` one flag for each field of FleetAssumptions, so that no assumption can lack its flag."""
    import inspect

    from appliance.capacity.fleet import ASSUMPTION_HELP, FleetAssumptions

    # Users come as 1e6 as readily as 1000000.
    kinds = {f.name: type(f.default) if f.name != "monthly_users" else float for f in fields(FleetAssumptions)}
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=Annotated[kinds[field.name], typer.Option(help=ASSUMPTION_HELP[field.name])],
        )
        for field in fields(FleetAssumptions)
    ]
    own = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json)
    function.__signature__ = inspect.Signature([*parameters, own])
    function.__annotations__ = {p.name: p.annotation for p in [*parameters, own]}
    return function


app.command("fleet", epilog="Example: appliance plan fleet --monthly-users 1000000 --json")(_with_fleet_flags(fleet))


def _fleet_json(plan: "FleetPlan") -> dict[str, Any]:
    flat = asdict(plan)
    flat["pools"] = {pool.pop("name"): _rounded(pool) for pool in flat["pools"]}
    rounded: dict[str, Any] = _rounded(flat)
    return rounded


def _geometry(model: str) -> "Geometry":
    """A file wins over a name; a name is looked up in the catalogue."""
    path = Path(model)
    if path.is_file() or model.endswith(".gguf") or "/" in model:
        from appliance.engines.llama.gguf import read_geometry

        return read_geometry(path)
    from appliance.capacity.catalogue import lookup

    return lookup(model)


def _print_kv(geometry: "Geometry", plan: "KvPlan", memory: str, as_json: bool) -> None:
    from appliance.capacity.cap import Room, memory_cap
    from appliance.capacity.kv import kv_budget
    from appliance.cli.plan_tables import heading

    cap = memory_cap(geometry, plan, Room("given", parse_bytes(memory))) if memory else None
    if cap is not None:
        plan = replace(plan, sessions=max(1, cap.sessions))
    budget = kv_budget(geometry, plan)
    if as_json:
        _print_json(
            {
                "model": geometry.name,
                "bytes_per_cell": budget.bytes_per_cell,
                "cells": budget.cells,
                "window_cells": budget.window_cells,
                "window_bytes": budget.window_bytes,
                "state_bytes": budget.state_bytes,
                "kv_bytes": budget.kv_bytes,
                "compute_bytes": budget.compute_bytes,
                "output_bytes": budget.output_bytes,
                "weights_bytes": budget.weights_bytes,
                "total_bytes": budget.total_bytes,
                "sessions": cap.sessions if cap else plan.sessions,
                "limited_by": cap.limited_by if cap else "asked",
                "lines": [line.strip() for line in (cap.lines if cap else budget.lines)],
            }
        )
        return
    heading(f"{geometry.name} ({geometry.architecture}, {len(geometry.layers)} layers)")
    for line in cap.lines if cap else budget.lines:
        print(line)


def _kv_of_config(config: str, memory: str, as_json: bool) -> None:
    """The same sum that the limiter makes at start, for a tier or a file."""
    from appliance.cli.plan_tables import heading
    from appliance.config import load
    from appliance.setup.sums import tier_sum

    is_file = "/" in config or config.endswith(".toml")
    settings = load(Path(config)) if is_file else load(tier=config)
    result = tier_sum(settings, parse_bytes(memory) if memory else None)
    if as_json:
        _print_json({**result.as_dict(), "lines": [line.strip() for line in result.cap.lines]})
        return
    heading(f"{config}: {result.geometry.name} on {result.room.where}")
    for line in result.cap.lines:
        print(line)


def parse_bytes(text: str) -> float:
    """`24GB`, `16GiB`, `500 MB`, `24e9` in bytes. Raises UsageError."""
    units = {
        "": 1.0,
        "b": 1.0,
        "kb": 1e3,
        "mb": 1e6,
        "gb": 1e9,
        "tb": 1e12,
        "kib": 2.0**10,
        "mib": 2.0**20,
        "gib": 2.0**30,
    }
    stripped = text.strip().lower().replace(" ", "")
    number = stripped.rstrip("bgikmt")
    try:
        value = float(number) * units[stripped[len(number) :]]
    except (ValueError, KeyError):
        raise UsageError(f"{text!r} is no amount of memory", "write it like 24GB, 16GiB or 24e9") from None
    if not 0 < value < 1e18:
        raise UsageError(f"{text!r} is no amount of memory", "give a positive number of bytes")
    return value


def _rounded(value: Any) -> Any:
    """Floats to nine significant digits: 2000.0000000000002 helps nobody."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    return value


def _print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False))
