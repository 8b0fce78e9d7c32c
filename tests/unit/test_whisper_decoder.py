"""Whisper's own decoder at toy size: the file is read as it was written, and the graphs do numpy's sums."""

import json
from pathlib import Path

import numpy as np
import pytest
from toy_whisper import LAYERS, POSITIONS, VOCABULARY, WIDTH, logits, toy_weights, write_model

from appliance.engines.ctranslate2_file import ModelFile
from appliance.engines.ports import CancelToken
from appliance.engines.whisper_decoder import Decoder, Drawn
from appliance.errors import Cancelled

ALIAS = {"decoder/projection/weight": "decoder/embeddings/weight"}
PROMPT, END, NEVER, NO_SPEECH = [5, 6, 7], 90, 11, 12


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_model(tmp_path / "model.bin", toy_weights(), ALIAS)
    (tmp_path / "config.json").write_text(json.dumps({"suppress_ids": [NEVER], "suppress_ids_begin": [END]}))
    return tmp_path


@pytest.fixture
def states() -> np.ndarray:
    return np.random.default_rng(1).normal(0, 1, (40, WIDTH)).astype(np.float32)


def decode(decoder: Decoder, states: np.ndarray, most: int = 12, expected: tuple[int, ...] = ()) -> Drawn:
    memory = decoder.memory(states[None])
    return decoder.greedy(memory, PROMPT, start=0, end=END, most=most, cancel=CancelToken(), expected=expected)


def by_hand(states: np.ndarray, most: int) -> tuple[list[int], float]:
    """The greedy transcript and the sum of its log-probabilities, by numpy."""
    ids: list[int] = []
    total = 0.0
    while True:
        row = logits(toy_weights(), states, [*PROMPT, *ids])[-1].astype(np.float64)
        row[NEVER] = -np.inf
        if not ids:
            row[END] = -np.inf
        picked = int(row.argmax())
        total += row[picked] - np.log(np.exp(row - row.max()).sum()) - row.max()
        if picked == END or len(ids) == most:
            return ids, total
        ids.append(picked)


def test_the_file_is_read_as_it_was_written(folder):
    file = ModelFile(folder / "model.bin")
    found = file.weights
    assert file.kind == "WhisperSpec"
    file.forget()
    for name, values in toy_weights().items():
        assert np.array_equal(found[name], values)
    assert np.array_equal(found["decoder/projection/weight"], found["decoder/embeddings/weight"])


def test_what_is_no_model_is_told(tmp_path, folder):
    whole = (folder / "model.bin").read_bytes()
    broken = tmp_path / "broken.bin"
    for data in (whole[:-100], whole[:50], b"GGUF" + whole[4:], b"x"):
        broken.write_bytes(data)
        with pytest.raises(ValueError, match=r"broken|version|alias|stands"):
            ModelFile(broken)
    write_model(broken, toy_weights(), {"decoder/projection/weight": "decoder/nothing"})
    with pytest.raises(ValueError, match="stands for"):
        ModelFile(broken)
    rounded = toy_weights() | {"decoder/embeddings/weight": np.zeros((VOCABULARY, WIDTH), np.int8)}
    write_model(folder / "model.bin", rounded, ALIAS)
    with pytest.raises(ValueError, match="rounded"):
        Decoder(folder, threads=1, no_speech=NO_SPEECH)


def test_tokens_and_probabilities_are_numpys(folder, states):
    decoder = Decoder(folder, threads=1, no_speech=NO_SPEECH)
    drawn = decode(decoder, states)
    ids, total = by_hand(states, 12)
    assert len(ids) > 3
    assert drawn.ids == ids
    assert drawn.logprob == pytest.approx(total / (len(ids) + 1), abs=0.02)
    first = logits(toy_weights(), states, PROMPT)[0]
    assert drawn.no_speech == pytest.approx(np.exp(first[NO_SPEECH]) / np.exp(first).sum(), rel=0.1)
    assert NEVER not in drawn.ids


@pytest.mark.parametrize("known", [1, 3, 8])
def test_expected_words_save_steps_and_change_nothing(folder, states, known, monkeypatch):
    decoder = Decoder(folder, threads=1, no_speech=NO_SPEECH)
    alone = decode(decoder, states)
    steps: list[int] = []
    run = decoder._run
    monkeypatch.setattr(decoder, "_run", lambda ids, *rest, **more: steps.append(len(ids)) or run(ids, *rest, **more))
    right = decode(decoder, states, expected=tuple(alone.ids[:known]))
    assert right.ids == alone.ids
    assert right.logprob == pytest.approx(alone.logprob, abs=0.01)
    assert len(steps) == 1 + len(alone.ids) - known
    wrong = decode(decoder, states, expected=(*alone.ids[: known - 1], NEVER, END, NEVER))
    assert wrong.ids == alone.ids


def test_a_memory_goes_on_with_another_ones_states(folder, states):
    decoder = Decoder(folder, threads=1, no_speech=NO_SPEECH)
    tail = decoder.memory(states[None, 20:])
    joined = decoder.memory(states[None, :20]).then(tail, 5, 20)
    whole = decoder.memory(np.concatenate((states[:20], states[25:]))[None])
    assert len(joined.arrays) == 2 * LAYERS
    for ours, theirs in zip(joined.arrays, whole.arrays, strict=True):
        assert ours.shape == theirs.shape
        assert np.abs(ours - theirs).max() < 0.05


def test_it_ends_at_the_bound_and_where_positions_end(folder, states):
    decoder = Decoder(folder, threads=1, no_speech=NO_SPEECH)
    assert len(decode(decoder, states, most=2).ids) == 2
    assert len(decode(decoder, states, most=500).ids) <= POSITIONS - len(PROMPT)


def test_it_stops_between_two_steps(folder, states):
    decoder = Decoder(folder, threads=1, no_speech=NO_SPEECH)
    token = CancelToken()
    token.cancel()
    with pytest.raises(Cancelled):
        decoder.greedy(decoder.memory(states[None]), PROMPT, start=0, end=END, most=9, cancel=token)
