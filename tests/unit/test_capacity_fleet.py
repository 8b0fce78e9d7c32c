"""Every figure of the published capacity estimates: users to hardware, replicas and money, the sizing guide."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.capacity import guide
from appliance.capacity.fleet import (
    ASSUMPTION_HELP,
    FleetAssumptions,
    decode_steps_per_s,
    hold_s,
    kv_bytes_per_token,
    live_sessions,
    plan_fleet,
    simple_rule,
    waiting,
)
from appliance.capacity.kv import KvPlan
from appliance.capacity.tts import LoadPoint, SafeLimits, is_safe, plan_tts, safe_capacity
from appliance.errors import UsageError


def test_from_users_to_hardware() -> None:
    plan = plan_fleet(FleetAssumptions())
    assert plan.daily_users == 200_000
    assert plan.sessions_per_day == 300_000
    assert plan.peak_sessions_per_hour == 30_000
    assert plan.arrivals_per_s == pytest.approx(8.33, abs=0.004)
    assert plan.live_sessions == pytest.approx(2000)
    assert plan.llm_duty == pytest.approx(0.075)
    assert plan.in_flight == pytest.approx(150)
    assert plan.kv_bytes_per_token == 131_072
    assert plan.kv_gib_per_request == pytest.approx(0.488, abs=0.0005)
    assert plan.kv_gib_total == pytest.approx(73.2, abs=0.05)
    assert plan.decode_steps_per_s == pytest.approx(94, abs=0.5)
    assert plan.gpus_for_memory == 2
    assert plan.gpus == 3


def test_a_shared_prefix_is_held_once() -> None:
    plan = plan_fleet(FleetAssumptions())
    assert plan.shared_private_tokens == 1500
    assert plan.shared_saving == pytest.approx(0.625)
    assert plan.kv_gib_total_shared * 2**30 == pytest.approx((150 * 1500 + 2500) * 131_072)


def test_routing_leaves_30_percent_on_the_large_tier() -> None:
    plan = plan_fleet(FleetAssumptions())
    assert plan.routed_in_flight_large / plan.in_flight == pytest.approx(0.30)


def test_pools_are_sized_apart() -> None:
    pools = {pool.name: pool for pool in plan_fleet(FleetAssumptions(utilisation=0.6)).pools}
    assert pools["llm"].busy == pytest.approx(150)
    assert pools["asr"].busy == pytest.approx(2000 * 0.3 / 20)
    assert pools["tts"].replicas == 134  # ceil(80 / 0.6)


def test_the_single_rules() -> None:
    assert live_sessions(8.3333333, 240) == pytest.approx(2000, abs=0.01)
    assert kv_bytes_per_token(32, 8, 128, 2) == 131_072
    assert decode_steps_per_s(3.35e12, 16e9, 75 * 2000 * 131_072) == pytest.approx(93.9, abs=0.1)
    assert waiting(0.6) == pytest.approx(1.5)
    assert waiting(0.8) == pytest.approx(4)
    assert hold_s(400, 30) == pytest.approx(13.3, abs=0.04)
    assert simple_rule(200_000, 0.01, 100) == 20
    assert simple_rule(200_100, 0.01, 100) == 21


def test_every_assumption_has_a_flag_and_a_help_text() -> None:
    assert {field.name for field in fields(FleetAssumptions)} == set(ASSUMPTION_HELP)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (FleetAssumptions(monthly_users=0), "monthly users"),
        (FleetAssumptions(monthly_users=-5), "monthly users"),
        (FleetAssumptions(monthly_users=float("nan")), "monthly users"),
        (FleetAssumptions(daily_share=1.5), "share"),
        (FleetAssumptions(utilisation=1.0), "utilisation of 1"),
        (FleetAssumptions(utilisation=1.7), "utilisation"),
        (FleetAssumptions(shared_prefix_tokens=4000), "shared prefix"),
        (FleetAssumptions(llm_s=30), "llm cannot be busy"),
        (FleetAssumptions(gpu_kv_bytes=90e9), "do not fit"),
        (FleetAssumptions(weights_bytes=400e9), "cannot read these weights"),
        (FleetAssumptions(layers=0), "layers"),
    ],
)
def test_nonsense_is_refused_with_a_hint(broken: FleetAssumptions, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        plan_fleet(broken)
    assert refused.value.hint


@given(st.floats(1e3, 1e9), st.floats(0.05, 0.95))
def test_more_users_never_need_fewer_gpus(users: float, utilisation: float) -> None:
    fewer = plan_fleet(FleetAssumptions(monthly_users=users, utilisation=utilisation))
    more = plan_fleet(FleetAssumptions(monthly_users=users * 1.5, utilisation=utilisation))
    assert more.gpus >= fewer.gpus >= 1
    assert fewer.gpus >= fewer.gpus_for_memory
    # What was planned does fit: memory at the planned utilisation, and speed.
    kv = fewer.kv_gib_total * 2**30
    assert kv <= fewer.gpus * 57.5e9 * utilisation * (1 + 1e-9) or fewer.gpus == 1


@pytest.mark.parametrize(("target", "replicas"), [(100, 140), (250, 350), (500, 700)])
def test_replicas_with_40_percent_headroom(target: float, replicas: int) -> None:
    assert plan_tts(1, target).replicas == replicas


def test_replicas_by_utilisation_and_their_price() -> None:
    plan = plan_tts(1, 100, price_per_hour=1.006)
    assert plan.replicas_by_utilisation == 167
    assert plan.cost_per_hour == pytest.approx(140.84)
    assert plan_tts(8, 100).replicas == 18  # ceil(17.5)


@pytest.mark.parametrize(
    "numbers",
    [
        {"safe": 0, "target": 100},
        {"safe": 1, "target": 0},
        {"safe": -1, "target": 100},
        {"safe": float("inf"), "target": 100},
        {"safe": 1, "target": 100, "utilisation": 1.0},
        {"safe": 1, "target": 100, "utilisation": 0.0},
        {"safe": 1, "target": 100, "headroom": 0.5},
        {"safe": 1, "target": 100, "price_per_hour": -1.0},
    ],
)
def test_nonsense_replicas_are_refused(numbers: dict[str, float]) -> None:
    with pytest.raises(UsageError) as refused:
        plan_tts(**numbers)
    assert refused.value.hint


def test_safe_means_every_condition_holds() -> None:
    limits = SafeLimits()
    good = LoadPoint(4, 60, 0, 290, 90)
    assert is_safe(good, limits)
    assert is_safe(replace(good, first_audio_ms_p95=300, starvation_ms_p95=100), limits)
    assert not is_safe(replace(good, failed=1), limits)  # 59 of 60 are fewer than 99 %
    assert is_safe(replace(good, requests=100, failed=1), limits)
    assert not is_safe(replace(good, first_audio_ms_p95=301), limits)
    assert not is_safe(replace(good, starvation_ms_p95=101), limits)
    assert not is_safe(replace(good, requests=0), limits)


def test_safe_capacity_stops_at_the_first_unsafe_load() -> None:
    points = [LoadPoint(n, 60, 0, 100 * n, 0) for n in (1, 2, 4, 8)]
    assert safe_capacity(points, SafeLimits()) == 2
    # A lucky measurement above an unsafe one does not count.
    assert safe_capacity([*points, LoadPoint(16, 60, 0, 10, 0)], SafeLimits()) == 2
    assert safe_capacity([LoadPoint(1, 60, 60, 1, 1)], SafeLimits()) == 0
    # A serialised server at 32 in flight.
    assert not is_safe(LoadPoint(32, 60, 0, 105_000, 0), SafeLimits())


def test_the_sizing_guide_as_printed() -> None:
    rows = {row.name: (row.weights_gb, row.kv_gb, row.total_gb) for row in guide.LLMS}
    assert rows == {
        "Gemma 3 4B": (2.5, 8, 11),
        "Gemma 3 12B": (7, 20, 29),
        "Gemma 3 27B": (16, 30, 48),
        "Llama 3.1 8B": (5, 15, 22),
        "Llama 3.3 70B": (40, 40, 84),
        "Llama-4 Scout 109B MoE": (55, 60, 118),
    }
    speech = {row.name: (row.weights_gb, row.sessions_gb, row.total_gb) for row in (*guide.ASRS, *guide.TTSS)}
    assert speech["Qwen3-ASR 1.7B"] == (3.4, 2, 5.5)
    assert speech["Cohere Transcribe 2B"] == (4, 2.5, 6.5)
    assert speech["faster-whisper large v3 int8"] == (1.5, 1.5, 3)
    assert speech["Vosk"][:2] == (0.2, 1)
    assert speech["VoxCPM2"] == (2, 3, 5)
    assert speech["Qwen3-TTS 1.7B"] == (3.4, 4, 7.5)
    assert speech["CosyVoice2"] == (1, 2, 3)
    assert speech["F5-TTS"] == (1.5, 3, 4.5)
    assert speech["Orpheus"] == (2, 2.5, 4.5)
    assert speech["Kokoro or Piper"][0] == 0.3
    tiers = {row.name: (row.minimum, row.stable) for row in guide.TIERS}
    assert tiers == {
        "Entry": ("RTX 4090", "RTX 6000 Ada"),
        "Balanced": ("RTX 6000 Ada", "L40S"),
        "Recommended": ("H100", "MI300X"),
        "Pro": ("MI300X", "H200"),
        "Flagship": ("H200", "MI300X"),
    }
    gpus = {gpu.name: (gpu.memory_bytes / 1e9, gpu.bandwidth_bytes_s / 1e9) for gpu in guide.GPUS}
    assert gpus == {
        "RTX 4090": (24, 1008),
        "RTX 6000 Ada": (48, 960),
        "L40S": (48, 864),
        "H100": (80, 3350),
        "H200": (141, 4800),
        "MI300X": (192, 5300),
    }
    host = {row.what: (row.minimum, row.stable) for row in guide.HOST}
    assert host == {
        "RAM": ("2 × GPU memory", "3 × GPU memory"),
        "NVMe": ("100 GB", "500 GB"),
        "CPU": ("8 cores", "16 cores"),
        "PCIe": ("Gen4 x8", "Gen4-5 x16"),
        "network": ("1 Gbps", "10 Gbps"),
    }


def test_tiers_really_fit_smaller_gpus_than_the_guide_says() -> None:
    plan = KvPlan(8192, 10)
    assert "RTX 4090" in guide.exact("gemma-3-12b", plan).fits  # the guide asks for 48 GB
    assert "RTX 6000 Ada" in guide.exact("gemma-3-27b", plan).fits  # the guide asks for 80
    assert "H100" in guide.exact("llama-3.3-70b", plan).fits  # the guide asks for 192
    scout = guide.exact("llama-4-scout", plan)
    assert "H100" not in scout.fits
    assert "H100" in scout.fits_q8
    assert scout.kv_q8_bytes < scout.kv_bytes
    for row in guide.LLMS:
        assert guide.exact(row.model, plan).kv_bytes < row.kv_gb * 1e9
    assert guide.gpu("H200").memory_bytes == 141e9
