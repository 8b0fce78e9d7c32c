"""The five parts add up, percentiles are measured values, and the printed bars tell the truth."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from appliance.events import PARTS, LatencyParts, Speculation, TurnRecord
from appliance.telemetry.spans import (
    KEYS,
    Budget,
    latency_parts,
    missed,
    percentile,
    share_in_budget,
    summary,
    waterfall,
)

instants = st.floats(0, 1e5)
maybe = st.none() | instants


def record(ms: LatencyParts | None, **changes: object) -> TurnRecord:
    values = {"started": "2026-01-01T00:00:00+00:00", "heard": "a", "reply": "b", "spoken": "b", "interrupted": False}
    return TurnRecord(session="s", turn=1, ms=ms, **{**values, **changes})  # type: ignore[arg-type]


@given(instants, instants, maybe, maybe, maybe, instants)
def test_parts_are_never_negative_and_add_up_to_voice_to_voice(a, b, c, d, e, f) -> None:
    parts = latency_parts(a, b, c, d, e, f)
    assert all(getattr(parts, p) >= 0 for p in PARTS)
    assert parts.voice_to_voice == pytest.approx(max(0.0, f - a) * 1000, abs=1e-4)
    shown = parts.as_dict()
    assert round(sum(shown[p] for p in PARTS), 1) == shown["voice_to_voice"]


def test_work_that_was_ready_early_costs_nothing() -> None:
    parts = latency_parts(10.0, 10.2, 10.15, 10.18, 10.19, 10.23)
    assert parts.as_dict() == pytest.approx(
        {"endpoint": 200, "asr": 0, "llm": 0, "tts": 0, "output": 30, "voice_to_voice": 230}
    )


def test_a_step_that_did_not_happen_costs_nothing() -> None:
    parts = latency_parts(1.0, 1.3, 1.4, None, 1.5, 1.52)
    assert parts.as_dict()["llm"] == 0
    assert parts.as_dict()["tts"] == pytest.approx(100)


def test_percentiles_are_nearest_rank() -> None:
    assert percentile([], 50) is None
    assert percentile([7], 95) == 7
    assert percentile(range(1, 101), 95) == 95
    assert percentile([4, 1, 3, 2], 50) == 2
    assert percentile(range(1, 9), 95) == 8


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0, 100))
def test_a_percentile_is_a_measured_value_that_enough_values_do_not_exceed(values: list[float], percent: float) -> None:
    found = percentile(values, percent)
    assert found in values
    assert sum(v <= found for v in values) >= percent / 100 * len(values) - 1e-6


def test_summary_has_the_six_keys_and_counts_untimed_turns() -> None:
    one = LatencyParts(200, 100, 100, 50, 20)
    two = LatencyParts(600, 100, 100, 50, 20)
    out = summary([record(one), record(two), record(None)], Budget())
    assert (out["turns"], out["measured"], out["in_budget"]) == (3, 2, 0.5)
    assert tuple(out["p50"]) == tuple(out["p95"]) == KEYS  # type: ignore[arg-type]
    assert out["p95"]["voice_to_voice"] == 870  # type: ignore[index]
    assert json.loads(json.dumps(summary([])))["p50"]["llm"] is None


def test_a_share_counts_a_turn_at_its_budget_as_inside() -> None:
    turns = [LatencyParts(300, 0, 0, 0, 0), LatencyParts(301, 0, 0, 0, 0)]
    assert share_in_budget(turns, Budget(), "endpoint") == 0.5
    assert share_in_budget([], Budget()) is None


def test_what_missed_is_said_largest_first_and_with_the_reason_that_is_known() -> None:
    slow = record(LatencyParts(620, 180, 200, 0, 10), end_reason="silence", speculation=Speculation(tries=1))
    assert missed(slow, Budget()) == [
        "endpoint +320 ms: end of turn unsure",
        "asr +30 ms: the early work did not stand",
    ]
    assert missed(record(LatencyParts(1, 1, 1, 1, 1)), Budget()) == []
    assert missed(record(None), Budget()) == []


@given(st.tuples(*[st.floats(0, 5000)] * 5), st.integers(40, 200))
def test_the_waterfall_fits_its_width_and_marks_what_is_over(values: tuple[float, ...], width: int) -> None:
    parts, budget = LatencyParts(*values), Budget()
    lines = waterfall(parts, budget, width).plain.split("\n")
    assert len(lines) == 6
    assert all(len(line) <= max(width, 44) for line in lines)
    for line, part in zip(lines, PARTS, strict=False):
        assert ("▲" in line) == (getattr(parts, part) - budget.of(part) > 0.5)


def test_the_waterfall_says_the_same_without_colour() -> None:
    console = Console(width=90, color_system=None, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(waterfall(LatencyParts(620, 0, 310, 100, 25), Budget(), 90))
    text = console.export_text()
    assert "▲ +320" in text
    assert "▲ +110" in text
    assert "│" in text
    assert "\x1b" not in text
