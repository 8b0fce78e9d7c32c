"""What the words so far say about whether the person is done: features that need no training data.

Owns the reading of a draft transcript in five languages, with the word lists of `words.toml`. Text in, numbers
out. It does not know sound, silence or weights: `turns.combine` says how much each feature counts.
"""

import functools
import re
import tomllib
from dataclasses import dataclass, fields
from importlib import resources

LANGUAGES = ("en", "de", "es", "fr", "it")

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_DIGITS = re.compile(r"\d+$")
_TRAILING = re.compile(r"(?:\.\.+|…|[,;:–—-])[\s\"'”»]*$")
_COMMA = re.compile(r"\w,[\s\"'”»]*$")
_SHORT = 4  # words
_STOP = re.compile(r"[.!。][\s\"'”»)]*$")
_INSIDE = re.compile(r"[,.;:]\s*\w")
_QUESTION = re.compile(r"\?[\s\"'”»)]*$")


@dataclass(frozen=True, slots=True)
class Lexicon:
    """One language's words by role; see words.toml. Phrases are written with spaces."""

    open: frozenset[str] = frozenset()
    leaning: frozenset[str] = frozenset()
    closed: frozenset[str] = frozenset()
    filler: frozenset[str] = frozenset()
    begun: frozenset[str] = frozenset()
    if_: frozenset[str] = frozenset()
    asks: frozenset[str] = frozenset()
    answers: frozenset[str] = frozenset()
    number: frozenset[str] = frozenset()
    dictates: frozenset[str] = frozenset()
    agrees: frozenset[str] = frozenset()
    stops: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TextLook:
    """The features, each 0..1. Those up to `few` speak against the end, the rest for it."""

    open_end: float = 0.0  # ends in a conjunction, article, auxiliary; a preposition outside a question
    begun: float = 0.0  # ends in a phrase that announces more, or opened a clause that needs another
    filler: float = 0.0
    trailing: float = 0.0  # the transcriber heard it break off: "…", a dash, a comma
    groups: float = 0.0  # digits, letters or an address being said in groups
    listing: float = 0.0  # a list without its last "and"
    searching: float = 0.0  # says the last words twice: the next one is being looked for
    few: float = 0.0  # one or two words that are no answer and no command
    stop_mark: float = 0.0  # a full stop or an exclamation mark
    question: float = 0.0  # opens like a question, or ends with a question mark
    answer: float = 0.0  # a whole short answer or bare command
    reply: float = 0.0  # at most three words after a question was put to the person

    @property
    def unfinished(self) -> bool:
        """Whether anything in the words speaks against the end."""
        return any(getattr(self, name) for name in AGAINST)

    def values(self) -> tuple[float, ...]:
        return tuple(getattr(self, name) for name in FEATURES)


FEATURES = tuple(field.name for field in fields(TextLook))
AGAINST = FEATURES[: FEATURES.index("few") + 1]


def words_of(text: str) -> list[str]:
    """Lower-case words; apostrophes straight, punctuation gone."""
    return [w.replace("’", "'") for w in _WORD.findall(text.lower())]


def lexicon(language: str) -> Lexicon:
    """The word lists of a two-letter code; empty ones where the language is not known."""
    return _lexicons().get(language, Lexicon())


def read(text: str, language: str = "en", *, asked: bool = False, dictating: bool = False) -> TextLook:
    """The features of `text`. `asked`: the last answer put a question to the person."""
    lex = lexicon(language)
    words = words_of(text)
    if not words:
        return TextLook()
    melody = bool(_QUESTION.search(text))  # the transcriber heard a question's
    opens = words[0] in lex.asks
    question = melody or (opens and len(words) >= 3)
    closed = any(f"{word} {words[-1]}" in lex.closed for word in words[:-1])
    asked_short = opens and 3 <= len(words) <= _SHORT and words[0] not in lex.if_ and not _INSIDE.search(text)
    # A comma behind a short question is the transcriber's: "who wrote Hamlet," wants nothing more.
    trailing = bool(_TRAILING.search(text)) and not (asked_short and _COMMA.search(text))
    answer = not trailing and (" ".join(words) in lex.answers or (len(set(words)) == 1 and words[0] in lex.answers))
    whole = answer or closed
    # A question may end in "for" or "about", and in "need" or "want" when it is long enough to have an object.
    leans = words[-1] in lex.leaning and not (melody and (opens or len(words) >= 3))
    wants = _ends_in(words, lex.begun) and not (melody and opens and len(words) >= 4 and words[-1] in lex.begun)
    asked_like = melody and words[-1] in lex.leaning and not leans  # "what is it like?"
    filler = not whole and not asked_like and _ends_in(words, lex.filler)
    reply = asked and len(words) <= 3 and not filler and not trailing
    return TextLook(
        open_end=float(not whole and (words[-1] in lex.open or leans)),
        begun=float((wants and not whole) or (not answer and _half_a_condition(words, text, lex))),
        filler=float(filler),
        trailing=float(trailing),
        groups=_groups(words, lex, dictating, question),
        listing=float(not answer and _listing(text, lex)),
        searching=float(not answer and _searching(words, lex)),
        few=float(len(words) <= 2 and not answer and not reply),
        stop_mark=float(bool(_STOP.search(text)) and not trailing),
        question=float(question),
        answer=float(answer),
        reply=float(reply),
    )


def _ends_in(words: list[str], phrases: frozenset[str]) -> bool:
    return any(" ".join(words[-size:]) in phrases for size in range(1, min(4, len(words) + 1)))


def _half_a_condition(words: list[str], text: str, lex: Lexicon) -> bool:
    """Opened with "if", "when", …, and no comma, full stop or question has come but at the end."""
    if words[0] not in lex.if_ or "?" in text or _INSIDE.search(text):
        return False
    return len(words) <= 8


def _groups(words: list[str], lex: Lexicon, dictating: bool, question: bool) -> float:
    """How much it looks like something said in groups: a number of several digits, letters, an address."""
    tail, parts = 0, 0  # characters of numbers, other words as one; words
    for word in reversed(words):
        if not (_DIGITS.search(word) or word in lex.number or (len(word) == 1 and not word.isdigit() and tail)):
            break
        tail += max(1, len(word)) if word.isdigit() else 1
        parts += 1
    letters = 0
    for word in reversed(words):
        if not all(len(part) == 1 for part in word.split("-")):
            break
        letters += len(word.split("-"))
    announced = any(w in lex.dictates for w in words)
    if letters >= 2:
        return 1.0
    if dictating and tail:
        return 1.0
    if announced and (tail or (words[-1] in lex.dictates and not question)):
        return 1.0 if tail < 10 else 0.5
    return 1.0 if tail >= 3 and len(words) - parts <= 1 else 0.0


def _searching(words: list[str], lex: Lexicon) -> bool:
    if words[-1] in lex.number or len(words[-1]) == 1 or words[-1].isdigit():
        return False  # said digit by digit
    return any(words[-size:] == words[-2 * size : -size] for size in (1, 2))


def _listing(text: str, lex: Lexicon) -> bool:
    """Commas between short items, and no conjunction before the last one."""
    parts = [words_of(part) for part in text.split(",")]
    parts = [part for part in parts if not _ends_in(part, lex.filler) and " ".join(part) not in lex.answers]
    if len(parts) < 3 or any(len(p) > 4 for p in parts[1:]) or not parts[-1]:
        return False
    return not any(word in lex.open for word in parts[-1])


@functools.cache
def _lexicons() -> dict[str, Lexicon]:
    table = tomllib.loads(resources.files("appliance.turns").joinpath("words.toml").read_text(encoding="utf-8"))
    return {
        language: Lexicon(**{("if_" if role == "if" else role): frozenset(words) for role, words in roles.items()})
        for language, roles in table.items()
    }
