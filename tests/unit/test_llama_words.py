"""What of an earlier wording stays, where words end, what was spoken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.engines.llama.words import merge, same_words, split_end, spoken_end


@pytest.mark.parametrize(
    ("evaluated", "wanted", "merged"),
    [
        ("what time is it", "What time is it?", "what time is it?"),
        ("hello what time", "Hello, what time is it in Rome?", "hello what time is it in Rome?"),
        ("turn on the light", "turn off the light", "turn off the light"),
        ("", "Yes.", "Yes."),
        ("no", "Yes.", "Yes."),
        ("Is it, well, warm?", "is it well warm", "Is it, well, warm"),
        ("what's up", "What's up, doc?", "what's up, doc?"),
        ("...", "Yes.", "Yes."),
    ],
)
def test_merge_keeps_the_spelling_that_was_read(evaluated: str, wanted: str, merged: str) -> None:
    assert merge(evaluated, wanted) == merged


@given(st.text(max_size=40), st.text(max_size=40))
def test_merge_never_changes_what_was_said(evaluated: str, wanted: str) -> None:
    assert same_words(merge(evaluated, wanted), wanted)


@pytest.mark.parametrize(
    ("words", "parts"),
    [("What time is it?", ("What time is it", "?")), ("yes", ("yes", "")), ("?!", ("?!", "")), ("", ("", ""))],
)
def test_split_end(words: str, parts: tuple[str, str]) -> None:
    assert split_end(words) == parts


@pytest.mark.parametrize(
    ("generated", "spoken", "said"),
    [
        ("The **capital** is Paris. It lies", "The capital is Paris.", "The **capital** is Paris."),
        ("The capital is Paris.", "The capital", "The capital"),
        ("One, two, three", "one two", "One, two"),
        ("Hello", "", ""),
    ],
)
def test_spoken_end_finds_the_cut(generated: str, spoken: str, said: str) -> None:
    end = spoken_end(generated, spoken)
    assert end is not None
    assert generated[:end] == said


def test_other_words_have_no_cut() -> None:
    assert spoken_end("The capital is Paris.", "The town is Paris.") is None
    assert spoken_end("Short", "Short and more") is None


@given(st.text(max_size=60), st.integers(0, 60))
def test_any_beginning_is_found(text: str, count: int) -> None:
    end = spoken_end(text, text[:count])
    assert end is not None
    assert same_words(text[:end], text[:count])
