"""`appliance plan` as a person and a script meet it: tables, JSON keys, errors with a hint, under a second."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from appliance.cli.plan import app, parse_bytes
from appliance.errors import ApplianceError, UsageError
from tests.fakes.toy_gguf import write_toy


def plan(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    app(list(words), standalone_mode=False)
    return capsys.readouterr().out


def plan_json(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(plan(capsys, *words, "--json"))
    return answer


def test_fleet_reproduces_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    answer = plan_json(capsys, "fleet", "--monthly-users", "1000000")
    assert {key: answer[key] for key in ("daily_users", "sessions_per_day", "peak_sessions_per_hour")} == {
        "daily_users": 200_000, "sessions_per_day": 300_000, "peak_sessions_per_hour": 30_000,
    }  # fmt: skip
    assert round(answer["arrivals_per_s"], 2) == 8.33
    assert answer["live_sessions"] == 2000
    assert answer["in_flight"] == 150
    assert answer["kv_bytes_per_token"] == 131_072
    assert round(answer["kv_gib_per_request"], 3) == 0.488
    assert round(answer["kv_gib_total"], 1) == 73.2
    assert round(answer["decode_steps_per_s"]) == 94
    assert (answer["gpus_for_memory"], answer["gpus"]) == (2, 3)
    table = plan(capsys, "fleet")
    for figure in ("200,000", "8.33", "131,072", "0.488 GiB", "73.2 GiB", "62.5%", "93.9"):
        assert figure in table


def test_every_assumption_of_fleet_is_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    answer = plan_json(capsys, "fleet", "--session-s", "120", "--llm-s", "3", "--price-per-hour", "2.5")
    assert answer["live_sessions"] == 1000
    assert answer["in_flight"] == 150
    assert answer["cost_per_hour"] == 7.5


def test_tts(capsys: pytest.CaptureFixture[str]) -> None:
    answer = plan_json(capsys, "tts", "--safe-capacity", "1", "--target", "100", "--price-per-hour", "1.006")
    assert answer["replicas"] == 140
    assert answer["replicas_by_utilisation"] == 167
    assert answer["cost_per_hour"] == 140.84
    assert "140.84" in plan(capsys, "tts", "--safe-capacity", "1", "--target", "100", "--price-per-hour", "1.006")


def test_tiers_print_the_whole_guide(capsys: pytest.CaptureFixture[str]) -> None:
    answer = plan_json(capsys, "tiers")
    assert [tier["name"] for tier in answer["tiers"]] == ["Entry", "Balanced", "Recommended", "Pro", "Flagship"]
    assert answer["tiers"][1]["fits"]["gemma-3-12b"][0] == "RTX 4090"
    assert len(answer["llm"]) == 6
    assert len(answer["asr"]) == 4
    assert len(answer["tts"]) == 6
    assert len(answer["gpus"]) == 6
    assert len(answer["host"]) == 5
    table = plan(capsys, "tiers")
    for words in ("Gemma 3 27B", "Qwen3-ASR 1.7B", "VoxCPM2", "MI300X", "PCIe", "2.95", "bandwidth"):
        assert words in table


def test_kv_of_a_name_and_of_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    answer = plan_json(capsys, "kv", "Llama 3.1 8B", "--context", "8192", "--sessions", "10", "--kv-type", "f16")
    assert answer["bytes_per_cell"] == 131_072
    assert answer["cells"] == 81_920
    assert answer["kv_bytes"] == 81_920 * 131_072
    assert answer["sessions"] == 10
    assert {"compute_bytes", "weights_bytes", "limited_by"} <= set(answer)
    toy = write_toy(tmp_path / "toy.gguf", "gemma3", layers=6, window=64)
    answer = plan_json(capsys, "kv", str(toy), "--context", "512", "--sessions", "4")
    assert (answer["cells"], answer["window_cells"]) == (2048, 768)
    mixed = plan_json(capsys, "kv", "qwen3-4b", "--kv-type", "q8_0,f16")
    assert mixed["bytes_per_cell"] == 36 * (1024 // 32 * 34 + 1024 * 2)


def test_kv_says_how_many_fit(capsys: pytest.CaptureFixture[str]) -> None:
    answer = plan_json(capsys, "kv", "gemma-3-4b", "--memory", "24GB")
    assert answer["limited_by"] == "memory"
    assert answer["sessions"] > 10
    assert "sessions by memory" in plan(capsys, "kv", "gemma-3-4b", "--memory", "24GB")


@pytest.mark.parametrize("tier", ["tiny", "starter", "entry", "flagship"])
def test_kv_of_a_tier_is_the_limiters_sum(capsys: pytest.CaptureFixture[str], tier: str) -> None:
    answer = plan_json(capsys, "kv", "--config", tier)
    assert {"bytes_per_cell", "cells", "kv_bytes", "compute_bytes", "weights_bytes", "sessions", "limited_by"} <= set(
        answer
    )
    assert answer["sessions"] > 0
    text = plan(capsys, "kv", "--config", tier)
    for term in ("LLM weights", "ASR", "TTS", "compute and output buffers", "reserve", "left for K/V", "in all"):
        assert term in text


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["fleet", "--monthly-users", "0"], "monthly users"),
        (["fleet", "--utilisation", "1"], "utilisation"),
        (["fleet", "--turn-s", "-4"], "turn s"),
        (["tts", "--safe-capacity", "0", "--target", "5"], "safe capacity"),
        (["kv", "gpt-9"], "no model called 'gpt-9'"),
        (["kv", "absent.gguf"], "no model file"),
        (["kv"], "no model is named"),
        (["kv", "qwen3-4b", "--config", "tiny"], "not both"),
        (["kv", "qwen3-4b", "--sessions", "0"], "at least 1"),
        (["kv", "qwen3-4b", "--kv-type", "q7"], "q7"),
        (["kv", "qwen3-4b", "--memory", "much"], "no amount of memory"),
        (["kv", "--config", "gigantic"], "gigantic"),
    ],
)
def test_nonsense_is_an_error_with_a_hint(words: list[str], what: str) -> None:
    with pytest.raises(ApplianceError, match=what) as refused:
        app(words, standalone_mode=False)
    assert refused.value.hint
    assert refused.value.exit_code in {2, 3}


def test_amounts_of_memory() -> None:
    assert [parse_bytes(text) for text in ("24GB", "16 GiB", "24e9", "500mb", "1TB")] == [
        24e9, 16 * 2**30, 24e9, 5e8, 1e12,
    ]  # fmt: skip
    for text in ("", "GB", "-3GB", "nan", "1e30"):
        with pytest.raises(UsageError):
            parse_bytes(text)


def test_a_fleet_question_takes_less_than_a_second() -> None:
    code = "from appliance.cli.plan import app; app(['fleet', '--json'])"
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "80"}
    )
    # CPU time: how long it waits for a core on a busy machine is not the planner's doing.
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 1.0
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["live_sessions"] == 2000
    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=False
    ).stderr
    for heavy in ("numpy", "llama_cpp", "onnxruntime", "ctranslate2", "gguf"):
        assert f" {heavy}\n" not in loaded
