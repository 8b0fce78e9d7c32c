"""Each tier against this machine: its memory sum, the verdict, what to expect, what would be fetched.

Owns the walk from a config and a machine to a `Verdict`. It loads no model and opens no connection.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from appliance.capacity import estimate
from appliance.capacity.cap import Cap, Room, configured, memory_cap, smaller
from appliance.capacity.catalogue import lookup
from appliance.capacity.geometry import Geometry
from appliance.capacity.guide import GPUS, Gpu
from appliance.capacity.kv import KvPlan, kv_budget
from appliance.capacity.predict import Prediction, TurnProfile, largest, predict
from appliance.capacity.text import plain_size
from appliance.config import Config, load, tiers
from appliance.engines.llama.gguf import read_geometry
from appliance.errors import ConfigError, UsageError
from appliance.models.shelf import Shelf
from appliance.setup.probe import Machine, memory

FITS, TIGHT, NO = "fits", "tight", "does not fit"
_TIGHT_SHARE = 0.1  # less than this of the device left over is tight
_PREFIX_TOKENS = 256  # the system prompt and tool descriptions, about


@dataclass(frozen=True, slots=True)
class TierSum:
    """The limiter's sum for one config on one device."""

    geometry: Geometry
    plan: KvPlan
    room: Room
    cap: Cap

    def as_dict(self) -> dict[str, Any]:
        budget = kv_budget(self.geometry, self.plan)
        return {
            "model": self.geometry.name,
            "where": self.room.where,
            "available_bytes": int(self.room.available_bytes),
            "bytes_per_cell": budget.bytes_per_cell,
            "cells": budget.cells,
            "kv_bytes": budget.kv_bytes,
            "compute_bytes": budget.compute_bytes,
            "weights_bytes": budget.weights_bytes,
            "asr_bytes": int(self.room.asr_bytes),
            "tts_bytes": int(self.room.tts_bytes),
            "reserve_bytes": int(self.room.reserve_bytes),
            "sessions": self.cap.sessions,
            "limited_by": self.cap.limited_by,
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """One tier on this machine. `why` says what is missing, or what is tight; empty when it simply fits."""

    name: str
    summary: str
    verdict: str
    why: str
    sessions: int
    v2v_ms: float | None
    download_bytes: int
    lines: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "lines": [line.strip() for line in self.lines]}


def tier_sum(
    config: Config, available_bytes: float | None = None, machine: Machine | None = None, shelf: Shelf | None = None
) -> TierSum:
    """The memory sum of `config`.

    Without `available_bytes` that is the config's own limit, else what `machine`'s device has free, else the memory
    of the GPU that the config names, else half of this machine's free RAM.
    """
    shelf = shelf or Shelf()
    geometry = geometry_of(config.models.llm, shelf)
    plan = kv_plan(config)
    on_gpu = config.llm.gpu_layers > 0
    where, available = _available(config, machine)
    if available_bytes is not None:
        where, available = "given", available_bytes
    asr, tts = speech_of(config, shelf)
    beside = estimate.DEVICE_BYTES if on_gpu else estimate.PROCESS_BYTES
    room = Room(
        where=where,
        available_bytes=available,
        asr_bytes=estimate.asr_bytes(asr) if asr.on_gpu == on_gpu else 0,
        tts_bytes=estimate.tts_bytes(tts) if tts.on_gpu == on_gpu else 0,
        process_bytes=beside,
        reserve_bytes=config.capacity.reserve_bytes,
    )
    memory = memory_cap(geometry, plan, room)
    return TierSum(geometry, plan, room, smaller(memory, configured(_configured_sessions(config))))


def kv_plan(config: Config) -> KvPlan:
    """How the engine will run: one pool, the system prompt on a sequence of its own."""
    llm = config.llm
    return KvPlan(
        context_tokens=llm.share_tokens,
        sessions=llm.sessions,
        k_type=llm.kv_type,
        v_type=llm.kv_type,
        prefix_tokens=_PREFIX_TOKENS,
        reserved_sequences=1,
        flash_attention=llm.flash_attention,
        ubatch_tokens=llm.ubatch_tokens,
    )


def geometry_of(model: str, shelf: Shelf) -> Geometry:
    """From the file where it is here, else from the catalogue. Raises UsageError for a model nobody knows."""
    entry = shelf.manifest.models.get(model)
    if entry is not None:
        path = shelf.where(entry, entry.files[0])
        if path.is_file():
            return read_geometry(path)
    return lookup(model)


def speech_of(config: Config, shelf: Shelf) -> tuple[estimate.Speech, estimate.Speech]:
    """The ASR and TTS models of `config`, as far as memory and speed go."""
    kokoro = config.models.tts.startswith("kokoro")
    small = _bytes(config.models.asr_small, shelf)  # always loaded, so that falling back takes no time
    asr = estimate.Speech(
        _bytes(config.models.asr, shelf) + (0 if config.asr.device == "cuda" else small),
        config.asr.device == "cuda",
        config.asr.compute_type.startswith("int8"),
    )
    device = config.kokoro.device if kokoro else config.piper.device
    return asr, estimate.Speech(_bytes(config.models.tts, shelf), device == "cuda", heavy=kokoro)


def judge(name: str, config: Config, machine: Machine, shelf: Shelf) -> Verdict:
    """The verdict on one tier. Nothing here raises for a machine that is too small: that is an answer."""
    download = download_bytes(config, shelf)
    needs_gpu = config.llm.gpu_layers > 0 and bool(config.gpu)
    total = tier_sum(config, None, machine if not needs_gpu or machine.gpus else None, shelf)
    asr, tts = speech_of(config, shelf)
    bandwidth = _bandwidth(config, machine) if needs_gpu else 0.0
    speeds = estimate.calibration(total.geometry, machine.cores, bandwidth, asr, tts)
    sessions, expected = _expect(config, total, speeds)
    verdict, why = _verdict(config, machine, total, download, sessions, expected)
    lines = total.cap.lines
    if why:
        lines = (*lines, why)
    if verdict == NO:
        return Verdict(name, config.summary, NO, why, 0, None, download, lines)
    return Verdict(name, config.summary, verdict, why, sessions, round(expected.v2v_ms_p95), download, lines)


def judge_all(machine: Machine, shelf: Shelf) -> list[Verdict]:
    """Every tier, smallest first. A tier file that does not load is left to `appliance doctor`."""
    found = []
    for name in tiers():
        try:
            found.append(judge(name, load(tier=name), machine, shelf))
        except (ConfigError, UsageError) as error:
            found.append(Verdict(name, "", NO, error.message, 0, None, 0, ()))
    return found


def recommend(verdicts: list[Verdict]) -> str | None:
    """The largest tier that fits; else the largest that is tight; None when there is none."""
    for wanted in (FITS, TIGHT):
        for verdict in reversed(verdicts):
            if verdict.verdict == wanted:
                return verdict.name
    return None


def download_bytes(config: Config, shelf: Shelf) -> int:
    """Bytes of this tier's models that are not on the shelf yet."""
    known = [model for model in config.models.ids() if model in shelf.manifest.models]
    return sum(shelf.manifest.models[model].size for model in shelf.missing(known))


def _expect(config: Config, total: TierSum, speeds: Any) -> tuple[int, Prediction]:
    """The sessions that memory, config and speed allow, and how they will feel."""
    most = max(1, total.cap.sessions)
    objectives = config.objectives
    by_speed, prediction = largest(
        speeds,
        TurnProfile(),
        v2v_ms_p95=objectives.v2v_ms_p95,
        starvation_ms_p95=objectives.starvation_ms_p95,
        most=most,
    )
    if by_speed == 0:
        # One session is served all the same, later than the tier promises; the verdict says so.
        return min(1, total.cap.sessions), predict(speeds, TurnProfile(), 1)
    return min(by_speed, total.cap.sessions), prediction


def _verdict(
    config: Config, machine: Machine, total: TierSum, download: int, sessions: int, expected: Prediction
) -> tuple[str, str]:
    missing = _missing(config, machine, total, download, expected)
    if missing:
        return NO, missing
    tight = _tightness(config, total, expected)
    if tight:
        return TIGHT, tight
    wanted = _configured_sessions(config)
    return FITS, f"speed allows {sessions} of {wanted} sessions" if sessions < wanted else ""


def _missing(config: Config, machine: Machine, total: TierSum, download: int, expected: Prediction) -> str:
    """Why the tier cannot run here; empty when it can."""
    if config.gpu and config.llm.gpu_layers > 0 and not machine.gpus:
        return f"it needs a GPU such as the {config.gpu}, and none was found"
    if total.cap.sessions == 0:
        return f"{plain_size(total.cap.short_bytes)} of memory are missing for one session"
    if download > machine.disk_free_bytes:
        return f"{plain_size(download - machine.disk_free_bytes)} of disk are missing for the models"
    objective = config.objectives.v2v_ms_p95
    if expected.v2v_ms_p95 > 2 * objective:
        return f"its answers would come after about {expected.v2v_ms_p95:.0f} ms instead of {objective:.0f}"
    return ""


def _tightness(config: Config, total: TierSum, expected: Prediction) -> str:
    """What is scarce though the tier can run; empty when nothing is."""
    objective = config.objectives.v2v_ms_p95
    if expected.v2v_ms_p95 > objective:
        return f"one session, and its answers after about {expected.v2v_ms_p95:.0f} ms instead of {objective:.0f}"
    wanted = _configured_sessions(config)
    if total.cap.sessions < wanted:
        return f"memory for {total.cap.sessions} of {wanted} sessions"
    spare = total.room.available_bytes - kv_budget(total.geometry, total.plan).total_bytes - total.room.beside_bytes
    if spare < _TIGHT_SHARE * total.room.available_bytes:
        return f"only {plain_size(spare)} are left over"
    return ""


def _configured_sessions(config: Config) -> int:
    own = config.capacity.max_sessions
    return min(own, config.llm.sessions) if own else config.llm.sessions


def _available(config: Config, machine: Machine | None) -> tuple[str, float]:
    """The device and its bytes."""
    if config.llm.gpu_layers > 0:
        if config.capacity.gpu_limit_bytes:
            return "GPU, as configured", config.capacity.gpu_limit_bytes
        best = machine.best_gpu if machine is not None else None
        if best is not None:
            return f"{best.name}, free", best.free_bytes
        named = _named_gpu(config.gpu)
        if named is not None:
            return f"{named.name}, as sold", named.memory_bytes
        raise UsageError(
            "it is not known how much memory the GPU has", "set capacity.gpu_limit_bytes, or give --memory"
        )
    if config.capacity.ram_limit_bytes:
        return "RAM, as configured", config.capacity.ram_limit_bytes
    free = machine.ram_free_bytes if machine is not None else memory()[1]
    return "RAM, half of what is free", free / 2


def _named_gpu(name: str) -> Gpu | None:
    return next((gpu for gpu in GPUS if gpu.name == name), None)


def _bandwidth(config: Config, machine: Machine) -> float:
    """Of the GPU that is here, by its name; else of the one that the config names."""
    best = machine.best_gpu
    if best is not None:
        for gpu in GPUS:
            if gpu.name.lower() in best.name.lower():
                return gpu.bandwidth_bytes_s
    named = _named_gpu(config.gpu)
    return named.bandwidth_bytes_s if named is not None else GPUS[0].bandwidth_bytes_s


def _bytes(model: str, shelf: Shelf) -> int:
    entry = shelf.manifest.models.get(model)
    return entry.size if entry is not None else 0


def weights_root(shelf: Shelf) -> Path:
    """Where the weights will lie; for the disk probe."""
    return shelf.root
