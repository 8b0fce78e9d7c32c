"""Words against tokens: what of an earlier wording can stay, where a turn's last word ends, what was spoken.

Pure text functions. They know neither models nor tokens.
"""

import re

_WORD = re.compile(r"\S+")


def _key(word: str) -> str:
    return "".join(c for c in word.casefold() if c.isalnum())


def _spans(text: str) -> list[tuple[str, int]]:
    """(key, end offset of the word without its trailing punctuation) of each word that has letters or digits."""
    words = [(match.group(), match.end()) for match in _WORD.finditer(text)]
    return [(_key(word), end - len(_tail_of(word))) for word, end in words if _key(word)]


def _tail_of(text: str) -> str:
    end = len(text)
    while end and not text[end - 1].isalnum():
        end -= 1
    return text[end:]


def split_end(words: str) -> tuple[str, str]:
    """`words` as (up to the last letter or digit, the punctuation behind it)."""
    text = words.strip()
    tail = _tail_of(text)
    return (text[: len(text) - len(tail)], tail) if len(tail) < len(text) else (text, "")


def merge(evaluated: str, wanted: str) -> str:
    """`wanted`, in the spelling of `evaluated` as far as the words are the same.

    A final transcript often differs from its draft in case and commas only. What the model has read already is kept
    then; words that differ, and all behind them, come from `wanted`. So does the punctuation at the very end.
    """
    old, new = _spans(evaluated), _spans(wanted)
    same = 0
    while same < min(len(old), len(new)) and old[same][0] == new[same][0]:
        same += 1
    if same == 0:
        return wanted.strip()
    return (evaluated[: old[same - 1][1]] + wanted[new[same - 1][1] :]).strip()


def spoken_end(generated: str, spoken: str) -> int | None:
    """How many characters of `generated` were said, when `spoken` is what the listener heard of it.

    Letters and digits decide; case, markup and punctuation may differ. Punctuation directly behind the last spoken
    letter belongs to it when `spoken` has it too. None when `spoken` is not a beginning of `generated`.
    """
    place = 0
    for c in spoken:
        if not c.isalnum():
            continue
        while place < len(generated) and not generated[place].isalnum():
            place += 1
        if place == len(generated) or generated[place].casefold() != c.casefold():
            return None
        place += 1
    for c in _tail_of(spoken):
        if place < len(generated) and generated[place] == c:
            place += 1
    return place


def same_words(a: str, b: str) -> bool:
    """Whether two wordings have the same letters and digits."""
    return _key(a) == _key(b)
