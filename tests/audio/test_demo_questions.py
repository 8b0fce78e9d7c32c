"""The recordings of the demo say their texts: read by the stock pipeline, not by ours."""

import re
from pathlib import Path

import numpy as np
import pytest

from appliance.demo import folder, questions


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9']+", text.lower())


def errors(said: list[str], heard: list[str]) -> int:
    """Word errors: the edit distance."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(said, 1):
        left, row[0] = row[0], i
        for j, other in enumerate(heard, 1):
            left, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, left + (word != other))
    return row[-1]


def test_the_package_carries_ten_questions_in_several_voices_and_rates() -> None:
    listed = questions()
    assert len(listed) >= 8
    assert len({q.voice for q in listed}) >= 2
    assert len({q.sample_rate for q in listed}) >= 2
    assert sum(q.pause_ms > 0 for q in listed) == 2
    assert {q.file for q in listed} == {path.name for path in folder().glob("*.flac")}
    assert sum(path.stat().st_size for path in folder().glob("*")) < 2_000_000
    for question in listed:
        assert question.open().rate == question.sample_rate


def test_the_pauses_are_where_the_list_says() -> None:
    for question in questions():
        if not question.pause_ms:
            continue
        audio = question.open().read()
        loud = np.array([np.sqrt(np.mean(audio[i : i + 160] ** 2)) > 0.003 for i in range(0, len(audio) - 160, 160)])
        spoken = np.flatnonzero(loud)
        longest_ms = 10 * int(np.diff(spoken).max())
        assert question.pause_ms - 20 <= longest_ms <= question.pause_ms + 300, (question.file, longest_ms)


@pytest.mark.models
def test_stock_whisper_hears_the_texts(models_root: Path) -> None:
    from faster_whisper import WhisperModel

    whisper = WhisperModel(str(models_root / "whisper-base"), device="cpu", compute_type="int8", local_files_only=True)
    wrong, total, misheard = 0, 0, []
    for question in questions():
        segments, _ = whisper.transcribe(question.open().read(), language="en", beam_size=1, temperature=0.0)
        heard = " ".join(segment.text for segment in segments)
        said = words(question.text)
        count = errors(said, words(heard))
        wrong, total = wrong + count, total + len(said)
        if count:
            misheard.append((question.text, heard))
    assert wrong / total <= 0.06, misheard
