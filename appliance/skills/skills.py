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
from appliance.skills.replies import WORDS, named, said_date, said_time
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
_POLITE = re.compile(r"^(?:please|okay|ok|bitte|por favor|per favore)[, ]+|[, ]+(?:please|bitte|por favor|per favore)$")
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
        sentence.format(unit=unit)
        for unit in ("hour", "minute", "second")
        for sentence in (
            "<timer_set> [a|an|the|my] {{timer_name:name}} timer for {{timer_{unit}s:{unit}s}} {unit}[s]",
            "<timer_set> [a|an|the|my] {{timer_{unit}s:{unit}s}} {unit} {{timer_name:name}} timer",
            "[set] timer [for|to] {{timer_{unit}s:{unit}s}} {unit}[s]",
        )
    ),
    "HassCancelTimer": ("(delete|remove) (the|my) timer",),
    "HassIncreaseTimer": tuple(
        f"(extend|lengthen) (the|my) timer by {{timer_{unit}s:{unit}s}} {unit}[s]"
        for unit in ("hour", "minute", "second")
    ),
}
_ALL = frozenset(("alle", "alle meine", "sämtliche", "tutti i", "tutti i miei", "todos los", "tous les", "tous mes"))
_TIMER = re.compile(r"timer|temporizador|minuteur|minuterie", re.I)
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
        self._sentences: dict[str, Any] = {}

    def warm(self) -> None:
        """Parse the sentences and match once: the first match compiles them."""
        if self._settings.enabled:
            self.answer("", "set a timer for five minutes", "en")

    def answer(self, session: str, words: str, language: str = "en") -> Reply | None:
        """The reply of the skill that `words` mean; None leaves them to the model.

        English; German, Spanish, French and Italian for the time, the date, timers and "stop", sums in English only.
        """
        language = language[:2].lower()
        if not self._settings.enabled or (language != "en" and language not in WORDS):
            return None
        said = words.strip().strip(".!?,¿¡").strip()
        if not said or len(said) > 120:
            return None
        if _POLITE.sub("", said.lower()) in (_STOPS if language == "en" else WORDS[language].stops):
            return Reply("", "stop")
        if language == "en":
            result = solve(said)
            if result is not None:
                return Reply(result, "sums")
        return self._intent(session, said.replace("’", "'"), language)

    def _intent(self, session: str, said: str, language: str) -> Reply | None:
        from hassil import recognize

        timers = _TIMER.search(said) is not None
        if timers and language == "en":
            for pattern, length in _LENGTHS:
                said = pattern.sub(length, said)
        found = recognize(said, self._intents(language))
        if found is None:
            return None
        slots = {name: entity.value for name, entity in found.entities.items()}
        name, now, wall = found.intent.name, self._clock.now(), self._wall()
        if "Timer" in name and language != "en" and not timers:
            return None  # "wie lange" alone may ask for anything
        known: dict[str, Callable[[], Reply | None]] = {
            "HassGetCurrentTime": lambda: Reply(
                f"It is {_time(wall)}" if language == "en" else said_time(wall, language), "time"
            ),
            "HassGetCurrentDate": lambda: Reply(_date(wall) if language == "en" else said_date(wall, language), "date"),
            "HassStartTimer": lambda: self._start(session, slots, now, language),
            "HassCancelTimer": lambda: self._cancel(session, slots, language, every=False),
            "HassCancelAllTimers": lambda: self._cancel(session, slots, language, every=True),
            "HassTimerStatus": lambda: Reply(
                self.timers.status(session, now, *_which(slots), language=language), "timers"
            ),
            "HassIncreaseTimer": lambda: self._change(session, slots, now, language, 1),
            "HassDecreaseTimer": lambda: self._change(session, slots, now, language, -1),
            "HassNevermind": lambda: Reply("", "never mind"),
        }
        if name in known:
            return known[name]()
        return Reply(self._home.act(name, slots), "home") if self._home is not None else None

    def _start(self, session: str, slots: dict[str, Any], now: float, language: str) -> Reply | None:
        seconds = _seconds(slots)
        if seconds <= 0 or "command" in slots or "conversation_command" in slots:
            return None
        why_not = self.timers.why_not(session, seconds, language)
        if why_not:
            return Reply(why_not, "timers")
        name, length = str(slots.get("name", "")).strip(), spoken_duration(seconds, language)
        if language == "en":
            text = f"Your {name + ' ' if name else ''}timer is set for {length}."
        else:
            text = WORDS[language].set.format(named(name, language), length)

        def start() -> None:
            self.timers.start(session, name, seconds, now, language)

        return Reply(text, "timers", start)

    def _cancel(self, session: str, slots: dict[str, Any], language: str, *, every: bool) -> Reply:
        name, seconds = _which(slots)
        if name.lower() in _ALL:  # taken for a name by the sentences of some languages
            name, every = "", True
        if not self.timers.find(session, name, seconds):
            return Reply(self.timers.missing(session, language), "timers")
        if language != "en":
            words = WORDS[language]
            text = words.all_cancelled if every else words.cancelled.format(named(name, language))
        else:
            text = "All timers are cancelled." if every else f"The {name + ' ' if name else ''}timer is cancelled."
        return Reply(text, "timers", lambda: self.timers.cancel(session, every=every, name=name, seconds=seconds))

    def _change(self, session: str, slots: dict[str, Any], now: float, language: str, sign: int) -> Reply:
        name, length = _which(slots)
        by = sign * _seconds(slots)
        running = self.timers.find(session, name, length)
        if not running:
            return Reply(self.timers.missing(session, language), "timers")
        left = spoken_duration(max(0.0, running[0].due - now + by), language)
        if language != "en":
            text = WORDS[language].now_left.format(named(name, language), left)
        else:
            text = f"The {name + ' ' if name else ''}timer now has {left} left."
        return Reply(text, "timers", lambda: self.timers.change(session, by, name, length))

    def _intents(self, language: str) -> Any:
        if language not in self._sentences:
            from hassil import Intents
            from home_assistant_intents import get_intents

            data = get_intents(language) or {}
            known: dict[str, Any] = data.get("intents", {})
            own = _OWN_SENTENCES if language == "en" else {}
            wanted = {
                name: {"data": [*known[name]["data"], {"sentences": [*own.get(name, ())]}]}
                for name in _INTENTS
                # Other languages' "never mind" is as short as "no", which may be an answer to the model.
                if name in known and (language == "en" or name != "HassNevermind")
            }
            # There is no house with areas here; a wildcard in their place would match anything.
            lists = {**data.get("lists", {}), "area": {"values": []}, "floor": {"values": []}}
            self._sentences[language] = Intents.from_dict(
                {
                    "language": language,
                    "intents": {**wanted, **(self._home.intents(language) if self._home else {})},
                    "lists": lists,
                    "expansion_rules": data.get("expansion_rules", {}),
                    "skip_words": data.get("skip_words", []),
                }
            )
        return self._sentences[language]


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
