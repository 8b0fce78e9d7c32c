"""A published sizing guide (10 sessions, 8K context) beside the exact sums, and which GPU each tier really fits.

Owns the guide's rows as printed and the comparison that `appliance plan tiers` shows. The guide is a padded budget
for a first order of hardware; the exact figures come from `appliance.capacity.kv`.
"""

from dataclasses import dataclass, replace

from appliance.capacity.catalogue import lookup
from appliance.capacity.kv import KvPlan, kv_budget


@dataclass(frozen=True, slots=True)
class Gpu:
    name: str
    memory_bytes: float
    bandwidth_bytes_s: float


# Memory in powers of ten, as sold; the sums compare like with like.
GPUS: tuple[Gpu, ...] = (
    Gpu("RTX 4090", 24e9, 1008e9),
    Gpu("RTX 6000 Ada", 48e9, 960e9),
    Gpu("L40S", 48e9, 864e9),
    Gpu("H100", 80e9, 3350e9),
    Gpu("H200", 141e9, 4800e9),
    Gpu("MI300X", 192e9, 5300e9),
)


@dataclass(frozen=True, slots=True)
class LlmRow:
    """Printed figures in GB, at Q4_K_M. `model` is the catalogue's name."""

    name: str
    model: str
    weights_gb: float
    kv_gb: float
    total_gb: float


LLMS: tuple[LlmRow, ...] = (
    LlmRow("Gemma 3 4B", "gemma-3-4b", 2.5, 8, 11),
    LlmRow("Gemma 3 12B", "gemma-3-12b", 7, 20, 29),
    LlmRow("Gemma 3 27B", "gemma-3-27b", 16, 30, 48),
    LlmRow("Llama 3.1 8B", "llama-3.1-8b", 5, 15, 22),
    LlmRow("Llama 3.3 70B", "llama-3.3-70b", 40, 40, 84),
    LlmRow("Llama-4 Scout 109B MoE", "llama-4-scout", 55, 60, 118),
)


@dataclass(frozen=True, slots=True)
class SpeechRow:
    """Printed GB: the weights, what ten sessions add, the total. `note` where the guide gives no plain sum."""

    name: str
    weights_gb: float
    sessions_gb: float
    total_gb: float
    note: str = ""


ASRS: tuple[SpeechRow, ...] = (
    SpeechRow("Qwen3-ASR 1.7B", 3.4, 2, 5.5),
    SpeechRow("Cohere Transcribe 2B", 4, 2.5, 6.5),
    SpeechRow("faster-whisper large v3 int8", 1.5, 1.5, 3),
    SpeechRow("Vosk", 0.2, 1, 0, "RAM and CPU only"),
)
TTSS: tuple[SpeechRow, ...] = (
    SpeechRow("VoxCPM2", 2, 3, 5),
    SpeechRow("Qwen3-TTS 1.7B", 3.4, 4, 7.5),
    SpeechRow("CosyVoice2", 1, 2, 3),
    SpeechRow("F5-TTS", 1.5, 3, 4.5),
    SpeechRow("Orpheus", 2, 2.5, 4.5),
    SpeechRow("Kokoro or Piper", 0.3, 0, 0.3, "at most; CPU-friendly"),
)


@dataclass(frozen=True, slots=True)
class TierRow:
    """What the guide recommends: the LLM (or either of two), the least GPU and the stable one."""

    name: str
    models: tuple[str, ...]
    minimum: str
    stable: str


TIERS: tuple[TierRow, ...] = (
    TierRow("Entry", ("gemma-3-4b",), "RTX 4090", "RTX 6000 Ada"),
    TierRow("Balanced", ("gemma-3-12b",), "RTX 6000 Ada", "L40S"),
    TierRow("Recommended", ("gemma-3-27b", "llama-3.1-8b"), "H100", "MI300X"),
    TierRow("Pro", ("llama-3.3-70b",), "MI300X", "H200"),
    TierRow("Flagship", ("llama-4-scout",), "H200", "MI300X"),
)


@dataclass(frozen=True, slots=True)
class HostRow:
    what: str
    minimum: str
    stable: str


HOST: tuple[HostRow, ...] = (
    HostRow("RAM", "2 × GPU memory", "3 × GPU memory"),
    HostRow("NVMe", "100 GB", "500 GB"),
    HostRow("CPU", "8 cores", "16 cores"),
    HostRow("PCIe", "Gen4 x8", "Gen4-5 x16"),
    HostRow("network", "1 Gbps", "10 Gbps"),
)
RULES: tuple[str, ...] = (
    "Concurrency is bound by K/V memory.",
    "Halving the context halves the memory a session takes.",
    "Throughput is bound by memory bandwidth.",
)
# Beside the LLM on the same GPU: whisper large-v3 in int8 with ten sessions, a small voice, the driver's own context.
SPEECH_BYTES = 3.0e9 + 0.3e9
DRIVER_BYTES = 0.5e9


def gpu(name: str) -> Gpu:
    """The GPU of the table called `name`; KeyError otherwise."""
    return next(each for each in GPUS if each.name == name)


@dataclass(frozen=True, slots=True)
class Exact:
    """Our sum for one model of the guide, in bytes, and the GPUs of the table that hold it."""

    weights_bytes: float
    kv_bytes: float
    kv_q8_bytes: float
    total_bytes: float
    total_q8_bytes: float
    fits: tuple[str, ...]
    fits_q8: tuple[str, ...]


def exact(model: str, plan: KvPlan) -> Exact:
    """The sum for `model` with f16 and with q8_0 K/V, ASR and TTS beside it."""
    geometry = lookup(model)
    plain = kv_budget(geometry, plan)
    eight = kv_budget(geometry, _with_types(plan, "q8_0"))
    beside = SPEECH_BYTES + DRIVER_BYTES
    total, total_q8 = plain.total_bytes + beside, eight.total_bytes + beside
    return Exact(
        plain.weights_bytes,
        plain.kv_bytes,
        eight.kv_bytes,
        total,
        total_q8,
        tuple(each.name for each in GPUS if each.memory_bytes >= total),
        tuple(each.name for each in GPUS if each.memory_bytes >= total_q8),
    )


def _with_types(plan: KvPlan, kv_type: str) -> KvPlan:
    return replace(plan, k_type=kv_type, v_type=kv_type)
