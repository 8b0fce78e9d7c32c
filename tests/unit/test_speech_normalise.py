"""What is written, as it is said: a golden corpus, and what must hold for any text."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.speech.normalise import normalise

CORPUS = Path(__file__).with_name("corpus") / "normalise_en.tsv"
PAIRS = [tuple(line.split("\t")) for line in CORPUS.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(("written", "said"), PAIRS)
def test_corpus(written: str, said: str) -> None:
    assert normalise(written) == said


@pytest.mark.parametrize(
    ("language", "written", "said"),
    [
        ("de", "Es ist 10:30 Uhr", "Es ist zehn Uhr dreißig"),
        ("de", "3,50 €", "drei Euro fünfzig"),
        ("de", "20 %", "zwanzig Prozent"),
        ("de", "-5 °C", "minus fünf Grad"),
        ("fr", "10h30", "dix heures trente"),
        ("fr", "3,50 €", "trois euros cinquante"),
        ("es", "20 %", "veinte por ciento"),
        ("it", "3,50 €", "tre euro e cinquanta"),
    ],
)
def test_other_languages(language: str, written: str, said: str) -> None:
    assert normalise(written, language) == said


@given(st.text(max_size=200), st.sampled_from(["en", "de", "es", "fr", "it", "xx"]))
@settings(max_examples=200, deadline=None)
def test_any_text_is_taken(text: str, language: str) -> None:
    assert len(normalise(text, language)) <= 200 + 60 * len(text)


@given(st.integers(0, 10**18))
@settings(deadline=None)
def test_no_digit_of_a_plain_integer_is_left(number: int) -> None:
    assert not re.search(r"\d", normalise(f"It is {number} now."))


@given(st.lists(st.from_regex(r"[a-z]{2,10}", fullmatch=True), min_size=1, max_size=8))
def test_plain_words_stay(words: list[str]) -> None:
    once = normalise(" ".join(words))
    assert normalise(once) == once
