"""Timers of all sessions: which run, how long they still have, which are due. Instants come from the caller."""

import bisect
import itertools
from dataclasses import dataclass, field, replace

from appliance.skills.replies import WORDS, named, said_duration


@dataclass(frozen=True, slots=True, order=True)
class Timer:
    due: float
    serial: int
    session: str = field(compare=False)
    name: str = field(compare=False)
    seconds: float = field(compare=False)
    language: str = field(default="en", compare=False)


class Timers:
    """Bounded: `most` of one session, none longer than `longest_s`."""

    def __init__(self, most: int, longest_s: float) -> None:
        self._most = most
        self._longest_s = longest_s
        self._running: list[Timer] = []
        self._serial = itertools.count()

    def of(self, session: str) -> list[Timer]:
        """Of one session, the next to ring first."""
        return [timer for timer in self._running if timer.session == session]

    def why_not(self, session: str, seconds: float, language: str = "en") -> str:
        """What to say when no such timer can be set; "" when it can."""
        words = WORDS.get(language)
        if seconds > self._longest_s:
            longest = spoken_duration(self._longest_s, language)
            return words.too_long.format(longest) if words else f"I can only set timers of up to {longest}."
        if len(self.of(session)) >= self._most:
            return words.too_many if words else "There are too many timers already."
        return ""

    def start(self, session: str, name: str, seconds: float, now: float, language: str = "en") -> Timer:
        timer = Timer(now + seconds, next(self._serial), session, name, seconds, language)
        bisect.insort(self._running, timer)
        return timer

    def find(self, session: str, name: str, seconds: float) -> list[Timer]:
        """Those that were set with this name and length; "" and 0 leave that open."""
        return [
            timer
            for timer in self.of(session)
            if (not name or timer.name.lower() == name.lower()) and (not seconds or timer.seconds == seconds)
        ]

    def cancel(self, session: str, *, every: bool = False, name: str = "", seconds: float = 0) -> None:
        """The next one to ring of those with this name and length, or every one."""
        found = self.find(session, name, seconds)
        going = found if every else found[:1]
        self._running = [timer for timer in self._running if timer not in going]

    def change(self, session: str, by: float, name: str = "", seconds: float = 0) -> None:
        """The next one to ring of those with this name and length gets so many seconds more, or less."""
        for timer in self.find(session, name, seconds)[:1]:
            self._running.remove(timer)
            bisect.insort(self._running, replace(timer, due=timer.due + by))

    def due(self, session: str, now: float) -> list[Timer]:
        """Those of `session` that ring at `now`; each is given once."""
        ringing = [timer for timer in self.of(session) if timer.due <= now]
        if ringing:
            self._running = [timer for timer in self._running if timer not in ringing]
        return ringing

    def status(self, session: str, now: float, name: str = "", seconds: float = 0, language: str = "en") -> str:
        """In a sentence, how much is left of those with this name and length."""
        running = self.find(session, name, seconds)
        words = WORDS.get(language)
        if not running:
            return self.missing(session, language)
        if words:
            left = [(named(t.name, language), spoken_duration(t.due - now, language)) for t in running[:3]]
            return " ".join(words.left.format(*pair) for pair in left)
        parts = [f"{_called(timer)} has {spoken_duration(timer.due - now)} left" for timer in running[:3]]
        return ", and ".join(parts).capitalize() + "."

    def missing(self, session: str, language: str = "en") -> str:
        """What to say when the timer that was meant does not run."""
        words = WORDS.get(language)
        if self.of(session):
            return words.no_such if words else "There is no such timer."
        return words.none if words else "There is no timer running."


def announcement(timer: Timer) -> str:
    """What is said when it rings."""
    if timer.language in WORDS:
        said = spoken_duration(timer.seconds, timer.language)
        return WORDS[timer.language].done.format(named(timer.name, timer.language), said)
    return f"Your {timer.name or spoken_duration(timer.seconds)} timer is done."


def spoken_duration(seconds: float, language: str = "en") -> str:
    """5400 -> "1 hour and 30 minutes"."""
    if language in WORDS:
        return said_duration(seconds, language)
    whole = max(0, round(seconds))
    parts = []
    for size, name in ((3600, "hour"), (60, "minute"), (1, "second")):
        count, whole = divmod(whole, size)
        if count:
            parts.append(f"{count} {name}{'' if count == 1 else 's'}")
    if not parts:
        return "no time"
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _called(timer: Timer) -> str:
    return f"the {timer.name} timer" if timer.name else "the timer"
