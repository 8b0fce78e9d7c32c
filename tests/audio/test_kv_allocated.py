"""The KV arithmetic against llama.cpp itself: what its own log says it allocated.

One process loads every case, because llama.cpp's log callback is global and an assertion in it would end the tests.
"""

import functools
import json
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from appliance.capacity.kv import KvPlan, context_cells, kv_budget
from appliance.config import load
from appliance.engines.llama.gguf import read_geometry
from appliance.setup.sums import tier_sum
from tests.fakes.toy_gguf import ARCHITECTURES, write_toy

MIB = 1 << 20
TOY_PLANS = {
    "pool": KvPlan(512, 4),
    "pool with a prefix": KvPlan(300, 3, prefix_tokens=100, reserved_sequences=1, ubatch_tokens=128),
    "q8_0": KvPlan(512, 4, "q8_0", "q8_0"),
    "q8_0 keys": KvPlan(512, 4, "q8_0", "f16"),
    "streams": KvPlan(512, 4, unified=False),
    "whole windows": KvPlan(512, 4, window_full=True),
    "no flash attention": KvPlan(512, 4, flash_attention=False),
}
PACK_PLANS = {
    "starter's": KvPlan(2048, 4, prefix_tokens=256, reserved_sequences=1),
    "q8_0": KvPlan(1024, 8, "q8_0", "q8_0", reserved_sequences=1),
    "small steps": KvPlan(2048, 4, ubatch_tokens=128),
    "every token's logits": KvPlan(1024, 2, outputs=256, ubatch_tokens=256),
}
PACKS = ("smollm2-135m/SmolLM2-135M-Instruct.Q4_1.gguf", "qwen2.5-coder-0.5b/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf")

ENGINE = """
import json, sys
from appliance.config import load
from appliance.capacity.kv import context_cells
from appliance.engines.llama.binding import Context, Model
from appliance.models.shelf import Shelf
from appliance.setup.sums import kv_plan
for tier in sys.argv[1:]:
    config = load(tier=tier)
    plan = kv_plan(config)
    model = Model(Shelf().path(config.models.llm))
    context = Context(model, config.llm, cells=context_cells(plan), sequences=plan.sequences)
    print(json.dumps({"lines": context.buffer_lines, "cells": context.cells}))
    context.close()
    model.close()
"""
LOADER = """
import ctypes, json, sys
import llama_cpp as l
log = []
@l.llama_log_callback
def say(level, text, user):
    log.append(text.decode(errors="replace"))
l.llama_log_set(say, ctypes.c_void_p(0))
types = {"f16": 1, "q4_0": 2, "q8_0": 8}
for line in sys.stdin:
    case = json.loads(line)
    log.clear()
    model_params = l.llama_model_default_params()
    model_params.n_gpu_layers = 0
    model = l.llama_model_load_from_file(case["path"].encode(), model_params)
    p = l.llama_context_default_params()
    p.n_ctx, p.n_seq_max = case["cells"], case["sequences"]
    p.n_ubatch = p.n_batch = case["ubatch_tokens"]
    p.n_outputs_max = case["outputs"] or case["sequences"]
    p.kv_unified, p.swa_full = case["unified"], case["window_full"]
    p.type_k, p.type_v = types[case["k_type"]], types[case["v_type"]]
    p.flash_attn_type = 1 if case["flash_attention"] else 0
    context = l.llama_init_from_model(model, p)
    print(json.dumps({"log": "".join(log), "made": bool(context)}), flush=True)
    if context:
        l.llama_free(context)
    l.llama_model_free(model)
"""


def _cases(folder: Path, models: Path) -> dict[str, tuple[Path, KvPlan]]:
    cases = {}
    for architecture in ARCHITECTURES:
        path = write_toy(folder / f"{architecture}.gguf", architecture, layers=7)
        for name, plan in TOY_PLANS.items():
            # MLA stores no values of its own, and llama.cpp wants K and V alike there.
            if architecture == "deepseek2" and plan.k_type != plan.v_type:
                continue
            cases[f"{architecture}, {name}"] = (path, plan)
    for pack in PACKS:
        for name, plan in PACK_PLANS.items():
            cases[f"{pack.split('/', maxsplit=1)[0]}, {name}"] = (models / pack, plan)
    return cases


@pytest.fixture(scope="module")
def allocated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, KvPlan, str]]:
    """Case -> file, plan, what llama.cpp logged."""
    cases = _cases(tmp_path_factory.mktemp("toys"), Path(__file__).parents[2] / "models")
    lines = []
    for path, plan in cases.values():
        facts: dict[str, Any] = {**asdict(plan), "path": str(path), "cells": context_cells(plan)}
        lines.append(json.dumps({**facts, "sequences": plan.sequences}))
    done = subprocess.run(
        [sys.executable, "-c", LOADER],
        input="\n".join(lines), capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(cases), f"llama.cpp ended early: {done.stderr[-500:]}"
    found = {}
    for (case, (path, plan)), answer in zip(cases.items(), answers, strict=True):
        assert answer["made"], f"{case}: {answer['log'][-500:]}"
        found[case] = (path, plan, answer["log"])
    return found


_geometry = functools.cache(read_geometry)


def _logged(log: str, what: str) -> float:
    """Bytes of every `… WHAT buffer size = x MiB` line; where a finer line tells K and V apart, that one."""
    return sum(float(size) for size in re.findall(rf"{what} buffer size = +([\d.]+) MiB", log)) * MIB


@pytest.mark.models
def test_kv_and_state_agree_with_llama_cpp_within_2_percent(allocated: dict[str, tuple[Path, KvPlan, str]]) -> None:
    assert len(allocated) == 49
    for case, (path, plan, log) in allocated.items():
        budget = kv_budget(_geometry(path), plan)
        kv, state = _logged(log, "KV"), _logged(log, "RS")
        # The log has two decimals of a MiB.
        assert budget.global_bytes + budget.window_bytes == pytest.approx(kv, rel=0.02, abs=0.011 * MIB), case
        assert budget.state_bytes == pytest.approx(state, rel=0.02, abs=0.006 * MIB), case


@pytest.mark.models
def test_the_whole_sum_of_the_packs_agrees_within_2_percent(allocated: dict[str, tuple[Path, KvPlan, str]]) -> None:
    for case, (path, plan, log) in allocated.items():
        if path.name not in {Path(pack).name for pack in PACKS}:
            continue
        budget = kv_budget(_geometry(path), plan)
        assert budget.compute_bytes == pytest.approx(_logged(log, "compute"), rel=0.10), case
        if plan.outputs:
            continue  # logits for more rows than sequences are made room for at the first step that wants them
        total = sum(_logged(log, what) for what in ("CPU_Mapped model", "KV", "RS", "compute", " output"))
        assert budget.total_bytes == pytest.approx(total, rel=0.02), case


@pytest.mark.models
def test_the_compute_buffer_is_never_taken_for_much_smaller(allocated: dict[str, tuple[Path, KvPlan, str]]) -> None:
    for case, (path, plan, log) in allocated.items():
        predicted, compute = kv_budget(_geometry(path), plan).compute_bytes, _logged(log, "compute")
        assert compute * 0.95 <= predicted <= compute * 1.3, case


@pytest.mark.models
def test_a_tiers_sum_is_what_the_engine_then_allocates() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENGINE, "tiny", "starter"], capture_output=True, text=True, timeout=120, check=False
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == 2, done.stderr[-500:]
    for tier, answer in zip(("tiny", "starter"), answers, strict=True):
        total = tier_sum(load(tier=tier), 4e9)
        budget = kv_budget(total.geometry, total.plan)
        log = "\n".join(answer["lines"])
        assert answer["cells"] == budget.cells
        assert budget.kv_bytes == pytest.approx(_logged(log, "KV"), rel=0.02)
        allocated = sum(_logged(log, what) for what in ("KV", "compute", " output"))
        assert budget.kv_bytes + budget.compute_bytes + budget.output_bytes == pytest.approx(allocated, rel=0.05)
