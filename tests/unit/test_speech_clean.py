"""Markup goes while the text streams in, and it does not matter how the stream is cut."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.speech.clean import StreamCleaner

CASES = [
    ("# Title\n\n- one\n  - two\n    - three\n\nText.", "Title\none\ntwo\nthree\nText."),
    ("1. First\n2. Second\n", "1. First\n2. Second"),
    ("* a\n+ b\n• c", "a\nb\nc"),
    ("- [ ] todo\n- [x] done", "todo\ndone"),
    ("> quote\n> more", "quote\nmore"),
    ("Setext\n======\ntext", "Setext\ntext"),
    ("---\nRule\n***\n", "Rule"),
    ("| a | b |\n|---|---|\n| 1 | **2** |\nAfter.", "a, b.\n1, 2.\nAfter."),
    ("a | b\n--|--\n1 | 2", "a, b\n1, 2"),
    ("A [link](http://x.org/a_(b)) and ![img](a.png) end", "A link and img end"),
    ("[a][b] ref\n\n[b]: http://x", "a ref"),
    ("Note[^1] here [2].\n\n[^1]: The note.", "Note here."),
    ("See <https://www.x.org/a?b=1>, or http://y.org.", "See x.org, or y.org."),
    ("```py\nx=1\n```\nok", "ok"),
    ("~~~~\ncode\n~~~~\nx", "x"),
    ("Use `code` and ``a`b`` now.", "Use code and ab now."),
    ("```\nnever closed", ""),
    ("<b>bold</b> and <br/> line <!-- a\ncomment --> more", "bold and line more"),
    ("&amp; R&amp;D &nbsp;x", "& R&D x"),
    ("**Note:** a * b * c ***wow*** _it_ __is__ ~~gone~~ **in**side", "Note: a * b * c wow it is gone inside"),
    ("snake_case, 2**3, 5*3, \\*no\\* and __init__", "snake_case, 2**3, 5*3, *no* and init"),
    ("Hi 😀 there 👨‍👩‍👧! 1️⃣ ❤️ 🇩🇪 ok", "Hi there! 1 ok"),
    ("The formula \\( x^2 \\) is good.", "The formula x^2 is good."),
    ("$$\\frac{1}{2} \\times \\sqrt{16}$$ done", "1 over 2 × the square root of 16 done"),
    ("\\[\n a = b \\]\nthen", "a = b\nthen"),
    ("$x$ costs $5 and $6.", "x costs $5 and $6."),
    ("<think>secret\n```\nthought</think>The answer is 4.", "The answer is 4."),
    ("<think>a</think>b <think>c</think> d", "b d"),
    ("<think>never closed", ""),
    ("3 < 5 is true, c > d, x<y, I <3 you", "3 < 5 is true, c > d, x<y, I <3 you"),
    ("[open link", "[open link"),
    ("你好。再见！", "你好。再见！"),
]


def stream(text: str, sizes: list[int]) -> str:
    """Cleaned in pieces of these sizes, over and over."""
    cleaner, out, at, turn = StreamCleaner(), "", 0, 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        out += cleaner.feed(text[at : at + size])
        at, turn = at + size, turn + 1
    return out + cleaner.flush()


@pytest.mark.parametrize(("raw", "clean"), CASES)
def test_markup_is_gone_however_it_is_cut(raw: str, clean: str) -> None:
    assert {stream(raw, [size]) for size in (1, 2, 3, 7, 1000)} == {clean}


SIGNS = (
    "a|b1 |. |, |: |! |\n|\n\n| |  |\t|*|**|_|`|```|~~~|~|#|## |- |+ |> |- [ ] |[|]|(|)|](|[1]|[^a]|]: |!|<|>|<b>|"
    "</b>|<!--|-->|<think>|</think>|<thin|http://x.org/|www.|.|,|\\|\\(|\\)|\\[|\\]|$|$$|1. |--|---|===|😀|&amp;|&|é|"
    "。|word |\\*|\u200b|\r\n|\u00a0|x^{2}|\\frac{1}{2}"
).split("|")
LONG = ("|", " | ", "|-|", "a" * 30, "a b c d e f g h " * 5, "-" * 50, "x" * 410)
MARKUP = st.lists(st.sampled_from((*SIGNS, *LONG)), max_size=40).map("".join)


@given(MARKUP | st.text(max_size=80), st.lists(st.integers(1, 30), min_size=1, max_size=6))
@settings(deadline=None, max_examples=600)
def test_any_cutting_gives_the_same_text(text: str, sizes: list[int]) -> None:
    assert stream(text, sizes) == stream(text, [max(1, len(text))])


@given(MARKUP)
@settings(deadline=None, max_examples=200)
def test_little_is_held_back(text: str) -> None:
    cleaner = StreamCleaner()
    for sign in text:
        cleaner.feed(sign)
        assert len(cleaner._raw) <= 400  # what waits inside is bounded


@given(st.lists(st.from_regex(r"[a-zA-Zé]{1,12}[,.]?", fullmatch=True), min_size=1, max_size=30))
def test_plain_words_stay_and_wait_for_no_more_than_the_next_letter(words: list[str]) -> None:
    text = " ".join(words)
    cleaner, out = StreamCleaner(), ""
    for i, word in enumerate(words):
        out += cleaner.feed(word + " ")
        assert out.split() == words[: i + 1]
    assert (out + cleaner.flush()).strip() == text


def test_no_markup_of_a_long_answer_is_left() -> None:
    answer = "\n\n".join(raw for raw, _ in CASES if "think" not in raw and "never" not in raw and "[open" not in raw)
    assert not re.search(r"https?:|\]\(|```|<b>|&amp;|\\frac", stream(answer, [4]))
