"""The limiter's memory sum for a config: what the device has, what the models take, what is left for sessions.

Owns the walk from a `Config` to the pure arithmetic of `appliance.capacity.cap`. `plan kv --config`, set-up and the
doctor print it. It loads no model: geometry comes from the file's metadata, or from the catalogue.
"""

from dataclasses import dataclass
from typing import Any

from appliance.capacity import estimate
from appliance.capacity.cap import Cap, Room, configured, memory_cap, smaller
from appliance.capacity.catalogue import lookup
from appliance.capacity.geometry import Geometry
from appliance.capacity.guide import GPUS, Gpu
from appliance.capacity.kv import KvPlan, kv_budget
from appliance.config import Config
from appliance.engines.llama.gguf import read_geometry
from appliance.engines.llama.memory import FIRST
from appliance.engines.llama.requantise import made
from appliance.errors import UsageError
from appliance.models.shelf import Shelf
from appliance.setup.probe import Machine, memory

_PREFIX_TOKENS = 256  # the system prompt and tool descriptions, about


@dataclass(frozen=True, slots=True)
class TierSum:
    """The limiter's sum for one config on one device."""

    geometry: Geometry
    plan: KvPlan
    room: Room
    memory: Cap
    cap: Cap  # with the config's own number of sessions

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


def tier_sum(
    config: Config, available_bytes: float | None = None, machine: Machine | None = None, shelf: Shelf | None = None
) -> TierSum:
    """The memory sum of `config`.

    Without `available_bytes` that is the config's own limit, else what `machine`'s device has free, else the memory
    of the GPU that the config names, else half of this machine's free RAM.
    """
    shelf = shelf or Shelf()
    geometry = geometry_of(config.models.llm, shelf, "" if config.llm.gpu_layers else config.llm.requantise)
    plan = kv_plan(config)
    on_gpu = config.llm.gpu_layers > 0
    where, available = _available(config, machine)
    if available_bytes is not None:
        where, available = "given", available_bytes
    asr, tts = speech_of(config, shelf)
    fallback = geometry_of(config.models.llm_small, shelf) if config.models.llm_small else None
    room = estimate.room(
        where,
        available,
        on_gpu=on_gpu,
        asr=asr,
        tts=tts,
        reserve_bytes=config.capacity.reserve_bytes,
        fallback_bytes=kv_budget(fallback, plan).total_bytes if fallback else 0.0,
    )
    by_memory = memory_cap(geometry, plan, room)
    cap = smaller(by_memory, configured(configured_sessions(config)))
    return TierSum(geometry, plan, room, by_memory, cap)


def kv_plan(config: Config) -> KvPlan:
    """How the engine will run: one pool, a few sequences of the engine's own, two rows of logits for each."""
    llm = config.llm
    share = llm.share_tokens
    if llm.context_tokens:
        # Overcommitted: what there is, shared out; idle sessions are parked when it does not suffice.
        share = min(share, max(1, (llm.context_tokens - _PREFIX_TOKENS) // llm.sessions))
    return KvPlan(
        context_tokens=share,
        sessions=llm.sessions,
        k_type=llm.kv_type,
        v_type=llm.kv_type,
        prefix_tokens=_PREFIX_TOKENS,
        reserved_sequences=FIRST,
        flash_attention=llm.flash_attention,
        ubatch_tokens=min(llm.ubatch_tokens, llm.batch_tokens),
        rows_per_sequence=2,
    )


def geometry_of(model: str, shelf: Shelf, requantise: str = "") -> Geometry:
    """From the file where it is here, else from the catalogue. Raises UsageError for a model nobody knows.

    Weights that will be made anew count as the file's own until they are there: within 50 MB for the packs on CPUs.
    """
    entry = shelf.manifest.models.get(model)
    if entry is not None:
        path = shelf.where(entry, entry.files[0])
        if path.is_file():
            return read_geometry(made(path, requantise) or path)
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


def configured_sessions(config: Config) -> int:
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
        named = named_gpu(config.gpu)
        if named is not None:
            return f"{named.name}, as sold", named.memory_bytes
        raise UsageError(
            "it is not known how much memory the GPU has", "set capacity.gpu_limit_bytes, or give --memory"
        )
    if config.capacity.ram_limit_bytes:
        return "RAM, as configured", config.capacity.ram_limit_bytes
    free = machine.ram_free_bytes if machine is not None else memory()[1]
    return "RAM, half of what is free", free / 2


def named_gpu(name: str) -> Gpu | None:
    return next((gpu for gpu in GPUS if gpu.name == name), None)


def _bytes(model: str, shelf: Shelf) -> int:
    entry = shelf.manifest.models.get(model)
    return entry.size if entry is not None else 0
