"""Edges, word times and the model cutter: the pure side of speaking."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.engines import timing
from appliance.engines.edges import Trimmer
from appliance.engines.onnx_cut import Graph


def trimmed(audio: np.ndarray, sizes: list[int]) -> np.ndarray:
    trimmer, out = Trimmer(1000, lead_ms=5, tail_ms=50, silence=0.01), []
    at = 0
    for size in sizes:
        out.append(trimmer.feed(audio[at : at + size]))
        at += size
    out += [trimmer.feed(audio[at:]), trimmer.finish()]
    return np.concatenate(out)


@settings(deadline=None)
@given(st.lists(st.integers(0, 400), max_size=6), st.integers(0, 300), st.integers(1, 300), st.integers(0, 300))
def test_pieces_are_trimmed_as_the_whole(sizes, lead, sound, tail):
    audio = np.concatenate((np.zeros(lead), np.full(sound, 0.5), np.zeros(tail))).astype(np.float32)
    whole = trimmed(audio, [])
    assert np.array_equal(trimmed(audio, sizes), whole)
    assert len(whole) == min(lead, 5) + sound + min(tail, 50)


def test_silence_inside_a_clause_is_kept():
    audio = np.concatenate((np.full(50, 0.5), np.zeros(400), np.full(50, 0.5))).astype(np.float32)
    assert len(trimmed(audio, [100, 100, 100])) == 500


def test_nothing_sounds():
    assert not len(trimmed(np.zeros(500, np.float32), [100]))


def test_words_match_phoneme_groups_one_to_one():
    placed, estimated = timing.place("Hi, you!", [list("haɪ, juː!")])
    assert not estimated
    words = timing.timed(placed[0], [0.1] * 9)
    assert [(w.text, round(w.start, 3), round(w.end, 3)) for w in words] == [("Hi,", 0.0, 0.4), ("you!", 0.5, 0.9)]


@settings(deadline=None)
@given(st.lists(st.text("abcdefg", min_size=1, max_size=8), min_size=1, max_size=8), st.integers(1, 8))
def test_estimated_words_stay_in_order_and_inside(words, groups):
    phonemes = list(" ".join("abc"[: 1 + i % 3] for i in range(groups)))
    placed, _ = timing.place(" ".join(words), [phonemes])
    times = timing.timed(placed[0], [0.1] * len(phonemes))
    assert [w.text for w in times] == words
    assert all(a.start <= b.start for a, b in pairwise(times))
    assert all(0 <= w.start < w.end <= 0.1 * len(phonemes) + 1e-9 for w in times)


@pytest.mark.parametrize("junk", [b"", b"RIFF....WAVE", b"\xff" * 40, bytes(range(64))])
def test_what_is_no_model_is_refused(junk):
    with pytest.raises(ValueError, match=r"ONNX|protobuf"):
        Graph(junk)
