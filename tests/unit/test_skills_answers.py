"""What skills answer and, more important, what they leave to the model."""

from datetime import datetime

import pytest

from appliance.skills.skills import Reply, Skills, SkillSettings
from appliance.skills.sums import solve
from appliance.skills.timers import announcement

WALL = datetime(2026, 11, 29, 17, 5)


class Hand:
    """A clock moved by hand."""

    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> float:
        return self.at

    async def sleep_until(self, instant: float) -> None:
        self.at = max(self.at, instant)


@pytest.fixture(scope="module")
def sentences() -> Skills:
    skills = Skills(SkillSettings(), Hand(), lambda: WALL)
    skills.warm()
    return skills


def fresh(settings: SkillSettings | None = None) -> tuple[Skills, Hand]:
    clock = Hand()
    return Skills(settings or SkillSettings(), clock, lambda: WALL), clock


def ask(skills: Skills, words: str, session: str = "home") -> Reply:
    """The reply to `words`, done."""
    reply = skills.answer(session, words, "en")
    assert reply is not None, words
    reply.act()
    return reply


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("What is seventeen times twelve?", "17 times 12 is 204."),
        ("What's 17 times 23?", "17 times 23 is 391."),
        ("how much is 20% of 85", "20 percent of 85 is 17."),
        ("What is 2 plus 3 times 4?", "2 plus 3 times 4 is 14."),
        ("what is ten divided by four", "10 divided by 4 is 2.5."),
        ("what is the square root of 144", "The square root of 144 is 12."),
        ("what is a hundred and five minus six", "105 minus 6 is 99."),
        ("what is 0.1 plus 0.2", "0.1 plus 0.2 is 0.3."),
        ("what is 1,250 plus 50", "1,250 plus 50 is 1,300."),
        ("what is zero times five", "0 times 5 is 0."),
        ("what is twenty-one plus ninety-nine", "21 plus 99 is 120."),
        ("multiply six by seven", "6 times 7 is 42."),
        ("what's half of fifty", "50 divided by 2 is 25."),
        ("what is one divided by zero", "You cannot divide by zero."),
    ],
)
def test_sums_are_exact(words: str, said: str) -> None:
    assert solve(words) == said


@pytest.mark.parametrize(
    "words",
    [
        "What is 9/11?", "what is 24/7", "what's 50-50", "what is a 4x4", "what is 7-11", "what is five",
        "what is two five plus one", "what is the meaning of life", "two plus two makes a family", "what is 3 plus",
        "what is love", "who wrote Hamlet", "", "what is", "what is 9 to the power of 9 to the power of 9",
    ],
)  # fmt: skip
def test_what_is_no_sum_is_left_alone(words: str) -> None:
    assert solve(words) is None


@pytest.mark.parametrize(
    "words",
    [
        "what time is it in Tokyo", "tell me a story about time", "what was the date of the French revolution",
        "turn off the lights in 5 minutes", "stop the war", "who wrote Hamlet", "how long is a minute",
        "how do timers work", "cancel culture", "set a timer", "what is an hour", "how long is left",
        "never mind the gap", "stop and think about it", "please stop by tomorrow", "",
    ],
)  # fmt: skip
def test_only_whole_sentences_count(sentences: Skills, words: str) -> None:
    assert sentences.answer("home", words, "en") is None


@pytest.mark.parametrize("words", ["What time is it?", "what's the time", "Could you tell me the time, please?"])
def test_time(sentences: Skills, words: str) -> None:
    reply = sentences.answer("home", words, "en")
    assert reply is not None
    assert (reply.text, reply.skill) == ("It is 5:05 p.m.", "time")


@pytest.mark.parametrize("words", ["What’s the date today?", "what day is it", "What day is it today?"])
def test_date(sentences: Skills, words: str) -> None:
    reply = sentences.answer("home", words, "en")
    assert reply is not None
    assert reply.text == "Today is Sunday, November 29, 2026."


@pytest.mark.parametrize("words", ["Stop.", "never mind", "Nevermind.", "cancel", "Stop talking!"])
def test_stop_says_nothing(sentences: Skills, words: str) -> None:
    reply = sentences.answer("home", words, "en")
    assert reply is not None
    assert reply.text == ""


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("Set a timer for five minutes.", 300),
        ("set a timer for 10 minutes", 600),
        ("set a timer for an hour", 3600),
        ("set a timer for half an hour", 1800),
        ("Set a timer for an hour and a half.", 5400),
        ("set a timer for two and a half minutes", 150),
        ("set a timer for a quarter of an hour", 900),
        ("start a 90 second timer", 90),
        ("set a timer for 1 hour and 20 minutes", 4800),
        ("set a pasta timer for 9 minutes", 540),
    ],
)
def test_timers_run_as_long_as_was_said(words: str, seconds: int) -> None:
    skills, clock = fresh()
    ask(skills, words)
    assert skills.timers.due("home", clock.at + seconds - 0.1) == []
    assert len(skills.timers.due("home", clock.at + seconds)) == 1
    assert skills.timers.due("home", clock.at + 2 * seconds) == []


def test_nothing_happens_before_the_turn_is_over() -> None:
    skills, clock = fresh()
    assert skills.answer("home", "set a timer for five minutes", "en") is not None
    assert skills.timers.of("home") == []
    ask(skills, "set a timer for five minutes")
    assert skills.answer("home", "cancel the timer", "en") is not None
    assert len(skills.timers.of("home")) == 1
    assert clock.at == 100.0


def test_a_named_timer_is_the_one_meant() -> None:
    skills, clock = fresh()
    ask(skills, "set a pasta timer for 9 minutes")
    ask(skills, "set a tea timer for 4 minutes")
    assert ask(skills, "cancel the egg timer").text == "There is no such timer."
    assert len(skills.timers.of("home")) == 2
    clock.at += 60
    assert ask(skills, "how much time is left on the pasta timer").text == "The pasta timer has 8 minutes left."
    assert ask(skills, "cancel the pasta timer").text == "The pasta timer is cancelled."
    (left,) = skills.timers.of("home")
    assert announcement(left) == "Your tea timer is done."


def test_sessions_do_not_share_timers_and_their_number_is_bounded() -> None:
    skills, _ = fresh(SkillSettings(timers=2))
    ask(skills, "set a timer for 5 minutes")
    ask(skills, "set a timer for 6 minutes")
    assert ask(skills, "set a timer for 7 minutes").text == "There are too many timers already."
    assert len(skills.timers.of("home")) == 2
    assert ask(skills, "how much time is left on the timer", "kiosk").text == "There is no timer running."
    ask(skills, "cancel all timers")
    assert skills.timers.of("home") == []


def test_skills_can_be_off() -> None:
    skills, _ = fresh(SkillSettings(enabled=False))
    assert skills.answer("home", "what time is it", "en") is None
