"""Text as it streams in, clauses as they may be spoken: the first one early, later ones whole sentences.

Owns where an answer is cut for the voice. The first clause goes at the first natural break after a few words, since
someone is waiting; later ones grow, since a voice sounds better over a whole sentence. It knows neither voice nor
model. Clauses cover the text, but for pieces without any letter: `start` and `end` count characters of everything
fed so far.
"""

import re
from dataclasses import dataclass

import sentencex


@dataclass(frozen=True, slots=True)
class ChunkSettings:
    """Lengths in words."""

    first_least_words: int = 2  # at a comma or another break, from here on
    first_joined_words: int = 4  # before a word that joins, from here on; before a verb, one later
    first_most_words: int = 7  # without any of these, between words
    later_least_words: int = 5  # a later clause may end at a comma from here on
    second_most_words: int = 12  # the second is cut at a comma when longer, the third when twice as long, and so on
    later_most_words: int = 40


@dataclass(frozen=True, slots=True)
class Clause:
    """`text` without outer white space; it stands in the whole text within `start` up to `end`."""

    text: str
    start: int
    end: int


# A break is punctuation with white space behind it: "3,000" and "10:30" have none, "3 - 5" is no break either.
_BREAK = re.compile(r"[,;:—–](?=\s)|(?<!\d)\s[—–-](?=\s)|\.\.\.(?=\s)|…(?=\s)|\)(?=\s)")
# What comes behind a word that joins is said in one breath with it, so the cut lies before it.
_JOINING = frozenset(
    (
        "and but or so because which that who when while where if though although since unless until whereas und aber "
        "oder weil dass denn wenn während damit y pero o porque que cuando aunque mientras et mais ou parce car quand "
        "donc puisque e ma perché che quando mentre perciò"
    ).split()
)
_VERBS = frozenset("is are was were has have had can could will would should may might must does did".split())
_PREPOSITIONS = frozenset(
    (
        "with for from into about by in on at to of as than then over under between through during without mit für aus "
        "bei nach von con para por desde avec pour dans sur par per da su"
    ).split()
)
# Never the last word of a clause: what it belongs to is still to come.
_LEANING = (
    _PREPOSITIONS
    | _JOINING
    | frozenset(
        (
            "a an the my your his her its our their this these those no not very more most such each every some any "
            "many just only also hundred thousand million billion dr mr mrs ms st der die das ein eine einen dem den "
            "im am zu zum zur el la los las un una de del le les des du au il lo gli i uno di della"
        ).split()
    )
    | _VERBS
)
# With a point they may stand within a sentence; any other word of three letters or more ends it.
_SHORT = frozenset(
    (
        "etc approx dept est vol prof inc ltd corp ave blvd gen gov sen rev capt sgt col maj jan feb mar apr jun jul "
        "aug sep sept oct nov dec mon tue tues wed thu thurs fri sat sun mrs fig misc min max hrs sec lbs tel bzw usw "
        "evtl ggf inkl exkl str std mio mrd sra srta pág aprox dra sig dott ecc pag mme env"
    ).split()
)
_CERTAIN_END = re.compile(r"(?:(?P<word>[^\W\d_]{3,})\.|[!?]+)[\"'”’)]*\s")
_ITEM = re.compile(r"\s*\d{1,3}[.)]\s*")
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
        """End of the first sentence, where that is certain: often only what follows tells "Dr." from an end."""
        newline = self._text.find("\n")
        if newline >= 0 and self._text[:newline].strip():
            return newline + 1
        if not re.search(r"[.!?。！？]", self._text):
            return None
        item = _ITEM.match(self._text)  # "1." belongs to what it numbers
        begin = item.end() if item else 0
        sentences = list(sentencex.segment(self._language, self._text[begin:]))
        if not sentences:
            return None
        if len(sentences) > 1 and sentences[1].strip():
            return begin + len(sentences[0])
        end = _CERTAIN_END.search(self._text, begin)
        if end and end.end() == len(self._text) and (end["word"] or "").lower() not in _SHORT:
            return end.end()
        return None

    def _first_cut(self, within: int) -> int | None:
        """The early cut of the first clause: at a break, else before a joining word or between words."""
        settings, head = self._settings, self._text[:within]
        for match in _BREAK.finditer(head):
            if len(head[: match.end()].split()) >= settings.first_least_words:
                return match.end()
        words = list(_WORD.finditer(head))
        whole = len(words) - (bool(words) and words[-1].end() == len(self._text))  # the last one may go on
        for i in range(settings.first_joined_words, whole):
            word = words[i].group().lower()
            joins = word in _JOINING or (word in _VERBS and i > settings.first_joined_words)
            if joins and self._may_part(words[i - 1].group(), words[i].group()):
                return words[i].start()
        most = settings.first_most_words
        if len(words) <= most + 1:
            return None  # a word or two more are not worth a cut of their own
        choices = [i for i in range(most, 2, -1) if self._may_part(words[i - 1].group(), words[i].group())]
        leading = [i for i in choices if words[i].group().lower() in _PREPOSITIONS]
        best = leading or choices
        return words[best[0]].start() if best else None

    @staticmethod
    def _may_part(before: str, behind: str) -> bool:
        """Whether a clause may end between the two: not in a name, nor between a number and what it counts."""
        if before.lower().strip(".") in _LEANING or before[-1].isdigit():
            return False
        return not (before[:1].isupper() and behind[:1].isupper())

    def _later_cut(self) -> int | None:
        """A long sentence is cut at its last break: soon while little is waiting to be heard, later on more rarely."""
        words = len(self._text.split())
        settings = self._settings
        soft = min(settings.later_most_words, settings.second_most_words << min(self._given - 1, 8))
        if words <= soft:
            return None
        cuts = [m.end() for m in _BREAK.finditer(self._text)]
        good = [cut for cut in cuts if len(self._text[:cut].split()) >= settings.later_least_words]
        if good:
            return good[-1]
        if words <= settings.later_most_words:
            return None
        return list(_WORD.finditer(self._text))[settings.later_most_words].start()
