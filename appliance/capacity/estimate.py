"""Speeds and speech memory of a box nobody has measured yet, from a few published and measured points.

Owns the rules of thumb behind `appliance setup`'s predictions. They choose a tier; the limit at run time comes from a
calibration on the box itself (`appliance.capacity.predict`).

Points: two x86 cores decode 98 MB of weights in 19 ms and 491 MB in 40 ms a token, evaluate 190 and 100 prompt tokens
a second; whisper base takes 0.28 s for 2.5 s of speech, tiny.en 0.16 s; Piper's RTF is 0.11, Kokoro int8's 0.65. One
RTX 4090 decodes 4.7 GB in 5.2 ms alone and 16 at once in 7.4 ms. Resident speech models were weighed with their
scratch memory: 2.3 × the file for whisper, 2.7 × for Piper, 3.3 × for Kokoro.
"""

from dataclasses import dataclass

from appliance.capacity.cap import Room
from appliance.capacity.geometry import Geometry
from appliance.capacity.predict import Calibration

_CORE_BANDWIDTH = 7e9  # bytes a second that one core reads while it decodes
_CORES_THAT_ADD = 6  # memory channels are full then
_LAYER_MS = 0.35  # on the CPU, whatever its size
_CORE_FLOPS = 5.4e10
_PROMPT_MS = 6.6  # of one core, for each prompt token, whatever the model
_GPU_SHARE = 0.9  # of the bandwidth that decoding reaches
_GPU_MORE = 0.03  # of a step, for each further sequence
PROCESS_BYTES = 250_000_000  # the interpreter, its libraries, VAD and end-of-turn models
DEVICE_BYTES = 500_000_000  # what a driver keeps for itself once it is used


@dataclass(frozen=True, slots=True)
class Speech:
    """One speech model: bytes of its files, and where it runs."""

    file_bytes: int
    on_gpu: bool = False
    eight_bits: bool = True  # weights become int8 when loaded
    heavy: bool = False  # Kokoro's kind: several times Piper's work


def asr_bytes(speech: Speech) -> int:
    """Resident bytes of a whisper model with its scratch memory; on a processor its decoder is there in two forms."""
    if not speech.file_bytes:
        return 0
    if speech.on_gpu:
        return int(speech.file_bytes * (0.5 if speech.eight_bits else 1.0) + 1.5e9)
    return int(speech.file_bytes * 2.3 + 1e8)


def tts_bytes(speech: Speech) -> int:
    """Resident bytes of a voice with its scratch memory."""
    return int(speech.file_bytes * (3.3 if speech.heavy else 2.7))


def room(
    where: str,
    available_bytes: float,
    *,
    on_gpu: bool,
    asr: Speech,
    tts: Speech,
    reserve_bytes: float,
    fallback_bytes: float = 0.0,
) -> Room:
    """The device of the LLM (`on_gpu`: a GPU) with whatever of the speech models lies on it too."""
    return Room(
        where=where,
        available_bytes=available_bytes,
        asr_bytes=asr_bytes(asr) if asr.on_gpu == on_gpu else 0,
        tts_bytes=tts_bytes(tts) if tts.on_gpu == on_gpu else 0,
        fallback_bytes=fallback_bytes,
        process_bytes=DEVICE_BYTES if on_gpu else PROCESS_BYTES,
        reserve_bytes=reserve_bytes,
    )


def calibration(geometry: Geometry, cores: int, bandwidth_bytes_s: float, asr: Speech, tts: Speech) -> Calibration:
    """Speeds of `cores`, and of a GPU with `bandwidth_bytes_s` for the LLM (0: none, it runs on the cores)."""
    read = geometry.weights_bytes * geometry.experts_share
    if bandwidth_bytes_s:
        step = read / (bandwidth_bytes_s * _GPU_SHARE) * 1e3 + 0.5
        more = step * _GPU_MORE
        # Prompts are bound by arithmetic, which grows with bandwidth from one GPU to the next.
        prefill = bandwidth_bytes_s * 36 / read
    else:
        step = read / (_CORE_BANDWIDTH * min(cores, _CORES_THAT_ADD)) * 1e3 + _LAYER_MS * len(geometry.layers)
        prefill = cores * 1e3 / (_PROMPT_MS + 2e3 * _multiplied(geometry) / _CORE_FLOPS)
        more = min(step, 1e3 / prefill)
    wide = max(1.0, min(cores, 8) / 2)
    asr_rtf = 0.08 if asr.on_gpu else 0.11 * (asr.file_bytes / 145e6) ** 0.8 / wide
    tts_rtf = (0.65 if tts.heavy else 0.11) / wide
    return Calibration(
        step_ms=((1, step), (16, step + 15 * more)),
        prefill_tokens_per_s=prefill,
        asr_rtf=asr_rtf,
        tts_rtf=0.03 if tts.on_gpu else tts_rtf,
        tts_first_ms=0.0 if tts.heavy else 60.0 if tts.on_gpu else 75.0,  # Kokoro's clauses come whole
        look_ms=45.0,
        cores=cores,
        asr_threads=1 if asr.on_gpu else min(4, cores),
        llm_threads=0 if bandwidth_bytes_s else cores,
        tts_threads=1 if tts.on_gpu else min(4, cores),
    )


def _multiplied(geometry: Geometry) -> float:
    """Weights that each prompt token is multiplied with: all layers, not the vocabulary."""
    queries = geometry.heads * geometry.key_length
    keys = sum(layer.k + layer.v for layer in geometry.layers) / max(1, len(geometry.layers))
    each = geometry.embedding * (2 * queries + keys) + 3 * geometry.embedding * geometry.feed_forward
    return len(geometry.layers) * each
