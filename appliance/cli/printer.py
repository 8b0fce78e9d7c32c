"""What `demo` and `converse` print: each turn with its waterfall, and the table at the end.

People read it on stderr and stdout; with `--json` stdout carries one object a turn and nothing else.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from appliance.events import TurnRecord
from appliance.telemetry.spans import KEYS, Budget, missed, share_in_budget, summary, waterfall


class Printer:
    """`measured` False: the input was not paced, so times would mean nothing and none are shown."""

    def __init__(self, budget: Budget, *, as_json: bool, measured: bool, turns_as_json: bool = True) -> None:
        self._budget = budget
        self._json = as_json
        self._measured = measured
        self._turns_as_json = turns_as_json
        self._out = Console(stderr=as_json or not turns_as_json, highlight=False)

    def turn(self, record: TurnRecord) -> None:
        if self._json and not self._turns_as_json:
            return
        if self._json:
            print(record_line(record), flush=True)
            return
        self._out.print(f"\n[bold]{record.turn}[/]  heard    ", record.heard, sep="", markup=True)
        self._out.print("   answered ", record.spoken, sep="", markup=False)
        if record.interrupted:
            self._out.print("   (interrupted)")
        if record.ms is not None:
            self._out.print(waterfall(record.ms, self._budget, min(60, self._out.width - 20)))
            for line in missed(record, self._budget):
                self._out.print(f"   over: {line}", markup=False)

    def end(self, records: Sequence[TurnRecord], out: Path | None) -> None:
        totals = summary(records, self._budget)
        if not self._json:
            self.table(records)
        print(json.dumps({"summary": totals}), flush=True)
        if out is not None and records:
            print(f"The answers were written to {out}", file=sys.stderr)

    def table(self, records: Sequence[TurnRecord]) -> None:
        """p50, p95, budget and share within it, of each part."""
        totals = summary(records, self._budget)
        timed = [r.ms for r in records if r.ms is not None]
        if timed:
            table = Table(title="Latency in ms, from the last word to the first sound")
            for column in ("", "p50", "p95", "budget", "within"):
                table.add_column(column, justify="left" if not column else "right")
            p50, p95 = totals["p50"], totals["p95"]
            assert isinstance(p50, dict)
            assert isinstance(p95, dict)
            for key in KEYS:
                share = share_in_budget(timed, self._budget, key)
                table.add_row(
                    key.replace("_", "-"),
                    f"{p50[key]:.0f}",
                    f"{p95[key]:.0f}",
                    f"{self._budget.of(key):.0f}",
                    "" if share is None else f"{share:.0%}",
                )
            self._out.print()
            self._out.print(table)
        elif records and not self._measured:
            self._out.print("\nLatency was not measured: --fast does not wait for real time.")


def record_line(record: TurnRecord) -> str:
    """The JSON object of one turn, on one line; `ms` holds nulls where time was not measured."""
    parts = record.ms.as_dict() if record.ms else dict.fromkeys(KEYS)
    return json.dumps(
        {
            "turn": record.turn,
            "heard": record.heard,
            "reply": record.reply,
            "spoken": record.spoken,
            "interrupted": record.interrupted,
            "ms": parts,
        },
        ensure_ascii=False,
    )
