"""Text as it streams in, clauses as they may be spoken: the first one early, later ones whole sentences.

Owns where an answer is cut for the voice. The first clause goes at the first natural break after a few words, since
someone is waiting; later ones grow, since a voice sounds better over a whole sentence. It knows neither voice nor
model. Clauses cover the text without gaps: `start` and `end` count characters of everything fed so far.
"""

import re
from dataclasses import dataclass

import sentencex


@dataclass(frozen=True, slots=True)
class ChunkSettings:
    """Lengths in words."""

    first_least_words: int = 2  # at a comma or a natural break, from here on
    first_most_words: int = 7  # without any break: before a joining word, or at last between words
    later_least_words: int = 5  # a later clause may end at a comma from here on
    later_most_words: int = 40


@dataclass(frozen=True, slots=True)
class Clause:
    """`text` without outer white space; it stands in the whole text within `start` up to `end`."""

    text: str
    start: int
    end: int


# A break is punctuation with white space behind it: "3,000" and "10:30" have none.
_BREAK = re.compile(r"[,;:—–](?=\s)|\s[—–-](?=\s)|\.\.\.(?=\s)|…(?=\s)|\)(?=\s)")
# What comes behind a word that joins is said in one breath with it, so the cut lies before it.
_JOINING = frozenset(
    (
        "and but or so because which that who when while where if as than then with for from into about und aber oder "
        "weil dass denn wenn mit y pero o porque que con cuando et mais ou parce car avec quand e ma perché che con "
        "quando"
    ).split()
)
# Never the last word of a clause: what it belongs to is still to come.
_LEANING = frozenset(
    (
        "a an the of to in on at by over under up out as or and but my your his her its our their this these those is are was were no not der die das "
        "ein eine einen im am zu von el la los las un una de del le les des du au il lo gli uno di"
    ).split()
)
_WORD = re.compile(r"\S+")


class Chunker:
    """`feed` text, get the clauses that became certain; `flush` gives the rest. One answer each."""

    def __init__(self, settings: ChunkSettings, language: str = "en") -> None:
        self._settings = settings
        self._language = language
        self._text = ""  # not yet given away
        self._start = 0
        self._given = 0

    def feed(self, text: str) -> list[Clause]:
        """The clauses that are certain with `text`; usually none or one."""
        self._text += text
        clauses = []
        while (cut := self._cut()) is not None:
            clauses += self._give(cut)
        return clauses

    def flush(self) -> list[Clause]:
        """Whatever is left, as one clause a sentence. Nothing may be fed afterwards."""
        clauses = self.feed("")
        clauses += self._give(len(self._text))
        return clauses

    def _give(self, cut: int) -> list[Clause]:
        piece, self._text = self._text[:cut], self._text[cut:]
        start, self._start = self._start, self._start + cut
        text = piece.strip()
        if not any(c.isalnum() for c in text):
            return []
        self._given += 1
        return [Clause(text, start, self._start)]

    def _cut(self) -> int | None:
        """Where the next clause ends in the waiting text, if that is certain."""
        sentence = self._sentence_end()
        if self._given == 0:
            early = self._first_cut(len(self._text) if sentence is None else sentence)
            if early is not None:
                return early
            return sentence
        if sentence is not None:
            return sentence
        return self._later_cut()

    def _sentence_end(self) -> int | None:
        """End of the first sentence once the next one has begun: only what follows tells "Dr." from an end."""
        if not re.search(r"[.!?。！？\n]", self._text):
            return None
        newline = self._text.find("\n")
        if newline >= 0 and self._text[:newline].strip():
            return newline + 1
        sentences = list(sentencex.segment(self._language, self._text))
        if len(sentences) < 2 or not sentences[1].strip():
            return None
        return len(sentences[0])

    def _first_cut(self, within: int) -> int | None:
        """The early cut of the first clause: at a break, else before a joining word or between words."""
        head = self._text[:within]
        for match in _BREAK.finditer(head):
            if len(head[: match.end()].split()) >= self._settings.first_least_words:
                return match.end()
        words = list(_WORD.finditer(head))
        most = self._settings.first_most_words
        if len(words) <= most or len(words) - most < 2:
            return None  # a word or two more are not worth a cut of their own
        for i in range(most, 2, -1):
            if words[i].group().lower() in _JOINING and words[i - 1].group().lower() not in _LEANING:
                return words[i].start()
        for i in range(most, 2, -1):
            if words[i - 1].group().lower() not in _LEANING:
                return words[i].start()
        return None

    def _later_cut(self) -> int | None:
        """A long sentence is cut at its last break once it has grown too long for one breath."""
        words = self._text.split()
        if len(words) <= self._settings.later_most_words:
            return None
        cuts = [m.end() for m in _BREAK.finditer(self._text)]
        least = self._settings.later_least_words
        good = [cut for cut in cuts if len(self._text[:cut].split()) >= least]
        if good:
            return good[-1]
        return list(_WORD.finditer(self._text))[self._settings.later_most_words].start()
