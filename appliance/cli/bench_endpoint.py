"""`appliance bench endpoint`: how often people are cut off, and how long they wait for that not to happen."""

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer


def endpoint(
    tier: Annotated[str, typer.Option(metavar="NAME", help="tiny, starter, …")] = "starter",
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="A TOML file instead of a tier.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="So many turns only; 0: the whole corpus.")] = 0,
    kept: Annotated[bool, typer.Option("--kept", help="Only turns that an earlier run listened to.")] = False,
    audio_ms: Annotated[float | None, typer.Option(help="An end-of-turn score is ready after; else as here.")] = None,
    stock_ms: Annotated[float | None, typer.Option(help="Stock's score is ready after; else as here.")] = None,
    draft_ms: Annotated[float | None, typer.Option(help="A draft transcript is ready after; else as here.")] = None,
    llm_ms: Annotated[float | None, typer.Option(help="The model's opinion after the draft; else as here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Only the JSON line.")] = False,
) -> None:
    """Compare voice activity alone, stock smart-turn and this policy on a corpus of pauses and ends.

    The first run speaks and listens to about 500 turns, which takes half an hour on two cores; what was heard is
    kept in the cache folder, and a run that was stopped goes on where it was. What looks, words and opinion take is
    measured on this machine, and each way pays for it.

    Example: appliance bench endpoint --tier tiny
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from appliance.bench import endpoint_run
    from appliance.config import load

    settings = load(config, None if config else tier)
    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=as_json or not console.is_terminal, transient=True) as bars:
        tasks: dict[str, Any] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done)

        named = {"audio_ms": audio_ms, "stock_ms": stock_ms, "draft_ms": draft_ms, "llm_ms": llm_ms}
        given = {name: value for name, value in named.items() if value is not None}
        result = asyncio.run(endpoint_run.run(settings, given, tell, limit=limit, kept=kept))
    if not as_json:
        _table(console, result)
    print(json.dumps(result))


def _table(console: Any, result: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(title="turns cut off, and the delay that buys it")
    for title in ("way", "cut at 300 ms", "cut at 600 ms", "ms at 5 % cut"):
        table.add_column(title, justify="left" if title == "way" else "right")
    for label, group in (("all", result), ("people", result["human"]), ("synthetic", result["synthetic"])):
        for way in ("vad", "stock", "policy"):
            row = group[way]
            cells = [_percent(row["cut_at_300"]), _percent(row["cut_at_600"])]
            delay = row["delay_ms_at_5pct"]
            table.add_row(f"{label}: {way}", *cells, "never" if delay is None else f"{delay:.0f}")
    console.print(table)
    console.print(
        f"{result['false_turns']} turns from {result['quiet_minutes']} minutes of silence, noise and music; "
        f"{result['short_commands_heard']} of {result['short_commands']} short commands heard; "
        f"a bare yes or no after a question ends the turn within 400 ms in {result['short_answers_by_400']} of "
        f"{result['short_answers']}; "
        f"looks take {result['looks_share_of_core']:.1%} of one core while someone speaks"
    )


def _percent(share: float | None) -> str:
    return "out of reach" if share is None else f"{share:.1%}"
