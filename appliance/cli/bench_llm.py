"""`appliance bench llm`: the language model under several conversations at once."""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from appliance.errors import UsageError


def llm(
    sessions: Annotated[str, typer.Option(metavar="N,N,…", help="How many conversations at once.")] = "1,2,4,8",
    prefix: Annotated[int, typer.Option(min=0, help="Tokens of the shared system prompt; 0: the tier's own.")] = 1500,
    turns: Annotated[int, typer.Option(min=1, help="Turns of each conversation.")] = 2,
    tokens: Annotated[int, typer.Option(min=2, help="Longest answer, in tokens.")] = 32,
    baseline: Annotated[bool, typer.Option(help="Also run the stock engine behind a lock, same prompts.")] = False,
    tier: Annotated[str, typer.Option(metavar="NAME", help="tiny, starter, …")] = "starter",
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="A TOML file instead of a tier.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Only the JSON line.")] = False,
) -> None:
    """Tokens a second, time to first token and overhead, all sessions asking at once.

    Example: appliance bench llm --sessions 1,8 --tier tiny --baseline
    """
    from rich.console import Console

    from appliance.bench import llm as bench
    from appliance.config import load
    from appliance.engines.llama.requantise import fast_weights
    from appliance.models.shelf import Shelf

    settings = load(config, None if config else tier)
    wanted = bench.LlmBenchSettings(_counts(sessions), prefix, turns, tokens, baseline)
    console = Console(stderr=True, highlight=False)
    with console.status("loading") as status:
        tell: Callable[[str], object] = status.update if console.is_terminal and not as_json else (lambda _: None)
        weights = fast_weights(Shelf().path(settings.models.llm), settings.llm.requantise)  # the baseline's too
        result = asyncio.run(bench.run(weights, settings.llm, wanted, tell))
    if not as_json:
        _table(console, result, baseline)
    print(json.dumps(result), file=sys.stdout)


def _counts(text: str) -> tuple[int, ...]:
    try:
        counts = tuple(int(part) for part in text.split(","))
    except ValueError:
        counts = ()
    if not counts or min(counts) < 1:
        raise UsageError(f"--sessions {text!r} is no list of numbers", "for example: --sessions 1,2,4,8")
    return counts


def _table(console: Any, result: dict[str, Any], baseline: bool) -> None:
    from rich.table import Table

    table = Table(title=f"{result['model']}, {result['threads']} threads")
    names = ["tokens_per_s", "ttft_ms_p50", "ttft_ms_p95", "inter_token_ms_p95", "overhead_ms_per_step"]
    if baseline:
        names += ["baseline_tokens_per_s", "baseline_ttft_ms_p95", "tokens_per_s_ratio", "ttft_ms_p95_ratio"]
    for title in ("sessions", *(name.replace("_", " ") for name in names)):
        table.add_column(title, justify="right")
    for count, row in result["sessions"].items():
        table.add_row(count, *("" if row[name] is None else f"{row[name]:g}" for name in names))
    console.print(table)
    console.print(
        f"A new session behind {result['prefix_tokens']} shared tokens: first token after "
        f"{result['prefix_ttft_ms']} ms, {result['unshared_ttft_ms']} ms if it read them itself "
        f"(ratio {result['prefix_ttft_ratio']})."
    )
    long = result["long"]
    console.print(f"First token in turn 2: {long['turn2_ttft_ms']} ms, in turn 20: {long['turn20_ttft_ms']} ms.")
