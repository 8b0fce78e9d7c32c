"""How many sessions at once: the memory sum, the speed prediction, and which of them is the limit.

Owns the arithmetic from "bytes available" to "sessions", written out term by term, as `plan kv`, the screen and
the log show it. It knows no device: what is available is a number that somebody measured.
"""

from dataclasses import dataclass, replace

from appliance.capacity.geometry import Geometry
from appliance.capacity.kv import KvPlan, kv_budget
from appliance.capacity.text import count, plain_size, size

MAX_SEQUENCES = 256  # llama.cpp's own limit for one context


@dataclass(frozen=True, slots=True)
class Room:
    """What one device offers and what else lives on it, in bytes."""

    where: str  # "RAM", or the GPU's name
    available_bytes: float
    asr_bytes: float = 0.0
    tts_bytes: float = 0.0
    reserve_bytes: float = 0.0
    fallback_bytes: float = 0.0  # the smaller LLM that the ladder turns to: weights, K/V and buffers
    process_bytes: float = 0.0  # the interpreter and libraries, or the driver's own context

    @property
    def beside_bytes(self) -> float:
        """Everything that is not the LLM's."""
        return self.asr_bytes + self.tts_bytes + self.fallback_bytes + self.process_bytes + self.reserve_bytes


@dataclass(frozen=True, slots=True)
class Cap:
    """`limited_by`: memory, speed, load test, config, llama.cpp or model. `lines` is the sum, one term a line."""

    sessions: int
    limited_by: str
    lines: tuple[str, ...]
    short_bytes: float = 0.0  # how much is missing for one session; 0 when at least one fits


def memory_cap(geometry: Geometry, plan: KvPlan, room: Room) -> Cap:
    """The most sessions whose whole context fits in `room`: the largest n that llama.cpp can allocate.

    `plan.sessions` sets only the buffers that the sum shows. Raises UsageError for a plan that makes no sense.
    """

    def needed(sessions: int) -> float:
        return kv_budget(geometry, replace(plan, sessions=sessions)).total_bytes + room.beside_bytes

    most = MAX_SEQUENCES - plan.reserved_sequences
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if needed(middle) <= room.available_bytes else (low, middle - 1)
    short = max(0.0, needed(1) - room.available_bytes) if low == 0 else 0.0
    lines = _sum(geometry, plan, room, low)
    return Cap(low, "llama.cpp" if low == most else "memory", lines, short)


def smaller(memory: Cap, *others: Cap) -> Cap:
    """The cap that counts; on a tie the earlier one is named. The sum lines of all are kept."""
    least = min((memory, *others), key=lambda cap: cap.sessions)
    lines = tuple(line for cap in (memory, *others) for line in cap.lines)
    return Cap(
        least.sessions,
        least.limited_by,
        (*lines, f"{least.sessions:>9}  sessions in all, limited by {least.limited_by}"),
        memory.short_bytes,
    )


def configured(sessions: int) -> Cap:
    """An installer's own number as a cap."""
    return Cap(sessions, "config", (f"{sessions:>9}  sessions by config",))


def _sum(geometry: Geometry, plan: KvPlan, room: Room, sessions: int) -> tuple[str, ...]:
    """Available - weights - ASR - TTS - compute - reserve = bytes for K/V; ÷ bytes a session = sessions."""
    # Buffers are those of the run that will really be: as many sessions as planned, or as fit.
    one = kv_budget(geometry, replace(plan, sessions=max(1, min(sessions, plan.sessions))))
    fixed = replace(plan, sessions=1)
    first = kv_budget(geometry, fixed).kv_bytes
    second = kv_budget(geometry, replace(fixed, sessions=2)).kv_bytes
    compute = one.compute_bytes + one.output_bytes
    left = room.available_bytes - one.weights_bytes - compute - room.beside_bytes
    each = max(1, second - first)
    terms = [
        (room.available_bytes, f"  {room.where}"),
        (-one.weights_bytes, "  LLM weights"),
        (-room.asr_bytes, "  ASR"),
        (-room.tts_bytes, "  TTS"),
        (-room.fallback_bytes, "  fallback LLM"),
        (-room.process_bytes, "  process and libraries"),
        (-compute, "  compute and output buffers"),
        (-room.reserve_bytes, "  reserve"),
    ]
    lines = [size(value) + words for value, words in terms if value]
    shared = first - each
    note = f", {plain_size(shared)} shared" if shared > 0 else ""
    per_token = f"{count(plan.context_tokens)} tokens of {count(one.bytes_per_cell)} bytes"
    windows = ", its window" if one.window_bytes else ""
    state = ", its recurrent state" if one.state_bytes else ""
    lines.append(f"{size(left)}  left for K/V{note}")
    lines.append(f"{size(each)}  a session: {per_token}{windows}{state}")
    limit = ", llama.cpp's most" if sessions == MAX_SEQUENCES - plan.reserved_sequences else ""
    lines.append(f"{sessions:>9}  sessions by memory{limit}")
    return tuple(lines)
