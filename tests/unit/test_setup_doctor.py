"""The doctor: each failure is found, named and followed by a hint, even when a library ends its process."""

from dataclasses import replace
from pathlib import Path

import pytest

from appliance.config import Config, load
from appliance.models.shelf import Shelf
from appliance.setup import doctor
from appliance.setup.doctor import Finding, Patient, Result, examine
from appliance.setup.probe import GpuFacts, Machine

BOX = Machine("Linux x86_64", 2, 8 * 10**9, 7 * 10**9, 200 * 10**9)


def patient(shelf: Shelf, config: Config | None = None, machine: Machine = BOX) -> Patient:
    return Patient(config or load(tier="tiny"), ("--tier", "tiny"), machine, shelf)


def results(findings: list[Finding]) -> set[Result]:
    return {finding.result for finding in findings}


def assert_hints(findings: list[Finding]) -> None:
    assert all(finding.hint for finding in findings if finding.result is Result.FAILED)


def test_a_broken_config_is_the_first_and_only_finding(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('tier = "starter"\n[llm]\nthreds = 4\n')
    findings = list(examine(path, None))
    assert [finding.check for finding in findings] == ["config"]
    assert "threds" in findings[0].detail
    assert_hints(findings)


def test_absent_and_damaged_models_are_named(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    findings = list(doctor.check_models(patient(shelf)))
    assert results(findings) == {Result.FAILED}
    assert "absent" in findings[0].detail
    assert_hints(findings)
    model = shelf.manifest.models["silero-vad"]
    (tmp_path / "silero-vad").mkdir()
    (tmp_path / "silero-vad" / model.files[0].name).write_bytes(b"x" * model.files[0].bytes)
    vad = next(iter(doctor.check_models(patient(shelf))))
    assert vad.result is Result.FAILED
    assert "altered" in vad.detail
    assert vad.hint == "appliance models pull silero-vad"


def test_memory_against_what_is_free_now(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    [fine] = doctor.check_memory(patient(shelf))
    assert fine.result is Result.OK
    [none] = doctor.check_memory(patient(shelf, machine=replace(BOX, ram_free_bytes=300_000_000)))
    assert none.result is Result.FAILED
    assert "missing for one session" in none.detail
    # Half of it: two of the tiny pack's eight sessions.
    [some] = doctor.check_memory(patient(shelf, machine=replace(BOX, ram_free_bytes=2_280_000_000)))
    assert some.result is Result.WARNING
    assert "of 8 sessions" in some.detail
    assert_hints([none, some])


def test_a_gpu_that_is_counted_on(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    [none_needed] = doctor.check_gpu(patient(shelf))
    assert none_needed.result is Result.OK
    [missing] = doctor.check_gpu(patient(shelf, load(tier="entry")))
    assert missing.result is Result.FAILED
    assert "llm, asr, kokoro" in missing.detail
    assert missing.hint
    with_gpu = replace(BOX, gpus=(GpuFacts("NVIDIA GeForce RTX 4090", 24 * 10**9, 23 * 10**9, "570"),))
    [found] = doctor.check_gpu(patient(shelf, load(tier="entry"), with_gpu))
    assert found.result is Result.OK


def test_folders_and_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    someone = patient(Shelf(tmp_path / "models"))
    assert results([*doctor.check_disk(someone), *doctor.check_permissions(someone)]) == {Result.OK}
    monkeypatch.setattr(doctor.os, "access", lambda *_: False)
    monkeypatch.setattr(doctor, "disk_free", lambda _: 5)
    findings = [*doctor.check_disk(someone), *doctor.check_permissions(someone)]
    assert results(findings) == {Result.FAILED}
    assert_hints(findings)


@pytest.mark.parametrize(
    ("code", "detail", "hint"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGABRT)", "SIGABRT", "device to cpu"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL", "want of memory"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "SIGILL", "another CPU"),
        ("import sys; sys.exit('error: no CUDA here\\nhint: use the CPU')", "no CUDA here", "use the CPU"),
        ("raise RuntimeError('libcudart.so.12 not found')", "libcudart.so.12 not found", "bootstrap"),
        ("import sys; sys.exit(1)", "without a word", "bootstrap"),
        ("print('{\"took_ms\": 12}')", "12 ms", ""),
    ],
)
def test_an_engine_that_ends_its_process_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, detail: str, hint: str
) -> None:
    (tmp_path / "wild_engine.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    finding = doctor._engine("asr", ("--tier", "tiny"), module="wild_engine")
    assert detail in finding.detail
    assert hint in finding.hint
    assert finding.result is (Result.FAILED if hint else Result.OK)


def test_an_engine_that_never_returns_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_engine.py").write_text("import threading\nthreading.Event().wait()")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(doctor, "_ENGINE_TIMEOUT_S", 0.5)
    finding = doctor._engine("asr", ("--tier", "tiny"), module="slow_engine")
    assert finding.result is Result.FAILED
    assert finding.hint


@pytest.mark.models
def test_the_tiny_pack_is_healthy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    findings = list(examine(None, "tiny"))
    assert [finding for finding in findings if finding.result is Result.FAILED] == []
    assert sum(finding.check.startswith("engine ") for finding in findings) == 5


def test_other_rooms_may_add_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    def loopback(someone: Patient) -> list[Finding]:
        return [Finding("audio", Result.WARNING, f"{someone.machine.cores} cores and no loopback", "plug one in")]

    monkeypatch.setattr(doctor, "CHECKS", [loopback])
    findings = list(examine(None, "tiny", engines=False))
    assert [finding.check for finding in findings] == ["config", "audio"]
