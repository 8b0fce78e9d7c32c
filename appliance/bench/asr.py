"""Recognition against the stock way: the same clips, the same model, the same run, in alternating pairs.

It owns the clips with known words, the word error rate and the comparison. The stock side is
`faster_whisper.WhisperModel.transcribe()` as it comes: 30 s windows, beam of five, temperature fallback.
"""

import ast
import re
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from appliance.audio.files import open_audio
from appliance.engines.ports import Audio, CancelToken, Priority
from appliance.engines.whisper import Whisper, WhisperSettings
from appliance.engines.worker import Worker
from appliance.errors import MissingError

PACKS = ("recordings-pocketsphinx", "recordings-aligner", "recordings-audioeval")

_ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen".split()
_ONES += "seventeen eighteen nineteen".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_SAME = {"mr": "mister", "mrs": "missus", "dr": "doctor", "er": "her", "gonna": "going to"}
_FILLERS = {"uh", "um", "hm", "hmm", "mm", "uhm", "ah", "eh"}


@dataclass(frozen=True, slots=True)
class Clip:
    name: str
    audio: Audio
    text: str


def clips(folder: Callable[[str], Path]) -> list[Clip]:
    """English clips of the recordings packs whose words are known; `folder` gives a pack's place.

    Clips whose transcript has tags (a word cut off, laughter) are left out: there is no one right answer.
    """
    sphinx, aligner, audioeval = (folder(name) for name in PACKS)
    found: list[Clip] = []
    for listing in (sphinx / "librivox" / "transcription", sphinx / "cards" / "cards.transcription"):
        for text, name in re.findall(r"<s> (.*?)\s*</s> \((.*?)\)", _text(listing)):
            found.append(Clip(f"{listing.parent.name}/{name}", _audio(listing.with_name(f"{name}.wav")), text))
    raw = np.frombuffer((sphinx / "goforward.raw").read_bytes(), "<i2").astype(np.float32) / np.float32(32768)
    found.append(Clip("goforward", raw, "go forward ten meters"))
    table = re.search(
        r"def reference_transcripts\(\):\s+return (\{.*?\n    \})", _text(aligner / "tests/conftest.py"), re.S
    )
    for name, text in (ast.literal_eval(table[1]) if table else {}).items():
        path = aligner / "tests/data/wav" / f"{name}.flac"
        if path.is_file() and not re.search(r"[<\[]", text):
            found.append(Clip(name, _audio(path), text))
    for path in sorted((audioeval / "samples/audio/en").glob("*.wav")):
        found.append(Clip(path.stem, _audio(path), _text(path.with_suffix(".txt"))))
    return found


def normalised(text: str) -> list[str]:
    """Words to compare: lower case, no punctuation, numbers in words, initials apart, fillers left out."""
    text = re.sub(r"\b(?:[a-z]\.){2,}", lambda m: " ".join(m[0].replace(".", "")), text.lower().replace("’", "'"))
    text = re.sub(r"\bmfa\b", "m f a", text)
    words: list[str] = []
    for word in re.findall(r"[^\W_]+(?:'[^\W_]+)*", text):
        words += _number(int(word)) if word.isdecimal() and len(word) < 7 else _SAME.get(word, word).split()
    return [w for w in words if w not in _FILLERS]


def _number(value: int) -> list[str]:
    if value < 20:
        return [_ONES[value]]
    if value < 100:
        return [_TENS[value // 10 - 2], *(_number(value % 10) if value % 10 else [])]
    for size, name in ((1000, "thousand"), (100, "hundred")):
        if value >= size:
            return [*_number(value // size), name, *(_number(value % size) if value % size else [])]
    raise AssertionError(value)


def errors(wanted: list[str], heard: list[str]) -> int:
    """Fewest words inserted, left out or exchanged (Levenshtein distance over words)."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(wanted, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(heard, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (word != other))
    return row[-1]


def rate(pairs: Iterable[tuple[str, str]]) -> float:
    """Word error rate in percent over (wanted, heard)."""
    wrong = total = 0
    for wanted, heard in pairs:
        words = normalised(wanted)
        wrong += errors(words, normalised(heard))
        total += len(words)
    return 100.0 * wrong / max(total, 1)


async def run(
    model: Path,
    settings: WhisperSettings,
    spoken: list[Clip],
    *,
    baseline: bool = True,
    tell: Callable[[str], object] = lambda _: None,
) -> dict[str, Any]:
    """Transcribe every clip with this engine and the stock one, in turn first; WER in percent, times in ms.

    `ratio` is the median over clips of our time over the stock time of the same clip; `total_ratio` compares the
    sums, in which the clips that took a second look weigh as much as they cost.
    """
    if not spoken:
        raise MissingError("there are no clips to transcribe", hint="appliance models pull recordings")
    worker = Worker("asr")
    try:
        ours = Whisper(model, settings, worker)
        ours.warm()
        stock = _stock(model, settings) if baseline else None
        rows: list[dict[str, Any]] = []
        for i, clip in enumerate(spoken):
            tell(f"{clip.name} ({i + 1} of {len(spoken)})")
            row: dict[str, Any] = {"clip": clip.name, "audio_ms": round(len(clip.audio) / 16.0)}
            # Who goes first alternates, so that neither always finds the caches warm.
            for side in ("ours", "stock") if i % 2 else ("stock", "ours"):
                started = time.perf_counter()
                if side == "ours":
                    heard = await ours.transcribe(clip.audio, priority=Priority.FINAL, cancel=CancelToken())
                    row["heard"], row["reason"] = heard.text, heard.reason
                elif stock is not None:
                    row["stock_heard"] = stock(clip.audio)
                row[f"{side}_ms"] = (time.perf_counter() - started) * 1000
            rows.append(row)
        ours.close()
    finally:
        worker.stop()
    return _summed(spoken, rows, baseline=baseline)


def _summed(spoken: list[Clip], rows: list[dict[str, Any]], *, baseline: bool) -> dict[str, Any]:
    wanted = [clip.text for clip in spoken]
    out: dict[str, Any] = {
        "wer": round(rate(zip(wanted, (r["heard"] for r in rows), strict=True)), 2),
        "baseline_wer": None,
        "ratio": None,
        "total_ratio": None,
        "clips": len(rows),
        "ms_p50": round(statistics.median(r["ours_ms"] for r in rows), 1),
        "baseline_ms_p50": None,
        "rows": rows,
    }
    if baseline:
        out["baseline_wer"] = round(rate(zip(wanted, (r["stock_heard"] for r in rows), strict=True)), 2)
        out["ratio"] = round(statistics.median(r["ours_ms"] / r["stock_ms"] for r in rows), 3)
        out["total_ratio"] = round(sum(r["ours_ms"] for r in rows) / sum(r["stock_ms"] for r in rows), 3)
        out["baseline_ms_p50"] = round(statistics.median(r["stock_ms"] for r in rows), 1)
    return out


def _stock(model: Path, settings: WhisperSettings) -> Callable[[Audio], str]:
    from faster_whisper import WhisperModel

    whole = WhisperModel(
        str(model), device=settings.device, compute_type=settings.compute_type, cpu_threads=settings.threads
    )
    language = settings.language or None

    def transcribe(audio: Audio) -> str:
        segments, _ = whole.transcribe(audio, language=language)
        return "".join(segment.text for segment in segments)

    return transcribe


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise MissingError(f"{path} is missing", hint="appliance models pull recordings") from error


def _audio(path: Path) -> Audio:
    return open_audio(path).read()
