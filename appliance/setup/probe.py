"""What this machine is: cores, memory, disk, GPUs, audio devices. Facts only, no opinion.

Owns the reading of the operating system and of NVML. A missing GPU, library or sound server is a fact, not an error.
"""

import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

from appliance.audio.catalog import portaudio
from appliance.errors import MissingError

_CGROUP_MEMORY = Path("/sys/fs/cgroup/memory.max")
_CGROUP_USED = Path("/sys/fs/cgroup/memory.current")


@dataclass(frozen=True, slots=True)
class GpuFacts:
    name: str
    total_bytes: int
    free_bytes: int
    driver: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """`cores` are those this process may use; `ram_free_bytes` respects a container's limit.

    `audio` is None where the sound library cannot be loaded, else the numbers of inputs and outputs.
    """

    system: str
    cores: int
    ram_total_bytes: int
    ram_free_bytes: int
    disk_free_bytes: int
    gpus: tuple[GpuFacts, ...] = ()
    inputs: int | None = None
    outputs: int | None = None

    @property
    def best_gpu(self) -> GpuFacts | None:
        return max(self.gpus, key=lambda gpu: gpu.total_bytes, default=None)


def probe(disk: Path, *, audio: bool = True) -> Machine:
    """Look at this machine; `disk` is where the weights will lie (or its nearest existing parent)."""
    total, free = memory()
    inputs, outputs = _audio() if audio else (None, None)
    return Machine(
        system=f"{platform.system()} {platform.machine()}",
        cores=cores(),
        ram_total_bytes=total,
        ram_free_bytes=free,
        disk_free_bytes=disk_free(disk),
        gpus=gpus(),
        inputs=inputs,
        outputs=outputs,
    )


def cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory(meminfo: Path = Path("/proc/meminfo")) -> tuple[int, int]:
    """Total and available bytes of RAM, within the container's limit where there is one. (0, 0) when unknown."""
    try:
        words = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        total, free = (int(words[key].split()[0]) * 1024 for key in ("MemTotal", "MemAvailable"))
    except (OSError, KeyError, ValueError):
        return 0, 0
    try:
        limit, used = int(_CGROUP_MEMORY.read_text()), int(_CGROUP_USED.read_text())
    except (OSError, ValueError):  # no cgroup, or "max"
        return total, free
    return min(total, limit), max(0, min(free, limit - used))


def disk_free(path: Path) -> int:
    """Free bytes at `path`, or at its nearest parent that exists."""
    for place in (path, *path.parents):
        if place.exists():
            return shutil.disk_usage(place).free
    return 0


def gpus() -> tuple[GpuFacts, ...]:
    """NVIDIA GPUs as NVML reports them; none is fine."""
    try:
        import pynvml
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    found = []
    try:
        driver = _text(pynvml.nvmlSystemGetDriverVersion())
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            info = pynvml.nvmlDeviceGetMemoryInfo(handle)
            found.append(GpuFacts(_text(pynvml.nvmlDeviceGetName(handle)), int(info.total), int(info.free), driver))
    except pynvml.NVMLError:
        # A driver in trouble: what was read so far stands.
        pass
    finally:
        pynvml.nvmlShutdown()
    return tuple(found)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _audio() -> tuple[int | None, int | None]:
    try:
        sounddevice = portaudio()
    except MissingError:
        return None, None
    try:
        devices = sounddevice.query_devices()
    except sounddevice.PortAudioError:
        return 0, 0
    inputs = sum(1 for device in devices if device["max_input_channels"] > 0)
    return inputs, sum(1 for device in devices if device["max_output_channels"] > 0)
