"""Skills on many sentences: what they must not answer, sums against fractions, changes, five languages, their price."""

import re
import statistics
import time
from datetime import datetime
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.skills.skills import Reply, Skills, SkillSettings
from appliance.skills.sums import solve
from appliance.skills.timers import announcement, spoken_duration
from appliance.speech.normalise import normalise

ORDINARY = Path(__file__).with_name("corpus").joinpath("no_skill_en.tsv").read_text(encoding="utf-8").splitlines()


class Hand:
    """A clock moved by hand."""

    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> float:
        return self.at

    async def sleep_until(self, instant: float) -> None:
        self.at = max(self.at, instant)


@pytest.fixture(scope="module")
def shared() -> tuple[Skills, Hand]:
    """One for the module, since the sentences are parsed once; every test has a session of its own."""
    clock = Hand()
    skills = Skills(SkillSettings(), clock, lambda: datetime(2026, 11, 29, 17, 5))
    skills.warm()
    return skills, clock


def ask(skills: Skills, session: str, words: str, language: str = "en") -> Reply:
    """The reply to `words`, done."""
    reply = skills.answer(session, words, language)
    assert reply is not None, words
    reply.act()
    return reply


def test_ordinary_questions_are_the_models(shared: tuple[Skills, Hand]) -> None:
    assert len(ORDINARY) >= 60
    answered = [(q, reply.text) for q in ORDINARY if (reply := shared[0].answer("ordinary", q, "en"))]
    assert answered == []


@pytest.mark.parametrize(
    ("words", "name", "seconds"),
    [
        ("Set a ten minute pizza timer.", "pizza", 600),
        ("set a 10 minute pizza timer", "pizza", 600),
        ("start a pizza timer for ten minutes", "pizza", 600),
        ("set a timer for 10 minutes called pizza", "pizza", 600),
        ("timer for 5 minutes", "", 300),
        ("set timer to five minutes", "", 300),
        ("Can you set a timer for 45 seconds, please?", "", 45),
    ],
)
def test_timers_with_and_without_a_name(shared: tuple[Skills, Hand], words: str, name: str, seconds: int) -> None:
    session = f"named {words}"
    ask(shared[0], session, words)
    (timer,) = shared[0].timers.of(session)
    assert (timer.name, timer.seconds) == (name, seconds)


def test_the_timer_that_was_named_gets_more_or_less(shared: tuple[Skills, Hand]) -> None:
    skills, _ = shared
    ask(skills, "change", "set a tea timer for 4 minutes")
    ask(skills, "change", "set a pizza timer for 10 minutes")
    assert (
        ask(skills, "change", "add five minutes to my pizza timer").text == "The pizza timer now has 15 minutes left."
    )
    assert ask(skills, "change", "extend the timer by 2 minutes").text == "The timer now has 6 minutes left."
    assert ask(skills, "change", "remove one minute from the timer").text == "The timer now has 5 minutes left."
    left = {timer.name: timer.due for timer in skills.timers.of("change")}
    assert left == {"tea": 100 + 300, "pizza": 100 + 900}
    assert ask(skills, "change", "delete the timer").text == "The timer is cancelled."
    assert [timer.name for timer in skills.timers.of("change")] == ["pizza"]


def test_timers_ring_once_and_in_order(shared: tuple[Skills, Hand]) -> None:
    skills, clock = shared
    ask(skills, "ring", "set a timer for 2 minutes")
    ask(skills, "ring", "set a tea timer for 1 minute")
    rung = [announcement(timer) for at in range(0, 200, 10) for timer in skills.timers.due("ring", clock.at + at)]
    assert rung == ["Your tea timer is done.", "Your 2 minutes timer is done."]


LOCAL = {
    "de": {
        "Wie spät ist es?": "Es ist 17:05 Uhr.",
        "Welches Datum ist heute?": "Heute ist Sonntag, der 29. November 2026.",
        "Stell einen Timer auf 5 Minuten": "Der Timer läuft 5 Minuten.",
        "Wie lange läuft der Timer noch?": "Der Timer läuft noch 5 Minuten.",
        "Verlängere den Timer um eine Minute": "Der Timer läuft jetzt noch 6 Minuten.",
        "Verlängere den Timer um 2 Minuten": "Der Timer läuft jetzt noch 8 Minuten.",
        "Lösche alle Timer": "Alle Timer sind gelöscht.",
        "Stoppe den Timer": "Es läuft kein Timer.",
        "Stopp.": "",
        "Wer schrieb Hamlet?": None,
        "Wie lange": None,
        "Egal": None,
    },
    "es": {
        "¿Qué hora es?": "Son las 17:05.",
        "¿Qué día es hoy?": "Hoy es domingo 29 de noviembre de 2026.",
        "Pon un temporizador de 5 minutos": "El temporizador suena en 5 minutos.",
        "Añade 5 minutos al temporizador": "Al temporizador le quedan ahora 10 minutos.",
        "Cancela el temporizador": "El temporizador está cancelado.",
        "Basta": "",
        "¿Quién escribió Hamlet?": None,
        "nada": None,
    },
    "fr": {
        "Quelle heure est-il ?": "Il est 17h05.",
        "Quel jour sommes-nous ?": "Nous sommes le dimanche 29 novembre 2026.",
        "Mets un minuteur de 5 minutes": "Le minuteur sonne dans 5 minutes.",
        "Ajoute 5 minutes au minuteur": "Il reste maintenant 10 minutes au minuteur.",
        "Annule le minuteur": "Le minuteur est annulé.",
        "Silence": "",
        "Qui a écrit Hamlet ?": None,
        "Combien de temps reste-t-il": None,
    },
    "it": {
        "Che ore sono?": "Sono le 17:05.",
        "Che giorno è oggi?": "Oggi è domenica 29 novembre 2026.",
        "Imposta un timer di 5 minuti": "Il timer suona fra 5 minuti.",
        "Aggiungi 5 minuti al timer": "Al timer ora mancano 10 minuti.",
        "Cancella tutti i timer": "Tutti i timer sono annullati.",
        "Basta!": "",
        "Chi ha scritto Amleto?": None,
        "No": None,
    },
}


@pytest.mark.parametrize("language", LOCAL)
def test_other_languages_answer_in_their_own(shared: tuple[Skills, Hand], language: str) -> None:
    for words, said in LOCAL[language].items():
        reply = shared[0].answer(language, words, language)
        assert (None if reply is None else reply.text) == said, words
        if reply is not None:
            reply.act()
            assert not re.search(r"\d", normalise(reply.text, language))


def test_a_language_without_sentences_is_the_models(shared: tuple[Skills, Hand]) -> None:
    assert shared[0].answer("nl", "Hoe laat is het?", "nl") is None


NUMBERS = st.integers(0, 999)
SIGNS = {"plus": "+", "minus": "-", "times": "*", "divided by": "/"}


def by_hand(numbers: list[int], signs: list[str]) -> Fraction:
    """The value by the rules of school: products and quotients first, from left to right."""
    sums = [Fraction(numbers[0])]
    for sign, number in zip(signs, numbers[1:], strict=True):
        if sign in ("plus", "minus"):
            sums.append(Fraction(number if sign == "plus" else -number))
        else:
            sums[-1] = sums[-1] * number if sign == "times" else sums[-1] / number
    return sum(sums, Fraction(0))


@given(st.lists(NUMBERS, min_size=2, max_size=3), st.data(), st.booleans())
@settings(deadline=None, max_examples=200)
def test_sums_agree_with_fractions(numbers: list[int], data: st.DataObject, in_words: bool) -> None:
    signs = data.draw(st.lists(st.sampled_from(list(SIGNS)), min_size=len(numbers) - 1, max_size=len(numbers) - 1))
    parts = [normalise(str(n)) if in_words else str(n) for n in numbers]
    question = "what is " + parts[0] + "".join(f" {s} {p}" for s, p in zip(signs, parts[1:], strict=True))
    said = solve(question)
    try:
        value = by_hand(numbers, signs)
    except ZeroDivisionError:
        assert said == "You cannot divide by zero."
        return
    assert said is not None, question
    result = Fraction(said.rsplit(" is ", 1)[1].rstrip(".").replace(",", ""))
    assert abs(result - value) <= Fraction(1, 10_000), question


@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from("add half of 5 and two minus % to the / ^ - 1,2 .5".split())).map(" ".join)
)
@settings(deadline=None, max_examples=300)
def test_no_sum_raises(text: str) -> None:
    solve(text)


@given(st.integers(1, 86_400), st.sampled_from(["en", *LOCAL]))
def test_lengths_are_said_whole(seconds: int, language: str) -> None:
    said = spoken_duration(seconds, language)
    ones = re.sub(r"\b(?:eine|una|un|une)\b", "1", said)
    assert len(re.findall(r"\d+", ones)) == sum(
        bool(part) for part in (seconds // 3600, seconds // 60 % 60, seconds % 60)
    )


def test_a_turn_costs_little(shared: tuple[Skills, Hand]) -> None:
    took = []
    for words in [*ORDINARY, "set a timer for five minutes", "what is 12 times 17"]:
        began = time.process_time()
        shared[0].answer("price", words, "en")
        took.append(time.process_time() - began)
    assert statistics.median(took) < 0.005
