"""Clauses and cleaning as the text streams in, in pieces of any size."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.speech.chunker import Chunker, ChunkSettings, Clause
from appliance.speech.clean import StreamCleaner


def stream(text: str, size: int) -> tuple[str, list[Clause]]:
    """The cleaned text and its clauses, fed `size` characters at a time."""
    cleaner, chunker = StreamCleaner(), Chunker(ChunkSettings())
    clean, clauses = "", []
    for at in range(0, len(text), size):
        piece = cleaner.feed(text[at : at + size])
        clean += piece
        clauses += chunker.feed(piece)
    piece = cleaner.flush()
    clauses += chunker.feed(piece) + chunker.flush()
    return clean + piece, clauses


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("**Paris** is the capital of France.", "Paris is the capital of France."),
        ("***wow*** _it_ __is__ ~~gone~~ fine", "wow it is gone fine"),
        ("Use `code` and [link](https://x.org/a_b) now.", "Use code and link now."),
        ("<think>secret\nthought</think>The answer is 4.", "The answer is 4."),
        ("<think>never closed", ""),
        ("Hello 😀 world! snake_case and 2 * 3 = 6.", "Hello world! snake_case and 2 * 3 = 6."),
        ("```python\nprint(1)\n```\nThere.", "There."),
        ("3 < 5 is true, c > d.", "3 < 5 is true, c > d."),
        ("# Title\n\n- one\n- two", "Title one two"),
    ],
)
def test_markup_is_gone_however_it_is_cut(raw: str, clean: str, size: int) -> None:
    assert " ".join(stream(raw, size)[0].split()) == clean


def test_no_sentence_ends_at_an_abbreviation_or_a_decimal() -> None:
    text = "Dr. Smith is 3.14 years old. He lives in the U.S. with his dog, e.g. a poodle. Fine!"
    assert [c.text for c in stream(text, 3)[1]] == [
        "Dr. Smith is 3.14 years old.",
        "He lives in the U.S. with his dog, e.g. a poodle.",
        "Fine!",
    ]


def test_the_first_clause_goes_before_its_sentence_ends() -> None:
    chunker = Chunker(ChunkSettings())
    assert [c.text for c in chunker.feed("Well, as you know, ")] == ["Well, as you know,"]


@given(st.text("ab cd. ,!?:;-1\n", max_size=200), st.integers(1, 9))
@settings(deadline=None, max_examples=150)
def test_clauses_cover_the_text_in_order(text: str, size: int) -> None:
    chunker, clauses = Chunker(ChunkSettings()), []
    for at in range(0, len(text), size):
        clauses += chunker.feed(text[at : at + size])
    clauses += chunker.flush()
    at = 0
    for clause in clauses:
        assert at <= clause.start < clause.end <= len(text)
        assert text[clause.start : clause.end].strip() == clause.text
        assert not any(c.isalnum() for c in text[at : clause.start])
        at = clause.end
    assert not any(c.isalnum() for c in text[at:])
