"""Windows, cuts, repeats, word errors: the pure side of recognition."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.bench.asr import errors, normalised, rate
from appliance.engines import utterance
from appliance.engines.ports import RATE, Transcript


@pytest.mark.parametrize(("speech", "window"), [(0.3, 6.0), (3.0, 6.0), (3.1, 6.5), (10.0, 13.0), (27.5, 30.0)])
def test_the_window_leaves_silence_behind_the_speech(speech, window):
    assert utterance.window_s(speech, least_s=6, pad_s=3, step_s=0.5, most_s=30) == window


@settings(deadline=None, max_examples=30)
@given(st.floats(0.2, 100), st.integers(0, 1000))
def test_cuts_cover_everything_once_and_stay_short(seconds, seed):
    audio = np.random.default_rng(seed).normal(0, 0.1, int(seconds * RATE)).astype(np.float32)
    ranges = list(utterance.cut(audio, most_s=27, search_s=6))
    assert ranges[0][0] == 0
    assert ranges[-1][1] == len(audio)
    assert all(a[1] == b[0] for a, b in pairwise(ranges))
    assert all(0 < end - begin <= 27 * RATE for begin, end in ranges)


def test_a_cut_falls_into_the_pause():
    audio = np.random.default_rng(0).normal(0, 0.1, 40 * RATE).astype(np.float32)
    audio[24 * RATE : int(24.4 * RATE)] = 0
    (_, end), _ = utterance.cut(audio, most_s=27, search_s=6)
    assert 24 * RATE < end < 24.4 * RATE


@pytest.mark.parametrize(
    ("text", "loops"),
    [
        ("The quick brown fox jumps. The quick brown fox jumps.", True),
        ("no no no no no", True),
        ("no, no, no", False),
        ("one two three four five six seven. One two three four", True),
        ("five five five", False),
        ("thank you. thank you. thank you.", True),
        ("I said that you said that I said it", False),
        ("", False),
    ],
)
def test_repeats(text, loops):
    assert utterance.repeats(text) is loops


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("Stop. Stop.", "Stop."),
        ("No? No? No? No", "No?"),
        ("wait Wait WAIT", "wait"),
        ("Who wrote it? Who wrote it? Who", "Who wrote it?"),
        ("who wrote it, who wrote it, who wro", "who wrote it"),
        ("no, no, yes", ""),
        ("I, I in", ""),
        ("five five four", ""),
        ("Stop.", ""),
        ("", ""),
    ],
)
def test_once(text, phrase):
    assert utterance.once(text) == phrase


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("10 of clubs.", "ten of clubs"),
        ("The M.F.A. is here", "the m f a is here"),
        ("Um, 342!", "three hundred forty two"),
    ],
)
def test_words_that_count_as_the_same(a, b):
    assert normalised(a) == normalised(b)


def test_word_errors():
    assert errors("a b c".split(), "a x c d".split()) == 2
    assert rate([("one two three four", "1 2 3"), ("yes", "yes")]) == pytest.approx(20.0)


def _heard(text: str, reason: str = "", logprob: float = -0.3) -> Transcript:
    return Transcript(text, "en", logprob=logprob, reason=reason)


@pytest.mark.parametrize(
    ("heard", "quick", "wanted"),
    [
        (_heard("Yes."), False, False),
        (_heard("Yes.", logprob=-0.9), False, True),
        (_heard("Yes.", logprob=-0.9), True, False),
        (_heard("Yes.", utterance.DOUBTED), False, True),
        (_heard("Yes.", utterance.DOUBTED), True, False),
        (_heard("Thank you.", "phantom"), False, False),
        (_heard("help help help", utterance.ENDLESS), True, True),
    ],
)
def test_who_gets_a_second_look(heard, quick, wanted):
    assert utterance.wants_second_look(heard, -0.6, quick=quick) is wanted


@pytest.mark.parametrize(
    ("heard", "again", "text", "reason"),
    [
        (_heard("yes", utterance.DOUBTED), _heard("Yes?", logprob=-0.9), "Yes?", ""),
        (_heard("yes", utterance.DOUBTED), _heard("S"), "yes", utterance.DOUBTED),
        (_heard("yes", utterance.DOUBTED), _heard("Yes.", utterance.DOUBTED), "yes", utterance.DOUBTED),
        (_heard("a ten", logprob=-0.9), _heard("attend", logprob=-0.4), "attend", ""),
        (_heard("a ten", logprob=-0.9), _heard("attend", logprob=-1.0), "a ten", ""),
        (_heard("help help", utterance.ENDLESS), _heard("Help.", logprob=-2.0), "Help.", ""),
        (_heard("no, no, no", utterance.ENDLESS), _heard("no, no, no", utterance.REPEATED), "no, no, no", ""),
        (_heard("no, no", utterance.REPEATED), _heard("no, no", utterance.ENDLESS), "no, no", utterance.ENDLESS),
    ],
)
def test_what_is_believed_after_it(heard, again, text, reason):
    found = utterance.believed(heard, again)
    assert (found.text, found.reason) == (text, reason)
