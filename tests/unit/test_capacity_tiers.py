"""The tier files: each loads strictly, names models that exist, and its KV sum fits the GPU it names."""

from dataclasses import replace
from pathlib import Path

import pytest

from appliance.capacity.catalogue import lookup
from appliance.capacity.guide import gpu
from appliance.config import Config, load, tiers
from appliance.models.manifest import load_manifest
from appliance.models.shelf import Shelf
from appliance.setup.sums import tier_sum

ALL = ("tiny", "starter", "desktop", "entry", "balanced", "recommended", "pro", "flagship")


def test_all_eight_tiers_are_there_smallest_first() -> None:
    assert tiers() == ALL


@pytest.mark.parametrize("tier", ALL)
def test_a_tier_loads_and_names_what_exists(tier: str) -> None:
    config = load(tier=tier)
    assert config.tier == tier
    assert config.summary
    manifest = load_manifest()
    for model in config.models.ids():
        assert model in manifest.models
    assert manifest.models[config.models.llm].kind == "llm"
    assert lookup(config.models.llm).context_tokens >= config.llm.share_tokens
    assert config.budget.total_ms <= config.objectives.v2v_ms_p95


@pytest.mark.parametrize("tier", ALL)
def test_a_tiers_sum_fits_what_it_names(tier: str, tmp_path: Path) -> None:
    config = load(tier=tier)
    shelf = Shelf(tmp_path)  # an empty shelf: the catalogue's geometry decides, as at set-up
    if config.gpu:
        total = tier_sum(config, gpu(config.gpu).memory_bytes, shelf=shelf)
    else:
        # Two cores come with four gigabytes at least, eight with sixteen; half is the appliance's by default.
        total = tier_sum(config, 8e9 if tier == "desktop" else 2e9, shelf=shelf)
    assert total.memory.sessions >= config.llm.sessions
    assert total.cap.sessions == config.llm.sessions
    assert total.cap.limited_by == "config"


@pytest.mark.parametrize(
    ("tier", "model", "name", "sessions"),
    [
        ("entry", "Gemma 3 4B", "RTX 4090", 10),
        ("balanced", "Gemma 3 12B", "RTX 4090", 10),
        ("recommended", "Gemma 3 27B", "RTX 6000 Ada", 10),
        ("pro", "Llama 3.3 70B", "H100", 10),
        ("flagship", "Llama 4 Scout 109B", "H200", 16),
    ],
)
def test_the_guides_tiers(tier: str, model: str, name: str, sessions: int) -> None:
    config = load(tier=tier)
    assert lookup(config.models.llm).name == model
    assert config.gpu == name
    assert (config.llm.share_tokens, config.llm.sessions) == (8192, sessions)
    assert config.llm.gpu_layers > 0


def test_a_config_that_asks_for_more_than_there_is_says_so() -> None:
    config: Config = load(tier="pro")
    greedy = replace(config, llm=replace(config.llm, sessions=200))
    total = tier_sum(greedy, gpu("H100").memory_bytes)
    assert total.cap.limited_by == "memory"
    assert total.cap.sessions < 200
    tiny = tier_sum(config, 40e9)
    assert tiny.cap.sessions == 0
    assert tiny.cap.short_bytes > 1e9


def test_a_fallback_model_takes_its_place_in_the_sum() -> None:
    config: Config = load(tier="starter")
    small = replace(config, models=replace(config.models, llm_small="smollm2-135m"))
    alone, both = tier_sum(config, 4e9), tier_sum(small, 4e9)
    assert not any("fallback LLM" in line for line in alone.memory.lines)
    assert any("fallback LLM" in line for line in both.memory.lines)
    assert 0 < both.memory.sessions < alone.memory.sessions
