"""How many sessions this box may hold with these settings: memory and speed, whichever is smaller.

It gathers the numbers (free memory, file sizes, geometry, calibration) and hands them to the pure arithmetic of
`capacity`. It loads nothing.
"""

import os
from pathlib import Path

from appliance.capacity.cap import Cap, Room, configured, memory_cap, smaller
from appliance.capacity.geometry import Geometry
from appliance.capacity.kv import KvPlan
from appliance.capacity.predict import Calibration, TurnProfile, largest
from appliance.config import Config

# Working memory beside the weights, measured on the starter pack: buffers of CTranslate2 and of the ONNX arenas.
_ASR_WORK_BYTES = 150_000_000
_TTS_WORK_BYTES = 120_000_000


def ceiling(config: Config, geometry: Geometry, calibration: Calibration | None = None) -> Cap:
    """The cap with its sum. Without a calibration only memory and the config limit it."""
    plan = KvPlan(
        context_tokens=config.llm.share_tokens,
        k_type=config.llm.kv_type,
        v_type=config.llm.kv_type,
        prefix_tokens=256,
        reserved_sequences=1,
        flash_attention=config.llm.flash_attention,
        ubatch_tokens=config.llm.ubatch_tokens,
    )
    caps = [memory_cap(geometry, plan, room(config)), configured(config.llm.sessions)]
    if calibration is not None:
        objectives = config.objectives
        sessions, at = largest(
            calibration,
            TurnProfile(),
            v2v_ms_p95=objectives.v2v_ms_p95,
            starvation_ms_p95=objectives.starvation_ms_p95,
        )
        line = (
            f"{sessions:>9}  sessions by speed: predicted voice-to-voice p95 {at.v2v_ms_p95:.0f} ms of "
            f"{objectives.v2v_ms_p95:.0f}, starvation p95 {at.starvation_ms_p95:.0f} ms"
        )
        # One person is always let in: a slow box is slow, not closed.
        caps.append(Cap(max(1, sessions), "speed", (line,)))
    return smaller(caps[0], *caps[1:])


def room(config: Config) -> Room:
    """What the device of the LLM offers, and what else lives on it."""
    limit = config.capacity.ram_limit_bytes or available_ram() // 2
    return Room("RAM", limit, _ASR_WORK_BYTES, _TTS_WORK_BYTES, config.capacity.reserve_bytes)


def available_ram() -> int:
    """Bytes that can be had without swapping; a container's limit counts."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for line in _lines(Path("/proc/meminfo")):
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
    for line in _lines(Path("/sys/fs/cgroup/memory.max")):
        if line.strip().isdigit():
            free = min(free, int(line))
    return free


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
