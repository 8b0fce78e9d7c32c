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


def clauses_of(text: str) -> list[str]:
    return [clause.text for clause in stream(text, 5)[1]]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("To be honest, I do not know.", "To be honest,"),
        ("Sure! Here are three kinds of fruit: apples and pears.", "Sure!"),
        ("Water freezes at 0 degrees Celsius or 32 degrees Fahrenheit.", "Water freezes at 0 degrees Celsius"),
        ("The largest ocean on Earth is the Pacific Ocean, by far.", "The largest ocean on Earth"),
        (
            "Hamlet was written by William Shakespeare between 1599 and 1601.",
            "Hamlet was written by William Shakespeare",
        ),
        ("Mars is known as the Red Planet because of its dust.", "Mars is known as the Red Planet"),
        ("The capital of France is Paris. It is old.", "The capital of France is Paris."),
        ("Dr. Smith, who lives here, is out.", "Dr. Smith,"),
        ("Read pages 3 - 5 first, then go on.", "Read pages 3 - 5 first,"),
        ("In about 1,500 small and very old villages people still spin.", "In about 1,500 small"),
    ],
)
def test_first_clauses_end_where_a_speaker_may_breathe(text: str, first: str) -> None:
    assert clauses_of(text)[0] == first


def test_an_item_is_said_with_its_number() -> None:
    assert clauses_of("Of course! 1. Apples\n2. Pears\n3. Figs") == ["Of course!", "1. Apples", "2. Pears", "3. Figs"]


def test_a_sentence_that_has_surely_ended_does_not_wait_for_the_next_one() -> None:
    chunker = Chunker(ChunkSettings())
    assert [c.text for c in chunker.feed("It is Paris. ")] == ["It is Paris."]
    assert chunker.feed("He sells fruit, etc. ") == []


def test_the_second_clause_of_a_long_sentence_does_not_wait_for_its_end() -> None:
    text = "Well, if you ask me, one, two, three, " + "and then one more, " * 12 + "it goes on."
    lengths = [len(clause.split()) for clause in clauses_of(text)]
    assert lengths[1] <= 14
    assert max(lengths) <= 41


LEANING = frozenset("a an the of to in on at by my your with for from is are and or but".split())
WORDS = st.sampled_from(
    "the a of in Paris France cities people and because is was very old Dr. U.S. 3.14 1,500 km/h www.x.org apples, "
    "pears; end. Well! Really? (maybe) e.g. walking slowly by New York million \n 3 - 5".split(" ")
)


@given(st.lists(WORDS, max_size=60), st.integers(1, 9))
@settings(deadline=None, max_examples=200)
def test_no_clause_ends_in_the_middle_of_anything(words: list[str], size: int) -> None:
    text, clauses = stream(" ".join(words), size)
    for clause in clauses[:-1]:
        assert any(sign.isspace() for sign in text[clause.end - 1 : clause.end + 1])
    if len(clauses) > 1 and clauses[0].text[-1].isalnum() and "\n" not in text[: clauses[0].end + 1]:
        assert clauses[0].text.split()[-1].lower() not in LEANING
        assert len(clauses[0].text.split()) >= 2


@given(st.lists(WORDS, max_size=60), st.integers(1, 9))
@settings(deadline=None, max_examples=200)
def test_clauses_without_white_space_are_the_text(words: list[str], size: int) -> None:
    text, clauses = stream(" ".join(words), size)
    spoken = "".join("".join(clause.text.split()) for clause in clauses)
    # A piece without any letter or figure, a lone dash, is nobody's clause.
    assert [c for c in spoken if c.isalnum()] == [c for c in text if c.isalnum()]


@pytest.mark.parametrize("language", ["de", "es", "fr", "it", "xx"])
def test_other_languages_are_cut_too(language: str) -> None:
    chunker = Chunker(ChunkSettings(), language)
    clauses = [*chunker.feed("Eins, zwei. Drei vier fünf. "), *chunker.flush()]
    assert len(clauses) == 2


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
