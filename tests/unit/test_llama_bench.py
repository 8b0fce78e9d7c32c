"""`appliance bench llm` on a toy: every key is there and the sums are sane."""

import asyncio
from pathlib import Path

import pytest

from appliance.bench.llm import LlmBenchSettings, run
from appliance.cli.bench_llm import _counts
from appliance.engines.llama.settings import LlamaSettings
from appliance.errors import UsageError
from tests.fakes.toy_gguf import write_toy


def test_all_keys_of_the_json_line(tmp_path: Path) -> None:
    model = write_toy(tmp_path / "toy.gguf", layers=1)
    settings = LlamaSettings(share_tokens=1024, threads=1, threads_batch=1)
    bench = LlmBenchSettings(sessions=(1, 2), prefix_tokens=200, turns=1, answer_tokens=4, baseline=True)
    result = asyncio.run(run(model, settings, bench))
    for row in result["sessions"].values():
        for key in (
            "tokens_per_s",
            "ttft_ms_p50",
            "ttft_ms_p95",
            "inter_token_ms_p95",
            "baseline_tokens_per_s",
            "baseline_ttft_ms_p95",
            "overhead_ms_per_step",
        ):
            assert row[key] is None or row[key] >= 0, key
    assert set(result["sessions"]) == {"1", "2"}
    assert 0 < result["prefix_ttft_ratio"] < 1
    assert result["cancel_steps"] <= 1
    assert result["long"]["turn20_ttft_ms"] > 0


@pytest.mark.parametrize("text", ["", "a", "1,,2", "0", "-1"])
def test_session_counts_are_checked(text: str) -> None:
    with pytest.raises(UsageError):
        _counts(text)
