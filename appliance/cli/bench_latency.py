"""`appliance bench latency`: where the milliseconds of a turn go, over the demo questions."""

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer

from appliance.errors import UsageError


def latency(
    tier: Annotated[str, typer.Option(metavar="NAME", help="tiny, starter, …")] = "starter",
    repeat: Annotated[int, typer.Option(min=1, help="How often all questions are asked.")] = 1,
    speculation: Annotated[bool, typer.Option(help="Begin to answer before the turn is surely over.")] = True,
    live: Annotated[
        bool, typer.Option("--live", help="Through microphone and speaker, measured from recordings.")
    ] = False,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="A TOML file instead of a tier.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Only the JSON line.")] = False,
    report: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Draw the result as one page.")] = None,
) -> None:
    """Ask the demo questions in real time and split voice-to-voice into its five parts."""
    from appliance.bench import latency as bench
    from appliance.cli.printer import Printer
    from appliance.config import load
    from appliance.demo import questions

    if live:
        raise UsageError("--live is not there yet", "leave it out: files are spoken in real time")
    settings = load(config, None if config else tier)
    if not speculation:
        settings = bench.without_speculation(settings)
    printer = Printer(settings.budget, as_json=as_json, measured=True, turns_as_json=False)
    files = [question.open() for question in questions()]
    result = asyncio.run(bench.run(settings, files, repeat=repeat, tell=printer.turn))
    if not as_json:
        printer.table(result.records)
    if report is not None:
        from appliance.bench.report import write_latency

        write_latency(report, result)
    print(json.dumps(result.as_dict()))
