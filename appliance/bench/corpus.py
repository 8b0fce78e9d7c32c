"""The end-of-turn corpus: turns with pauses inside them and a known end, human and synthetic, from seeds.

Owns the recipe: which sentence is spoken by which voice, where pauses of 300 to 1,500 ms fall, what noise and room
are added, and which half a turn belongs to. The same seed gives the same turns. It needs the recordings pack and
something that speaks (`Speak`); it does not know models, scores or policies.

The two halves never share a sentence. Human recordings are split the same way, by name.
"""

import ast
import random
import re
import tomllib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np

from appliance.audio.files import open_audio
from appliance.audio.resample import resample
from appliance.engines.ports import RATE, Audio, Word
from appliance.turns.gate import last_voiced

SEED = 8
LEAD_S, TAIL_S = 0.6, 3.6  # the tail is longer than stock's 3 s fallback
PAUSE_MS = (300.0, 1500.0)

# voice -> (speaker of the synthesizer, speed by resampling): one voice at three pitches, and three of another maker
VOICES = {
    "joe": ("joe", 1.0),
    "joe-low": ("joe", 0.93),
    "joe-high": ("joe", 1.08),
    "af_heart": ("af_heart", 1.0),
    "am_michael": ("am_michael", 1.0),
    "bf_emma": ("bf_emma", 1.0),
}
_PIPER, _KOKORO = ("joe", "joe-low", "joe-high"), ("af_heart", "am_michael", "bf_emma")
_FILLERS = ("um", "uh", "er")

# (speaker, text) -> audio at 16 kHz and its words, timed in seconds
Speak = Callable[[str, str], tuple[Audio, tuple[Word, ...]]]


@dataclass(frozen=True, slots=True)
class Line:
    """One synthetic turn, planned. `chunks` are said one by one, or as one sentence that is cut (`whole`)."""

    id: str
    kind: str
    voice: str
    chunks: tuple[str, ...]
    pauses_ms: tuple[float, ...]  # between the chunks; 0: none
    whole: bool
    noise_db: float  # signal over noise
    room: bool
    half: str


@dataclass(frozen=True, slots=True)
class Turn:
    """Mono 16 kHz float32. `end` is one past the last sample of speech; `pauses` are the placed ones, as samples."""

    id: str
    kind: str
    human: bool
    half: str  # "fit" or "report"
    language: str
    audio: Audio
    end: int
    pauses: tuple[tuple[int, int], ...] = ()
    asked: bool = False  # it answers a question


def plan(seed: int = SEED, *, kokoro_share: float = 0.35) -> list[Line]:
    """Every synthetic turn: each sentence once by a Piper voice, again by another, some by Kokoro."""
    lines = []
    for kind, sentences in _sentences().items():
        for index, sentence in enumerate(sentences):
            for take in range(3):
                rng = random.Random(f"{seed}:{kind}:{index}:{take}")
                if take == 2 and rng.random() > kokoro_share:
                    continue
                voice = rng.choice(_KOKORO) if take == 2 else _PIPER[(index + take) % 3]
                lines.append(_line(rng, f"{kind}-{index:02d}-{take}", kind, voice, sentence))
    return lines


def speak_line(line: Line, speak: Speak) -> Turn:
    """The planned turn as sound."""
    rng = np.random.default_rng(zlib.crc32(line.id.encode()))
    speaker, speed = VOICES[line.voice]
    parts = _cut_whole(line, speak, speaker) if line.whole else _one_by_one(line, speak, speaker)
    if speed != 1.0:
        parts = [resample(part, int(RATE * speed), RATE) for part in parts]
    audio, pauses, end = _joined(parts, line.pauses_ms)
    if line.room:
        audio = _reverberant(audio, rng)
    audio = audio + pink(len(audio), rng) * (_rms(audio[:end]) * 10 ** (-line.noise_db / 20))
    return Turn(
        line.id, line.kind, False, line.half, "en", audio.astype(np.float32), end, pauses, asked=line.kind == "answer"
    )


def human(root: Callable[[str], Path]) -> Iterator[Turn]:
    """Turns of the recordings pack; `root` gives a model id's folder. Silences inside a clip are inside its turn."""
    for name, path, language in _clips(root):
        audio = _load(path)
        end = last_voiced(audio, below_peak_db=32.0)
        if not RATE // 5 < end < 40 * RATE:
            continue
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        floor = _like_the_quiet(audio, rng)
        lead, tail = int(LEAD_S * RATE), int(TAIL_S * RATE)
        body = np.concatenate((floor(lead), audio, floor(max(0, end + tail - len(audio)))))
        half = "fit" if zlib.crc32(name.encode()) % 2 else "report"
        yield Turn(name, "human", True, half, language, body[: lead + end + tail], lead + end)


def _sentences() -> dict[str, list[str]]:
    text = resources.files("appliance.bench").joinpath("endpoint_sentences.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _line(rng: random.Random, name: str, kind: str, voice: str, sentence: str) -> Line:
    """Where this take pauses: at a marked place, or in the middle of a phrase, there often after a filler."""
    chunks = [c.strip() for c in sentence.split("|")]
    if kind != "answer" and rng.random() < (0.3 if len(chunks) > 1 else 0.75):
        longest = max(range(len(chunks)), key=lambda i: len(chunks[i].split()))
        words = chunks[longest].split()
        if len(words) >= 3:
            at = rng.randint(1, len(words) - 1)
            before = words[:at]
            if rng.random() < 0.35:
                before[-1] = before[-1].rstrip(",") + ","
                before.append(rng.choice(_FILLERS))
            chunks[longest : longest + 1] = [" ".join(before), " ".join(words[at:])]
    pauses = tuple(round(rng.uniform(*PAUSE_MS)) if rng.random() < 0.85 else 0.0 for _ in chunks[1:])
    # Halves go by sentence, so that no words of the report were seen by the fit.
    half = "fit" if zlib.crc32(f"{kind}:{sentence}".encode()) % 2 else "report"
    whole = voice in _PIPER and rng.random() < 0.55
    return Line(name, kind, voice, tuple(chunks), pauses, whole, rng.choice((40.0, 30.0, 22.0, 15.0)),
                rng.random() < 0.25, half)  # fmt: skip


def _one_by_one(line: Line, speak: Speak, speaker: str) -> list[Audio]:
    """Each chunk by itself; those before the last end in a comma, so that the voice stays up."""
    parts = []
    for i, chunk in enumerate(line.chunks):
        last = i == len(line.chunks) - 1
        text = chunk if last or chunk[-1] in ",.?!" else chunk + ","
        audio, _ = speak(speaker, text)
        parts.append(_trimmed(audio))
    return parts


def _cut_whole(line: Line, speak: Speak, speaker: str) -> list[Audio]:
    """The sentence in one breath, cut after the chunks' last words at the quietest place nearby."""
    audio, words = speak(speaker, " ".join(line.chunks))
    counts = [sum(any(c.isalnum() for c in w) for w in chunk.split()) for chunk in line.chunks]
    if sum(counts) != len(words):
        return _one_by_one(line, speak, speaker)
    parts, begin, said = [], 0, 0
    for count in counts[:-1]:
        said += count
        at = _quietest(audio, int((words[said - 1].end + words[said].start) / 2 * RATE))
        parts.append(_faded(audio[begin:at]))
        begin = at
    parts.append(_faded(audio[begin:]))
    return [_trimmed(part) for part in parts]


def _joined(parts: list[Audio], pauses_ms: tuple[float, ...]) -> tuple[Audio, tuple[tuple[int, int], ...], int]:
    """Lead, parts with their pauses between them, tail; where the pauses lie and where the speech ends."""
    pieces, position, pauses = [np.zeros(int(LEAD_S * RATE), np.float32)], int(LEAD_S * RATE), []
    for part, pause_ms in zip(parts, (*pauses_ms, -1.0), strict=True):
        pieces.append(part)
        position += len(part)
        if pause_ms < 0:
            break
        gap = int(pause_ms * RATE / 1000)
        if gap:
            pauses.append((position, position + gap))
        pieces.append(np.zeros(gap, np.float32))
        position += gap
    pieces.append(np.zeros(int(TAIL_S * RATE), np.float32))
    return np.concatenate(pieces), tuple(pauses), position


def _trimmed(audio: Audio) -> Audio:
    """Without the silence at both ends."""
    end = last_voiced(audio, below_peak_db=40.0)
    begin = len(audio) - last_voiced(audio[::-1], below_peak_db=40.0)
    return audio[begin:end] if begin < end else audio


def _quietest(audio: Audio, around: int, *, reach_ms: float = 40.0) -> int:
    reach, grain = int(reach_ms * RATE / 1000), RATE // 200
    starts = range(max(0, around - reach), max(1, min(len(audio) - grain, around + reach)), grain)
    return min(starts, key=lambda s: float(np.abs(audio[s : s + grain]).sum())) + grain // 2


def _faded(audio: Audio, ms: float = 6.0) -> Audio:
    n = min(len(audio) // 2, int(ms * RATE / 1000))
    out = audio.copy()
    ramp = np.linspace(0, 1, n, dtype=np.float32)
    out[:n] *= ramp
    out[len(out) - n :] *= ramp[::-1]
    return out


def pink(count: int, rng: np.random.Generator) -> Audio:
    """Pink noise of RMS 1."""
    spectrum = rng.normal(size=count // 2 + 1) + 1j * rng.normal(size=count // 2 + 1)
    spectrum /= np.sqrt(np.maximum(np.arange(len(spectrum)), 20 * count / RATE))
    out: Audio = np.fft.irfft(spectrum, count).astype(np.float32)
    return out / np.float32(_rms(out))


def _reverberant(audio: Audio, rng: np.random.Generator) -> Audio:
    """A small room: a decaying tail of 0.3 s, 12 dB below the direct sound."""
    count = int(0.3 * RATE)
    tail = rng.normal(size=count) * np.exp(-6.9 * np.arange(count) / count)
    tail[: RATE // 200] = 0
    tail *= 10 ** (-12 / 20) / np.sqrt((tail**2).sum())
    tail[0] = 1.0
    size = 1 << (len(audio) + count).bit_length()
    wet = np.fft.irfft(np.fft.rfft(audio, size) * np.fft.rfft(tail, size), size)
    out: Audio = wet[: len(audio)].astype(np.float32)
    return out


def _rms(audio: Audio) -> float:
    return float(np.sqrt(np.mean(np.square(audio, dtype=np.float64)))) or 1e-6


def _like_the_quiet(audio: Audio, rng: np.random.Generator) -> Callable[[int], Audio]:
    """Makes noise with the spectrum and level of the clip's quietest frames, so that silence goes on as it was."""
    size = 1024
    count = len(audio) // size
    frames = audio[: count * size].reshape(count, size)
    quiet = frames[np.argsort((frames**2).sum(axis=1))[: max(1, count // 20)]]
    shape = np.sqrt(np.mean(np.abs(np.fft.rfft(quiet, axis=1)) ** 2, axis=0))

    def make(samples: int) -> Audio:
        out = np.zeros(samples + 2 * size, np.float32)
        window = np.sin(np.pi * (np.arange(size) + 0.5) / size).astype(np.float32)
        for start in range(0, samples + size, size // 2):
            phase = np.exp(2j * np.pi * rng.random(len(shape)))
            out[start : start + size] += np.fft.irfft(shape * phase, size).astype(np.float32) * window
        return out[size // 2 : size // 2 + samples]

    return make


def _clips(root: Callable[[str], Path]) -> Iterator[tuple[str, Path, str]]:
    """(name, file, language) of every human clip that is one whole turn."""
    aligner = root("recordings-aligner") / "tests"
    for name in sorted(_aligner_names(aligner / "conftest.py")):
        path = aligner / "data" / "wav" / f"{name}.flac"
        if path.is_file():
            yield f"aligner/{name}", path, "en"
    for name in (
        "se10x016-08071999-1334_u001600{}.wav",
        "common_voice_en_2205826{}.mp3",
        "multilingual_ipa_us_{}.flac",
    ):
        for i in "1234567":
            path = aligner / "data" / "wav" / name.format(i)
            if path.is_file():
                yield f"aligner/{path.stem}", path, "en"
    sphinx = root("recordings-pocketsphinx")
    for path in (
        *sorted(sphinx.glob("librivox/*.wav")),
        *sorted(sphinx.glob("cards/*.wav")),
        *sorted(sphinx.glob("*.raw")),
    ):
        yield f"pocketsphinx/{path.stem}", path, "en"
    for path in sorted((root("recordings-audioeval") / "samples" / "audio").glob("*/*.wav")):
        yield f"audioeval/{path.parent.name}/{path.stem}", path, path.parent.name


def _aligner_names(conftest: Path) -> list[str]:
    """The clips that the aligner's tests give a transcript for."""
    found = re.search(r"def reference_transcripts\(\):\n    return (\{.*?\n    \})", conftest.read_text(), re.S)
    return list(ast.literal_eval(found[1])) if found else []


def _load(path: Path) -> Audio:
    if path.suffix == ".raw":
        return np.fromfile(path, "<i2").astype(np.float32) / np.float32(32768)
    return open_audio(path).read()
