"""`appliance demo` and `appliance converse`: a spoken conversation over files, real in every stage."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from appliance.audio.files import AudioFile
    from appliance.config import Config

Config_ = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="A TOML file layered over its tier.")]
Tier = Annotated[str | None, typer.Option("--tier", metavar="NAME", help="tiny, starter, desktop, …")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a turn on stdout, the summary last.")]
Fast = Annotated[bool, typer.Option("--fast", help="Do not wait for real time; latency is then not measured.")]
Tui = Annotated[bool, typer.Option("--tui", help="Show the screen while it runs.")]
Db = Annotated[Path | None, typer.Option("--db", metavar="FILE", help="Another store than this user's own.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="OUT.wav", help="Write the answers here.")]
Files = Annotated[list[Path], typer.Argument(metavar="IN.wav...", help="What is said, one file after another.")]


def converse(
    files: Files,
    out: Out = None,
    as_json: Json = False,
    fast: Fast = False,
    tui: Tui = False,
    tier: Tier = None,
    config: Config_ = None,
    db: Db = None,
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
    out: Out = Path("demo-answers.wav"),
    as_json: Json = False,
    fast: Fast = False,
    tui: Tui = False,
    tier: Tier = None,
    config: Config_ = None,
    db: Db = None,
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
        records = asyncio.run(hold(config, talk, printer.turn, lambda stage: print(f"{stage} …", file=sys.stderr)))
    printer.end(records, out)
    if not records:
        print("note: no speech was heard", file=sys.stderr)
