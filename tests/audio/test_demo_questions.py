"""The recordings of the demo say their texts, to the transcriber of either pack, and are as listed."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from appliance.bench.asr import errors, normalised
from appliance.demo import folder, questions
from appliance.engines.ports import CancelToken, Priority
from appliance.engines.whisper import Whisper, WhisperSettings
from appliance.engines.worker import Worker


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
@pytest.mark.parametrize("model", ["whisper-base", "whisper-tiny.en"])
def test_the_transcriber_hears_the_texts(models_root: Path, model: str) -> None:
    """Word error rate over all questions at most 6 %, with the model of either pack."""
    worker = Worker("asr")
    engine = Whisper(models_root / model, WhisperSettings(), worker)
    try:
        heard = [
            asyncio.run(engine.transcribe(q.open().read(), priority=Priority.FINAL, cancel=CancelToken())).text
            for q in questions()
        ]
    finally:
        engine.close()
        worker.stop()
    pairs = [(normalised(q.text), normalised(text)) for q, text in zip(questions(), heard, strict=True)]
    wrong = sum(errors(said, words) for said, words in pairs)
    assert wrong / sum(len(said) for said, _ in pairs) <= 0.06, [pair for pair in pairs if pair[0] != pair[1]]
