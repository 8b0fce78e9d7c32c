"""How `appliance plan` looks on a terminal: tables of figures that `appliance.capacity` worked out."""

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from appliance.capacity import guide
from appliance.capacity.catalogue import lookup
from appliance.capacity.fleet import FleetAssumptions, FleetPlan
from appliance.capacity.kv import KvPlan
from appliance.capacity.text import count, plain_size
from appliance.capacity.tts import TtsPlan


def heading(text: str) -> None:
    Console(highlight=False).print(f"[bold]{text}[/bold]")


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for i, column in enumerate(columns):
        # The first column names the row; the others are figures.
        table.add_column(column, justify="left" if i == 0 else "right", overflow="fold")
    return table


def print_tiers(plan: KvPlan) -> None:
    console = Console(highlight=False)
    console.print(f"{plan.sessions} sessions of {count(plan.context_tokens)} tokens; weights in Q4_K_M.\n")
    console.print(_llm_table(plan))
    for title, rows in (("ASR, GB", guide.ASRS), ("TTS, GB", guide.TTSS)):
        table = _table(f"\n{title}", "model", "weights", "10 sessions", "total", "")
        for row in rows:
            table.add_row(
                row.name,
                f"{row.weights_gb:g}",
                f"{row.sessions_gb:g}",
                f"{row.total_gb:g}" if row.total_gb else "-",
                row.note,
            )
        console.print(table)
    console.print(_tier_table(plan))
    table = _table("\nGPUs", "GPU", "memory GB", "bandwidth GB/s")
    for gpu in guide.GPUS:
        table.add_row(gpu.name, f"{gpu.memory_bytes / 1e9:g}", f"{gpu.bandwidth_bytes_s / 1e9:,.0f}")
    console.print(table)
    table = _table("\nHost", "what", "minimum", "stable")
    for host in guide.HOST:
        table.add_row(host.what, host.minimum, host.stable)
    console.print(table)
    console.print()
    for rule in guide.RULES:
        console.print(rule)


def _llm_table(plan: KvPlan) -> Table:
    table = _table(
        "LLM, GB", "model", "guide: weights", "K/V", "total", "exact: weights", "K/V f16", "K/V q8_0", "total f16"
    )
    for row in guide.LLMS:
        exact = guide.exact(row.model, plan)
        table.add_row(
            row.name,
            f"{row.weights_gb:g}",
            f"{row.kv_gb:g}",
            f"{row.total_gb:g}",
            f"{exact.weights_bytes / 1e9:.2f}",
            f"{exact.kv_bytes / 1e9:.2f}",
            f"{exact.kv_q8_bytes / 1e9:.2f}",
            f"{exact.total_bytes / 1e9:.1f}",
        )
    table.caption = "exact total: with whisper large-v3, a voice and the driver on the same GPU"
    table.caption_justify = "left"
    return table


def _tier_table(plan: KvPlan) -> Table:
    table = _table("\nTiers", "tier", "LLM", "guide: minimum", "stable", "really fits (f16)", "(q8_0)")
    for tier in guide.TIERS:
        for model in tier.models:
            exact = guide.exact(model, plan)
            table.add_row(
                tier.name,
                lookup(model).name,
                tier.minimum,
                tier.stable,
                _smallest(exact.fits),
                _smallest(exact.fits_q8),
            )
    return table


def _smallest(fits: tuple[str, ...]) -> str:
    return f"{fits[0]} and up" if fits else "none"


def tiers_json(plan: KvPlan) -> dict[str, Any]:
    exact = {row.model: guide.exact(row.model, plan) for row in guide.LLMS}
    return {
        "context": plan.context_tokens,
        "sessions": plan.sessions,
        "llm": [{**asdict(row), "exact": asdict(exact[row.model])} for row in guide.LLMS],
        "asr": [asdict(row) for row in guide.ASRS],
        "tts": [asdict(row) for row in guide.TTSS],
        "tiers": [
            {
                **asdict(tier),
                "fits": {model: exact[model].fits for model in tier.models},
                "fits_q8": {model: exact[model].fits_q8 for model in tier.models},
            }
            for tier in guide.TIERS
        ],
        "gpus": [asdict(gpu) for gpu in guide.GPUS],
        "host": [asdict(host) for host in guide.HOST],
        "rules": list(guide.RULES),
    }


def print_fleet(a: FleetAssumptions, plan: FleetPlan) -> None:
    console = Console(highlight=False)
    table = _table("", "step", "from", "result")
    llm = plan.pools[1]
    rows = (
        ("daily users", f"{count(a.monthly_users)} a month × {a.daily_share:.0%}", count(plan.daily_users)),
        ("sessions a day", f"× {a.sessions_per_user:g}", count(plan.sessions_per_day)),
        ("peak hour", f"{a.peak_hour_share:.0%} of the day", f"{count(plan.peak_sessions_per_hour)} an hour"),
        ("arrival rate", "/ 3,600 s", f"{plan.arrivals_per_s:.2f} a second"),
        ("live sessions", f"L = λ W, W = {a.session_s:g} s", count(plan.live_sessions)),
        ("LLM duty cycle", f"{a.llm_s:g} s of a {a.turn_s:g} s turn", f"{plan.llm_duty:.1%}"),
        ("requests in flight", f"{count(plan.live_sessions)} × {plan.llm_duty:g}", f"{plan.in_flight:,.1f}"),
        (
            "KV a token",
            f"2 × {a.layers} × {a.heads_kv} × {a.head_length} × {a.kv_element_bytes:g} bytes",
            f"{count(plan.kv_bytes_per_token)} bytes",
        ),
        ("KV a request", f"{count(a.tokens_per_request)} tokens", f"{plan.kv_gib_per_request:.3f} GiB"),
        ("KV in all", f"{plan.in_flight:,.1f} requests", f"{plan.kv_gib_total:.1f} GiB"),
        (
            "with a shared prefix",
            f"{count(a.shared_prefix_tokens)} of {count(a.tokens_per_request)} tokens once",
            f"{plan.kv_gib_total_shared:.1f} GiB, {plan.shared_saving:.1%} less a request",
        ),
        (
            "decode steps a second",
            f"{plain_size(a.bandwidth_bytes_s)}/s / (weights + {plan.in_flight / plan.gpus_for_memory:,.0f} × K/V)",
            f"{plan.decode_steps_per_s:.1f}",
        ),
        ("GPUs for memory", f"{plain_size(a.gpu_kv_bytes)} for K/V on each", count(plan.gpus_for_memory)),
        ("GPUs for speed", f"{a.tokens_per_s:g} tokens a second each", count(plan.gpus_for_speed)),
        ("GPUs", f"at {a.utilisation:.0%}", count(plan.gpus)),
        (
            "routing",
            f"{a.routed_share:.0%} of turns to a model of {a.routed_size:.0%} the size",
            f"{plan.routed_in_flight_large:,.1f} in flight on the large one",
        ),
        ("an answer of 400 tokens", f"at {a.tokens_per_s:g} tokens/s", f"holds its K/V {plan.answer_hold_s:.1f} s"),
        (
            "rule of thumb",
            f"{a.peak_ratio:.1%} at once, {a.sessions_per_gpu:g} a GPU",
            f"{count(plan.simple_rule_gpus)} GPUs",
        ),
        ("waiting", f"ρ / (1 - ρ) at {a.utilisation:.0%}", f"{llm.waiting:.2f} service times"),
    )
    for row in rows:
        table.add_row(*row)
    if a.price_per_hour:
        table.add_row("cost", f"{a.price_per_hour:g} a GPU and hour", f"{plan.cost_per_hour:,.2f} an hour")
    console.print(table)
    pools = _table("\nPools, each on its own", "pool", "busy", "duty", f"workers at {a.utilisation:.0%}")
    for pool in plan.pools:
        pools.add_row(pool.name, f"{pool.busy:,.1f}", f"{pool.duty:.1%}", count(pool.replicas))
    console.print(pools)


def print_tts(plan: TtsPlan, target: float, headroom: float, utilisation: float) -> None:
    table = _table("", "way", "replicas", "cost an hour")
    table.add_row(f"{target:g} × {headroom:g}", count(plan.replicas), f"{plan.cost_per_hour:,.2f}")
    table.add_row(
        f"{target:g} / {utilisation:.0%}",
        count(plan.replicas_by_utilisation),
        f"{plan.cost_per_hour_by_utilisation:,.2f}",
    )
    Console(highlight=False).print(table)
