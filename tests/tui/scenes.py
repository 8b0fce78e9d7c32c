"""A screen that has seen the recorded events up to a scene, at an hour that stands still."""

import json
from collections.abc import Sequence
from pathlib import Path

from appliance.errors import StoreError
from appliance.events import Event, TurnRecord
from appliance.store.database import Span, StoredTurn
from appliance.telemetry.wire import from_json
from appliance.tui.app import ApplianceScreen
from appliance.tui.link import ScreenClock, ScreenSettings

RECORDED = Path(__file__).with_name("recorded.jsonl")
SCENES = ("listening", "hearing", "pause", "thinking", "over-budget", "interrupted", "speaking", "busy")


def recorded(scene: str) -> list[Event]:
    """The events before the line that names `scene`; all for "end"; none for "empty"."""
    if scene == "empty":
        return []
    events: list[Event] = []
    for line in RECORDED.read_text(encoding="utf-8").splitlines():
        if line.startswith('{"scene"'):
            if json.loads(line)["scene"] == scene:
                return events
            continue
        event = from_json(line)
        assert event is not None
        events.append(event)
    assert scene == "end", scene
    return events


class Feed:
    """Hands out what a test puts in."""

    def __init__(self, events: Sequence[Event] = ()) -> None:
        self.waiting = list(events)
        self.status = ""
        self.drained = 0

    def renewed(self) -> bool:
        return False

    def drain(self) -> list[Event]:
        self.drained += 1
        waiting, self.waiting = self.waiting, []
        return waiting


class StillClock(ScreenClock):
    def __init__(self, at: float) -> None:
        self.at = at

    def now(self) -> float:
        return self.at

    def wall(self, at: float) -> str:
        return f"16:{int(at // 60) % 60:02}:{int(at) % 60:02}"


class Asked:
    """Controls that write down what was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def talk(self, session: str) -> None:
        self.calls.append(("talk", session))

    def mute(self, session: str) -> None:
        self.calls.append(("mute", session))

    def interrupt(self, session: str) -> None:
        self.calls.append(("interrupt", session))


class Shelf:
    """Stored turns of a test."""

    def __init__(self, turns: Sequence[StoredTurn] = (), spans: Sequence[Span] = (), broken: str = "") -> None:
        self.turns, self.spans, self.broken = list(turns), list(spans), broken
        self.marks: list[tuple[int, str]] = []

    async def recent(self, limit: int) -> Sequence[StoredTurn]:
        self._check()
        return self.turns[-limit:]

    async def timeline(self, record: TurnRecord) -> Sequence[Span]:
        self._check()
        return self.spans

    async def mark(self, record: TurnRecord, mark: str) -> bool:
        self._check()
        self.marks.append((record.turn, mark))
        return True

    def _check(self) -> None:
        if self.broken:
            raise StoreError(self.broken, "hint")


def screen(
    scene: str, *, hide_words: bool = False, shelf: Shelf | None = None, asked: Asked | None = None
) -> ApplianceScreen:
    """The app at `scene`. Its first tick has happened once it is mounted."""
    events = recorded(scene)
    clock = StillClock(events[-1].at + 0.4 if events else 1000.0)
    settings = ScreenSettings(title="starter", hide_words=hide_words)
    return ApplianceScreen(Feed(events), asked or Asked(), shelf or Shelf(), settings, clock)
