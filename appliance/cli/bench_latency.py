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
    mouth: Annotated[
        str, typer.Option(metavar="DEVICE", help="With --live: the output device that speaks to the microphone.")
    ] = "",
    ear: Annotated[
        str, typer.Option(metavar="DEVICE", help="With --live: the input device that hears the answers.")
    ] = "",
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="A TOML file instead of a tier.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Only the JSON line.")] = False,
    report: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Draw the result as one page.")] = None,
) -> None:
    """Ask the demo questions in real time and split voice-to-voice into its five parts.

    Example, with a loudspeaker before the microphone: appliance bench latency --live --mouth "USB Audio" --ear Webcam
    """
    from appliance.bench import latency as bench
    from appliance.cli.printer import Printer
    from appliance.config import load
    from appliance.demo import questions

    if live and not (mouth and ear):
        raise UsageError(
            "--live needs a device that speaks (--mouth) and one that listens (--ear)",
            "appliance doctor lists the devices; leave --live out to have files spoken in real time",
        )
    if (mouth or ear) and not live:
        raise UsageError("--mouth and --ear belong to --live", "add --live")
    settings = load(config, None if config else tier)
    if not speculation:
        settings = bench.without_speculation(settings)
    printer = Printer(settings.budget, as_json=as_json, measured=True, turns_as_json=False)
    files = [question.open() for question in questions()]
    if live:
        from appliance.bench.live import run as run_live

        measured = asyncio.run(run_live(settings, files, mouth, ear, repeat=repeat, tell=printer.turn))
        result, out = measured.latency, measured.as_dict()
    else:
        result = asyncio.run(bench.run(settings, files, repeat=repeat, tell=printer.turn))
        out = result.as_dict()
    if not as_json:
        printer.table(result.records)
        if live:
            keys = ("measured_p50", "measured_p95", "measured_minus_own_p50")
            typer.echo("recorded: " + ", ".join(f"{key} {out[key]} ms" for key in keys), err=True)
    if report is not None:
        from appliance.bench.report import write_latency

        write_latency(report, result)
    print(json.dumps(out))
