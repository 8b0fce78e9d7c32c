"""`appliance demo` and `appliance converse`: a spoken conversation over files, real in every stage."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from appliance.audio.files import AudioFile
    from appliance.config import Config

CONFIG = typer.Option(None, "--config", metavar="FILE", help="A TOML file layered over its tier.")
TIER = typer.Option(None, "--tier", metavar="NAME", help="tiny, starter, desktop, …")
JSON = typer.Option(False, "--json", help="One JSON object a turn on stdout, the summary last.")
FAST = typer.Option(False, "--fast", help="Do not wait for real time; latency is then not measured.")
TUI = typer.Option(False, "--tui", help="Show the screen while it runs.")
DB = typer.Option(None, "--db", metavar="FILE", help="Keep the turns in this store instead of the usual one.")


def converse(
    files: list[Path] = typer.Argument(..., metavar="IN.wav...", help="What the person says, one file after another."),
    out: Path = typer.Option(None, "--out", metavar="OUT.wav", help="Write the answers here."),
    as_json: bool = JSON,
    fast: bool = FAST,
    tui: bool = TUI,
    tier: str = TIER,
    config: Path = CONFIG,
    db: Path = DB,
) -> None:
    """Hold a conversation over your recordings.

    Each file is spoken in real time; the next one follows when the answer has been heard.

    Example: appliance converse question.wav follow-up.flac --out answers.wav --json
    """
    from appliance.audio.files import open_audio
    from appliance.config import load

    opened = [open_audio(path) for path in files]
    _converse(opened, load(config, tier), out, as_json=as_json, fast=fast, tui=tui, db=db)


def demo(
    out: Path = typer.Option(Path("demo-answers.wav"), "--out", metavar="OUT.wav", help="Write the answers here."),
    as_json: bool = JSON,
    fast: bool = FAST,
    tui: bool = TUI,
    tier: str = TIER,
    config: Path = CONFIG,
    db: Path = DB,
) -> None:
    """Ask the bundled recorded questions aloud and show where every millisecond of the answers went.

    Example: appliance demo --tier tiny
    """
    from appliance.config import load
    from appliance.demo import questions

    opened = [question.open() for question in questions()]
    _converse(opened, load(config, tier), out, as_json=as_json, fast=fast, tui=tui, db=db)


def _converse(
    files: "list[AudioFile]",
    config: "Config",
    out: Path | None,
    *,
    as_json: bool,
    fast: bool,
    tui: bool,
    db: Path | None,
) -> None:
    from appliance.cli.printer import Printer
    from appliance.converse import Talk, hold

    for file in files:
        if file.note:
            print(f"note: {file.note}", file=sys.stderr)
    printer = Printer(config.budget, as_json=as_json, measured=not fast)
    talk = Talk(files, out=out, paced=not fast, db=db)
    if tui:
        from appliance.tui.run import with_screen

        records = asyncio.run(with_screen(config, talk))
    else:
        records = asyncio.run(hold(config, talk, printer.turn))
    printer.end(records, out)
    if not records:
        print("note: no speech was heard", file=sys.stderr)
