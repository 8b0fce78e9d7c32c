"""The doctor: is everything here that the appliance needs, and does each engine really load?

Owns the list of checks and their wording. A check yields findings; a failed one always carries a hint. Other rooms
add checks of their own by appending to `CHECKS`.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.capacity.kv import kv_budget
from appliance.capacity.text import plain_size
from appliance.config import Config, load, user_config_path
from appliance.errors import ApplianceError
from appliance.models.shelf import FileState, Shelf
from appliance.setup.loads import ENGINES
from appliance.setup.probe import Machine, disk_free, probe
from appliance.setup.sums import tier_sum
from appliance.store.database import default_path

if TYPE_CHECKING:
    from appliance.setup.audio_doctor import Loopback

_ENGINE_TIMEOUT_S = 180.0
_LEAST_DISK_BYTES = 200_000_000


class Result(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's report. `hint` is never empty for a failure."""

    check: str
    result: Result
    detail: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Patient:
    """What is examined. `option` is how a subprocess names the same config: ("--tier", NAME) or ("--config", FILE)."""

    config: Config
    option: tuple[str, str]
    machine: Machine
    shelf: Shelf
    measured: Callable[[str, "Loopback"], None] = lambda station, loopback: None  # told of each station's sweep


Check = Callable[[Patient], Iterator[Finding]]


def examine(
    config_file: Path | None,
    tier: str | None,
    *,
    engines: bool = True,
    sound: bool = False,
    measured: Callable[[str, "Loopback"], None] = lambda station, loopback: None,
) -> Iterator[Finding]:
    """Every finding, as it is made; `sound` also opens the devices. A broken config is the first and only one.

    `measured` is told the name of each station whose echo was heard, and what was measured there.
    """
    try:
        config = load(config_file, tier)
    except ApplianceError as error:
        yield Finding("config", Result.FAILED, error.message, error.hint or "appliance setup")
        return
    own = config_file or (user_config_path() if tier is None and user_config_path().is_file() else None)
    yield Finding("config", Result.OK, f"{own or 'no config of your own'}, tier {config.tier}")
    shelf = Shelf()
    option = ("--config", str(own)) if own is not None else ("--tier", config.tier)
    patient = Patient(config, option, probe(shelf.root), shelf, measured)
    for check in CHECKS:
        if engines or check is not check_engines:
            yield from check(patient)
    if sound:
        yield from check_sound(patient)


def check_models(patient: Patient) -> Iterator[Finding]:
    """Each model's files: there, whole, with the right hash."""
    for model_id in patient.config.models.ids():
        model = patient.shelf.manifest.models.get(model_id)
        if model is None:
            yield Finding("model", Result.FAILED, f"{model_id} is not in the manifest", "appliance models list")
            continue
        for file in model.files:
            report = patient.shelf.glance(model, file)
            if report.state is FileState.UNCHECKED:
                report = patient.shelf.examine(model, file)
            if report.state is not FileState.READY:
                hint = f"appliance models pull {model_id}"
                yield Finding("model", Result.FAILED, f"{model_id}/{file.name} is {report.state}", hint)
                break
        else:
            yield Finding("model", Result.OK, f"{model_id}, {plain_size(model.size)}")


def check_engines(patient: Patient) -> Iterator[Finding]:
    """Each engine loaded in a process of its own."""
    for kind in ENGINES:
        yield _engine(kind, patient.option)


def check_memory(patient: Patient) -> Iterator[Finding]:
    """The limiter's sum against what is free now."""
    try:
        total = tier_sum(patient.config, None, patient.machine, patient.shelf)
    except ApplianceError as error:
        yield Finding("memory", Result.FAILED, error.message, error.hint or "appliance setup")
        return
    wanted, fit = patient.config.llm.sessions, total.cap.sessions
    needed = kv_budget(total.geometry, total.plan).total_bytes + total.room.beside_bytes
    sum_hint = f"appliance plan kv --config {patient.option[1]} shows the sum; choose a smaller tier or share"
    if fit == 0:
        detail = f"{plain_size(total.cap.short_bytes)} are missing for one session on {total.room.where}"
        yield Finding("memory", Result.FAILED, detail, sum_hint)
    elif fit < wanted:
        yield Finding("memory", Result.WARNING, f"room for {fit} of {wanted} sessions", sum_hint)
    else:
        available = plain_size(total.room.available_bytes)
        detail = f"{plain_size(needed)} of {available} ({total.room.where}) for {wanted} sessions"
        yield Finding("memory", Result.OK, detail)


def check_gpu(patient: Patient) -> Iterator[Finding]:
    """A GPU, where the config counts on one."""
    wants = [
        name
        for name, used in (
            ("llm", patient.config.llm.gpu_layers > 0),
            ("asr", patient.config.asr.device == "cuda"),
            ("kokoro", patient.config.models.tts.startswith("kokoro") and patient.config.kokoro.device == "cuda"),
        )
        if used
    ]
    best = patient.machine.best_gpu
    if best is not None:
        yield Finding("gpu", Result.OK, f"{best.name}, {plain_size(best.free_bytes)} free, driver {best.driver}")
    elif wants:
        detail = f"{', '.join(wants)} should run on a GPU, and none was found"
        yield Finding("gpu", Result.FAILED, detail, "install the driver, or choose another tier: appliance setup")
    else:
        yield Finding("gpu", Result.OK, "none, and none is needed")


def check_disk(patient: Patient) -> Iterator[Finding]:
    """Room for the store and for what is still to be fetched."""
    for what, place in (("models", patient.shelf.root), ("store", default_path().parent)):
        free = disk_free(place)
        if free < _LEAST_DISK_BYTES:
            yield Finding("disk", Result.FAILED, f"{plain_size(free)} free in {place}", f"make room for the {what}")
        else:
            yield Finding("disk", Result.OK, f"{plain_size(free)} free for the {what}")


def check_permissions(patient: Patient) -> Iterator[Finding]:
    """Whether the store and the config can be written, and the weights read."""
    for what, place, mode in (
        ("store", default_path().parent, os.W_OK),
        ("config", user_config_path().parent, os.W_OK),
        ("models", patient.shelf.root, os.R_OK),
    ):
        existing = next(folder for folder in (place, *place.parents) if folder.exists())
        verb = "written" if mode == os.W_OK else "read"
        if os.access(existing, mode):
            yield Finding("permissions", Result.OK, f"the {what} folder can be {verb}")
        else:
            hint = f"run: chown -R {os.environ.get('USER', 'you')} {existing}"
            yield Finding("permissions", Result.FAILED, f"{existing} ({what}) cannot be {verb}", hint)


def check_sound(patient: Patient) -> Iterator[Finding]:
    """Each station's devices, and a sweep through speaker and microphone: delay, echo, noise, advice."""
    from appliance.setup.audio_doctor import check_audio

    results = {"ok": Result.OK, "warn": Result.WARNING, "fail": Result.FAILED}
    for station in patient.config.stations:
        findings, loopback = check_audio(station)
        for found in findings:
            yield Finding(f"{station.name} {found.name}", results[found.status], found.message, found.hint)
        if loopback is not None and loopback.heard:
            advice = f'[[stations]] echo.mode = "{loopback.advice}", echo.delay_ms = {loopback.delay_ms:.0f}'
            yield Finding(f"{station.name} echo", Result.OK, f"for the config (or say --write): {advice}")
            patient.measured(station.name, loopback)


CHECKS: list[Check] = [check_models, check_gpu, check_memory, check_disk, check_permissions, check_engines]


def _engine(kind: str, option: tuple[str, str], *, module: str = "appliance.setup.loads") -> Finding:
    """Run one engine's loading in a subprocess and read how it ended."""
    command = [sys.executable, "-m", module, kind, *option]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ENGINE_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        hint = "close other programs, or choose a smaller tier"
        return Finding(f"engine {kind}", Result.FAILED, f"not loaded after {_ENGINE_TIMEOUT_S:.0f} s", hint)
    if done.returncode == 0:
        took = json.loads(done.stdout.splitlines()[-1])["took_ms"]
        return Finding(f"engine {kind}", Result.OK, f"loads and works, {took} ms")
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        detail = f"its library ended the process with {name}"
        return Finding(f"engine {kind}", Result.FAILED, detail, _abort_hint(name))
    return Finding(f"engine {kind}", Result.FAILED, *_told(done.stderr))


def _abort_hint(name: str) -> str:
    if name == "SIGKILL":
        return "the system ended it for want of memory: choose a smaller tier"
    if name == "SIGILL":
        return "the library was built for another CPU: install it again on this machine"
    return "set this engine's device to cpu; if it was cpu, install its library again"


def _told(stderr: str) -> tuple[str, str]:
    """The `error:` and `hint:` lines of a process, else its last line."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    found = {key: line.partition(": ")[2] for line in lines for key in ("error", "hint") if line.startswith(f"{key}: ")}
    if "error" in found:
        return found["error"], found.get("hint") or "appliance models verify"
    return lines[-1] if lines else "it ended without a word", "install the appliance again: scripts/bootstrap"
