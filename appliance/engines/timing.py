"""Where words lie in synthesised speech: phonemes to words, durations to seconds.

Pure. Words and phoneme groups are matched one to one where their counts agree; where a language joins or splits
words (numbers, contractions), they are placed in proportion to their letters and marked as estimated.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from appliance.engines.ports import Word


@dataclass(frozen=True, slots=True)
class Placed:
    """One word and the phonemes it takes, as a range within its sentence."""

    text: str
    first: int
    end: int


def place(text: str, sentences: Sequence[Sequence[str]]) -> tuple[list[list[Placed]], bool]:
    """Words of `text` a sentence, and whether their places are estimated.

    `sentences` hold phonemes with " " between words. Punctuation counts to the word before it.
    """
    spoken = [w for w in text.split() if any(c.isalnum() for c in w)]
    groups = [(i, first, end) for i, phonemes in enumerate(sentences) for first, end in _groups(phonemes)]
    placed: list[list[Placed]] = [[] for _ in sentences]
    if not groups or not spoken:
        return placed, False
    if len(spoken) == len(groups):
        for word, (i, first, end) in zip(spoken, groups, strict=True):
            placed[i].append(Placed(word, first, end))
        return placed, False
    ends = list(accumulate(end - first for _, first, end in groups))
    letters = [0, *accumulate(len(w) for w in spoken)]
    scale = ends[-1] / letters[-1]
    starts = [_at(groups, ends, p * scale) for p in letters[:-1]]
    closing = {i: end for i, _, end in groups}
    for word, (i, first), following in zip(spoken, starts, [*starts[1:], (-1, 0)], strict=True):
        end = following[1] if following[0] == i else closing[i]
        placed[i].append(Placed(word, first, max(end, first + 1)))
    return placed, True


def timed(placed: Sequence[Placed], durations: Sequence[float]) -> tuple[Word, ...]:
    """Words in seconds from the start of their sentence; `durations` are seconds a phoneme."""
    edges = [0.0, *accumulate(durations)]
    return tuple(Word(p.text, edges[p.first], edges[min(p.end, len(durations))]) for p in placed)


def shifted(words: Sequence[Word], seconds: float) -> tuple[Word, ...]:
    """The same words `seconds` later; never before 0."""
    return tuple(replace(w, start=max(0.0, w.start + seconds), end=max(0.0, w.end + seconds)) for w in words)


def _groups(phonemes: Sequence[str]) -> list[tuple[int, int]]:
    """Ranges between blanks that hold at least one letter; a range without joins the one before."""
    ranges: list[tuple[int, int]] = []
    for match in re.finditer(r"[^ ]+", "".join(p[:1] for p in phonemes)):
        if any(c.isalpha() for c in match[0]):
            ranges.append(match.span())
        elif ranges:
            ranges[-1] = (ranges[-1][0], match.end())
    return ranges


def _at(groups: Sequence[tuple[int, int, int]], ends: Sequence[int], position: float) -> tuple[int, int]:
    """Sentence and phoneme at `position`, counted in phonemes of words only."""
    g = min(bisect_right(ends, position), len(groups) - 1)
    sentence, first, end = groups[g]
    return sentence, first + int(position - (ends[g] - (end - first)))
