"""Answers that need no model: the time, the date, timers, sums, "stop" and "never mind".

Owns which sentences are meant and what is said; the whole sentence must match, since a wrong answer is worse than
none. Sentences come from home-assistant-intents through hassil. Nothing happens before `Reply.act` is called, so that
an answer may be prepared while the turn is not yet over. It knows no voice and no session but by name.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from appliance.clock import Clock
from appliance.skills.sums import solve
from appliance.skills.timers import Timers, spoken_duration

_INTENTS = (
    "HassGetCurrentTime",
    "HassGetCurrentDate",
    "HassStartTimer",
    "HassCancelTimer",
    "HassCancelAllTimers",
    "HassTimerStatus",
    "HassIncreaseTimer",
    "HassDecreaseTimer",
    "HassNevermind",
)
_STOPS = frozenset(
    (
        "stop", "be quiet", "quiet", "shut up", "that's enough", "thanks that's all", "stop it", "stop talking",
        "cancel", "cancel that", "forget it",
    )
)  # fmt: skip
# Said at home and not among the sentences of home-assistant-intents.
_OWN_SENTENCES = {
    "HassGetCurrentTime": ("(do you know|tell me) what time it is [[right] now]", "what time do we have"),
    "HassGetCurrentDate": (
        "what day [of the week] is (it|today)",
        "what day is it today",
        "what date is (it|today)",
        "what date is it today",
    ),
    "HassTimerStatus": ("how (long|much time) do i have left on (the|my) timer",),
    "HassStartTimer": tuple(
        f"<timer_set> [a|an|the|my] {{timer_name:name}} timer for {{timer_{unit}s:{unit}s}} {unit}[s]"
        for unit in ("hour", "minute", "second")
    ),
}
# Lengths as people say them -> as the sentences take them.
_LENGTHS = tuple(
    (re.compile(pattern, re.I), said)
    for pattern, said in (
        (r"\b(?:an|one|1) hour and a half\b", "1 hour and 30 minutes"),
        (r"\b(?:a|one|1) minute and a half\b", "1 minute and 30 seconds"),
        (r"\b(\w+) and a half hours\b", r"\1 hours and 30 minutes"),
        (r"\b(\w+) and a half minutes\b", r"\1 minutes and 30 seconds"),
        (r"\b(?:a )?quarter of an hour\b", "15 minutes"),
        (r"\b(?<!half )an hour\b", "1 hour"),
        (r"\b(?<!half )a minute\b", "1 minute"),
    )
)


@dataclass(frozen=True, slots=True)
class SkillSettings:
    enabled: bool = True
    longest_timer_h: float = 24.0
    timers: int = 20  # of one session, at most


@dataclass(frozen=True, slots=True)
class Reply:
    """What to say ("" for nothing), which skill says it, and what to do once the turn is really over."""

    text: str
    skill: str
    act: Callable[[], None] = lambda: None


class Home(Protocol):
    """A home to act on, where one is configured: `act` does what the intent says and returns what to say of it."""

    def intents(self, language: str) -> dict[str, Any]: ...

    def act(self, intent: str, slots: dict[str, Any]) -> str: ...


class Skills:
    """One for the whole appliance. `wall` gives the local time; `clock` times the timers."""

    def __init__(
        self, settings: SkillSettings, clock: Clock, wall: Callable[[], datetime], home: Home | None = None
    ) -> None:
        self.timers = Timers(settings.timers, settings.longest_timer_h * 3600)
        self._settings = settings
        self._clock = clock
        self._wall = wall
        self._home = home
        self._sentences: Any = None

    def warm(self) -> None:
        """Parse the sentences and match once: the first match compiles them."""
        if self._settings.enabled:
            self.answer("", "set a timer for five minutes", "en")

    def answer(self, session: str, words: str, language: str = "en") -> Reply | None:
        """The reply of the skill that `words` mean; None leaves them to the model. English only, so far."""
        if not self._settings.enabled or not language.startswith("en"):
            return None
        said = words.strip().strip(".!?,").strip()
        if not said or len(said) > 120:
            return None
        if said.lower() in _STOPS:
            return Reply("", "stop")
        result = solve(said)
        if result is not None:
            return Reply(result, "sums")
        return self._intent(session, said)

    def _intent(self, session: str, said: str) -> Reply | None:
        from hassil import recognize

        said = said.replace("’", "'")
        if "timer" in said.lower():
            for pattern, length in _LENGTHS:
                said = pattern.sub(length, said)
        found = recognize(said, self._intents())
        if found is None:
            return None
        slots = {name: entity.value for name, entity in found.entities.items()}
        name, now = found.intent.name, self._clock.now()
        known: dict[str, Callable[[], Reply | None]] = {
            "HassGetCurrentTime": lambda: Reply(f"It is {_time(self._wall())}", "time"),
            "HassGetCurrentDate": lambda: Reply(_date(self._wall()), "date"),
            "HassStartTimer": lambda: self._start(session, slots, now),
            "HassCancelTimer": lambda: self._cancel(session, slots, every=False),
            "HassCancelAllTimers": lambda: self._cancel(session, slots, every=True),
            "HassTimerStatus": lambda: Reply(self.timers.status(session, now, *_which(slots)), "timers"),
            "HassIncreaseTimer": lambda: self._change(session, _seconds(slots), now),
            "HassDecreaseTimer": lambda: self._change(session, -_seconds(slots), now),
            "HassNevermind": lambda: Reply("", "never mind"),
        }
        if name in known:
            return known[name]()
        return Reply(self._home.act(name, slots), "home") if self._home is not None else None

    def _start(self, session: str, slots: dict[str, Any], now: float) -> Reply | None:
        seconds = _seconds(slots)
        if seconds <= 0 or "command" in slots or "conversation_command" in slots:
            return None
        why_not = self.timers.why_not(session, seconds)
        if why_not:
            return Reply(why_not, "timers")
        name = str(slots.get("name", "")).strip()
        called = f"{name} timer" if name else "timer"
        text = f"Your {called} is set for {spoken_duration(seconds)}."

        def start() -> None:
            self.timers.start(session, name, seconds, now)

        return Reply(text, "timers", start)

    def _cancel(self, session: str, slots: dict[str, Any], *, every: bool) -> Reply:
        name, seconds = _which(slots)
        if not self.timers.of(session):
            return Reply("There is no timer running.", "timers")
        if not self.timers.find(session, name, seconds):
            return Reply("There is no such timer.", "timers")
        text = "All timers are cancelled." if every else f"The {name + ' ' if name else ''}timer is cancelled."
        return Reply(text, "timers", lambda: self.timers.cancel(session, every=every, name=name, seconds=seconds))

    def _change(self, session: str, seconds: float, now: float) -> Reply:
        running = self.timers.of(session)
        if not running:
            return Reply("There is no timer running.", "timers")
        left = max(0.0, running[0].due - now + seconds)
        text = f"The timer now has {spoken_duration(left)} left."
        return Reply(text, "timers", lambda: self.timers.change(session, seconds))

    def _intents(self) -> Any:
        if self._sentences is None:
            from hassil import Intents
            from home_assistant_intents import get_intents

            data = get_intents("en") or {}
            known: dict[str, Any] = data.get("intents", {})
            wanted = {
                name: {"data": [*known[name]["data"], {"sentences": [*_OWN_SENTENCES.get(name, ())]}]}
                for name in _INTENTS
                if name in known
            }
            # There is no house with areas here; a wildcard in their place would match anything.
            lists = {**data.get("lists", {}), "area": {"values": []}, "floor": {"values": []}}
            self._sentences = Intents.from_dict(
                {
                    "language": "en",
                    "intents": {**wanted, **(self._home.intents("en") if self._home else {})},
                    "lists": lists,
                    "expansion_rules": data.get("expansion_rules", {}),
                    "skip_words": data.get("skip_words", []),
                }
            )
        return self._sentences


def _seconds(slots: dict[str, Any]) -> float:
    """Hours, minutes and seconds of a matched sentence; halves are given as fractions by the sentences."""
    factor = {"hours": 3600.0, "minutes": 60.0, "seconds": 1.0}
    return sum(float(slots.get(unit, 0) or 0) * size for unit, size in factor.items())


def _which(slots: dict[str, Any]) -> tuple[str, float]:
    """Which timer is meant: its name or "", the length it was set to or 0."""
    lengths = {unit: slots.get(f"start_{unit}", 0) for unit in ("hours", "minutes", "seconds")}
    return str(slots.get("name", "")).strip(), _seconds(lengths)


def _date(wall: datetime) -> str:
    return f"Today is {wall:%A}, {wall:%B} {wall.day}, {wall.year}."


def _time(wall: datetime) -> str:
    """10:05 in the morning as it is said in English, with the point that ends it."""
    hour = wall.hour % 12 or 12
    half = "a.m." if wall.hour < 12 else "p.m."
    return f"{hour}:{wall.minute:02d} {half}" if wall.minute else f"{hour} {half}"
