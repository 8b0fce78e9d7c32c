"""Set-up's judgement: what fits which machine, by how much it does not, and what is recommended."""

import builtins
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from appliance.capacity.catalogue import lookup
from appliance.capacity.estimate import Speech, asr_bytes, calibration, tts_bytes
from appliance.config import load, tiers
from appliance.models.shelf import Shelf
from appliance.setup import probe as probing
from appliance.setup.fit import differences
from appliance.setup.probe import GpuFacts, Machine, memory, probe
from appliance.setup.verdicts import FITS, NO, TIGHT, Verdict, judge, judge_all, recommend

BOX = Machine("Linux x86_64", 2, 8 * 10**9, 7 * 10**9, 200 * 10**9)
GAMING = replace(
    BOX, cores=16, ram_total_bytes=64 * 10**9, ram_free_bytes=56 * 10**9,
    gpus=(GpuFacts("NVIDIA GeForce RTX 4090", 25_700_000_000, 25_000_000_000, "570"),),
)  # fmt: skip
SERVER = replace(GAMING, gpus=(GpuFacts("NVIDIA H200", 150_000_000_000, 148_000_000_000, "570"),))


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    """Nothing fetched yet."""
    return Shelf(tmp_path / "models")


def verdicts(machine: Machine, shelf: Shelf) -> dict[str, Verdict]:
    return {verdict.name: verdict for verdict in judge_all(machine, shelf)}


def test_two_cores_get_the_starter(shelf: Shelf) -> None:
    found = verdicts(BOX, shelf)
    assert list(found) == list(tiers())
    assert found["starter"].verdict == FITS
    assert found["starter"].sessions >= 1
    assert found["starter"].download_bytes == pytest.approx(712e6, rel=0.02)
    assert found["entry"].verdict == NO
    assert "none was found" in found["entry"].why
    assert recommend(list(found.values())) == "starter"


def test_a_gaming_box_gets_the_12b_model(shelf: Shelf) -> None:
    found = verdicts(GAMING, shelf)
    assert found["balanced"].verdict == FITS
    assert found["balanced"].sessions == 10
    assert found["pro"].verdict == NO
    assert "GB of memory are missing for one session" in found["pro"].why
    assert recommend(list(found.values())) == "balanced"


def test_a_server_gets_the_flagship(shelf: Shelf) -> None:
    found = verdicts(SERVER, shelf)
    assert recommend(list(found.values())) == "flagship"
    assert all(verdict.verdict in {FITS, TIGHT} for verdict in found.values())
    assert found["flagship"].v2v_ms is not None


def test_too_little_memory_says_by_how_much(shelf: Shelf) -> None:
    small = replace(BOX, ram_free_bytes=1_000_000_000)
    verdict = judge("starter", load(tier="starter"), small, shelf)
    assert verdict.verdict == NO
    short = judge("starter", load(tier="starter"), replace(small, ram_free_bytes=4_000_000_000), shelf)
    assert short.verdict != NO
    assert verdict.lines[-1] == verdict.why
    assert recommend(list(verdicts(small, shelf).values())) is None


def test_a_missing_amount_is_enough_when_it_is_added(shelf: Shelf) -> None:
    from appliance.setup.sums import tier_sum

    config = load(tier="starter")
    short = tier_sum(config, 1e9, shelf=shelf).memory.short_bytes
    assert short > 0
    assert tier_sum(config, 1e9 + short, shelf=shelf).memory.sessions >= 1
    assert tier_sum(config, 1e9 + short - 1, shelf=shelf).memory.sessions == 0


def test_too_little_disk_is_a_verdict(shelf: Shelf) -> None:
    verdict = judge("starter", load(tier="starter"), replace(BOX, disk_free_bytes=100_000_000), shelf)
    assert verdict.verdict == NO
    assert "of disk are missing" in verdict.why


def test_a_crowded_gpu_is_tight(shelf: Shelf) -> None:
    crowded = replace(GAMING, gpus=(GpuFacts("NVIDIA GeForce RTX 4090", 25_700_000_000, 15_700_000_000),))
    verdict = judge("balanced", load(tier="balanced"), crowded, shelf)
    assert verdict.verdict == TIGHT
    assert "of 10 sessions" in verdict.why
    assert 1 <= verdict.sessions < 10
    assert differences(load(tier="balanced"), crowded)["llm"]["sessions"] == verdict.sessions


def test_slow_cores_are_told_before_anything_is_fetched(shelf: Shelf) -> None:
    verdict = judge("desktop", load(tier="desktop"), replace(BOX, ram_free_bytes=20 * 10**9), shelf)
    assert verdict.verdict == NO
    assert "ms instead of" in verdict.why


def test_only_what_differs_is_written(shelf: Shelf) -> None:
    assert differences(load(tier="starter"), BOX) == {}
    assert differences(load(tier="desktop"), replace(BOX, cores=4, ram_free_bytes=20 * 10**9)) == {
        "llm": {"threads": 4, "threads_batch": 4}
    }
    one = differences(load(tier="starter"), replace(BOX, cores=1))
    assert one["llm"] == {"threads": 1, "threads_batch": 1}


def test_a_tier_that_was_fetched_needs_nothing_more() -> None:
    shelf = Shelf()
    if shelf.missing(load(tier="tiny").models.ids()):
        pytest.skip("the tiny pack is not here")
    assert judge("tiny", load(tier="tiny"), BOX, shelf).download_bytes == 0


def test_guessed_speeds_meet_the_measured_ones() -> None:
    tiny = calibration(lookup("smollm2-135m"), 2, 0, Speech(75_537_502), Speech(63_201_294))
    starter = calibration(lookup("qwen2.5-coder-0.5b"), 2, 0, Speech(145_217_532), Speech(63_201_294))
    assert tiny.step(1) == pytest.approx(19, rel=0.15)
    assert tiny.step(8) == pytest.approx(67, rel=0.25)
    assert tiny.prefill_tokens_per_s == pytest.approx(190, rel=0.15)
    assert starter.step(1) == pytest.approx(40, rel=0.15)
    assert starter.step(8) == pytest.approx(122, rel=0.15)
    assert starter.prefill_tokens_per_s == pytest.approx(100, rel=0.15)
    gpu = calibration(lookup("llama-3.1-8b"), 16, 1008e9, Speech(1, True), Speech(1, True))
    assert 1e3 / gpu.step(1) == pytest.approx(193, rel=0.2)
    assert 16e3 / gpu.step(16) == pytest.approx(2149, rel=0.2)


def test_resident_speech_models_meet_the_weighed_ones() -> None:
    assert asr_bytes(Speech(145_217_532)) == pytest.approx(403e6, rel=0.15)
    assert asr_bytes(Speech(75_537_502)) == pytest.approx(277e6, rel=0.15)
    assert tts_bytes(Speech(63_201_294)) == pytest.approx(169e6, rel=0.15)
    assert tts_bytes(Speech(92_361_271, heavy=True)) == pytest.approx(301e6, rel=0.15)
    # The guide's row for whisper large v3 in int8 with ten sessions.
    assert asr_bytes(Speech(3_087_000_000, True)) == pytest.approx(3e9, rel=0.1)
    assert asr_bytes(Speech(0)) == 0


def test_the_probe_reads_this_machine(tmp_path: Path) -> None:
    machine = probe(tmp_path / "not" / "there" / "yet")
    assert machine.cores >= 1
    assert machine.ram_total_bytes >= machine.ram_free_bytes > 0
    assert machine.disk_free_bytes > 0
    assert isinstance(machine.gpus, tuple)


def test_memory_within_a_containers_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meminfo, limit, used = tmp_path / "meminfo", tmp_path / "max", tmp_path / "current"
    meminfo.write_text("MemTotal:       16000000 kB\nMemFree: 1 kB\nMemAvailable:    8000000 kB\n")
    monkeypatch.setattr(probing, "_CGROUP_MEMORY", limit)
    monkeypatch.setattr(probing, "_CGROUP_USED", used)
    assert memory(meminfo) == (16_384_000_000, 8_192_000_000)
    limit.write_text("max\n")
    used.write_text("5\n")
    assert memory(meminfo) == (16_384_000_000, 8_192_000_000)
    limit.write_text("4000000000\n")
    used.write_text("1000000000\n")
    assert memory(meminfo) == (4_000_000_000, 3_000_000_000)
    assert memory(tmp_path / "absent") == (0, 0)


class FakeNvml:
    """NVML with two GPUs, of which the second does not answer."""

    class NVMLError(Exception):
        pass

    def __init__(self, start: bool) -> None:
        self.start, self.stopped = start, False

    def nvmlInit(self) -> None:  # noqa: N802  (NVML's own name)
        if not self.start:
            raise self.NVMLError

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.stopped = True

    def nvmlSystemGetDriverVersion(self) -> bytes:  # noqa: N802
        return b"570.1"

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        if index:
            raise self.NVMLError
        return index

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:  # noqa: N802
        return SimpleNamespace(total=24 * 2**30, free=20 * 2**30)

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        return "NVIDIA GeForce RTX 4090"


def test_gpus_through_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    nvml = FakeNvml(start=True)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert probing.gpus() == (GpuFacts("NVIDIA GeForce RTX 4090", 24 * 2**30, 20 * 2**30, "570.1"),)
    assert nvml.stopped
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(start=False))
    assert probing.gpus() == ()
    real = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name == "pynvml":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert probing.gpus() == ()


def test_a_verdict_as_json(shelf: Shelf) -> None:
    row = json.loads(json.dumps(judge("tiny", load(tier="tiny"), BOX, shelf).as_dict()))
    assert {"name", "verdict", "sessions", "v2v_ms", "download_bytes", "why", "lines"} <= set(row)
