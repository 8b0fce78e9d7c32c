"""`appliance bench asr`: recognition time and word errors beside the stock way, on recordings with known words."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer


def asr(
    baseline: Annotated[bool, typer.Option(help="Also run the stock transcribe() on each clip.")] = True,
    limit: Annotated[int, typer.Option(min=0, help="Only the first N clips; 0: all.")] = 0,
    tier: Annotated[str, typer.Option(metavar="NAME", help="tiny, starter, …")] = "starter",
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="A TOML file instead of a tier.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Only the JSON line.")] = False,
) -> None:
    """Word error rate and time, in alternating pairs with stock whisper. Example: appliance bench asr --tier tiny"""
    from rich.console import Console

    from appliance.bench import asr as bench
    from appliance.config import load
    from appliance.models.shelf import Shelf

    settings, shelf = load(config, None if config else tier), Shelf()
    console = Console(stderr=True, highlight=False)
    with console.status("loading") as status:
        tell: Callable[[str], object] = status.update if console.is_terminal and not as_json else (lambda _: None)
        clips = bench.clips(shelf.folder)
        clips = clips[:limit] if limit else clips
        folder = shelf.folder(settings.models.asr)
        result = asyncio.run(bench.run(folder, settings.asr, clips, baseline=baseline, tell=tell))
    rows = result.pop("rows")
    if not as_json:
        _table(console, rows, result)
    print(json.dumps(result))


def _table(console: Any, rows: list[dict[str, Any]], result: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(title=f"{result['clips']} clips, word error rate {result['wer']} %")
    for title in ("clip", "audio ms", "ms", "stock ms", "heard"):
        table.add_column(title, justify="left" if title in ("clip", "heard") else "right")
    for row in rows:
        stock = f"{row['stock_ms']:.0f}" if "stock_heard" in row else ""
        heard = row["heard"] or f"({row['reason']})"
        table.add_row(row["clip"], str(row["audio_ms"]), f"{row['ours_ms']:.0f}", stock, heard)
    console.print(table)
    if result["ratio"] is not None:
        console.print(
            f"Stock: word error rate {result['baseline_wer']} %. Time here over stock, median: {result['ratio']}."
        )
