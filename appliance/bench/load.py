"""How many at once: file-fed conversations in real time, more and more of them, until an objective breaks.

It owns the two load patterns and what counts as a failure. Closed loop: n people, each asking the next question when
the last answer has been heard. Open loop: people arrive at a rate, whether or not earlier ones are done. Every turn
is recorded, failures too. The simulated player has no jitter buffer: what it misses is starvation.
"""

import asyncio
import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from appliance.app import Appliance
from appliance.audio.files import AudioFile
from appliance.audio.sink import FileSink
from appliance.capacity.limiter import Objectives, Refused
from appliance.capacity.tts import LoadPoint, SafeLimits, is_safe, safe_capacity
from appliance.clock import Clock, ms
from appliance.conversation.desk import Conduct
from appliance.converse import Talk, hold_in
from appliance.engines.ports import Audio
from appliance.errors import ApplianceError
from appliance.events import TurnRecord
from appliance.service.reception import Reception
from appliance.telemetry.spans import percentile


@dataclass(slots=True)
class Attempted:
    """One conversation of a load point: how many questions, what came back."""

    session: str
    asked: int
    records: list[TurnRecord] = field(default_factory=list)
    bad_audio: int = 0
    error: str = ""
    refused_ms: float | None = None

    @property
    def failed(self) -> int:
        """Questions without an answer, and answers that were no sound."""
        if self.refused_ms is not None:
            return 0
        return max(0, self.asked - sum(1 for r in self.records if r.spoken)) + self.bad_audio


@dataclass(frozen=True, slots=True)
class Point:
    """One load. `load` is sessions (closed) or arrivals a second (open)."""

    load: float
    closed: bool
    conversations: tuple[Attempted, ...]
    objectives: Objectives

    @property
    def records(self) -> list[TurnRecord]:
        return [record for each in self.conversations for record in each.records]

    @property
    def failed(self) -> int:
        return sum(each.failed for each in self.conversations)

    @property
    def refused(self) -> list[float]:
        return [each.refused_ms for each in self.conversations if each.refused_ms is not None]

    @property
    def v2v_ms_p95(self) -> float | None:
        return percentile((r.ms.voice_to_voice for r in self.records if r.ms is not None), 95)

    @property
    def starvation_ms_p95(self) -> float | None:
        return percentile((r.starvation_ms for r in self.records), 95)

    @property
    def measured(self) -> LoadPoint:
        """As the planner's verdict wants it; what was not measured counts as unbounded."""
        v2v, starved = self.v2v_ms_p95, self.starvation_ms_p95
        return LoadPoint(
            self.load,
            len(self.records) + self.failed,
            self.failed,
            math.inf if v2v is None else v2v,
            math.inf if starved is None else starved,
        )

    @property
    def limits(self) -> SafeLimits:
        o = self.objectives
        return SafeLimits(o.success, o.v2v_ms_p95, o.starvation_ms_p95)

    @property
    def safe(self) -> bool:
        return is_safe(self.measured, self.limits)

    def as_dict(self) -> dict[str, object]:
        v2v, starved, refused = self.v2v_ms_p95, self.starvation_ms_p95, self.refused
        return {
            "sessions" if self.closed else "rate": int(self.load) if self.closed else self.load,
            "turns": len(self.records),
            "failed": self.failed,
            "refused": len(refused),
            "refused_ms_max": round(max(refused), 1) if refused else None,
            "v2v_ms_p50": _rounded(percentile((r.ms.voice_to_voice for r in self.records if r.ms is not None), 50)),
            "v2v_ms_p95": _rounded(v2v),
            "starvation_ms_p95": _rounded(starved),
            "safe": self.safe,
        }


class CheckedSink(FileSink):
    """Counts what is no sound: empty or not finite."""

    def __init__(self, sample_rate: int, clock: Clock) -> None:
        super().__init__(sample_rate, clock)
        self.bad = 0

    def write(self, audio: Audio) -> int:
        if len(audio) and not np.isfinite(audio).all():
            self.bad += 1
        return super().write(audio)


async def closed_loop(
    box: Appliance,
    files: Sequence[AudioFile],
    sessions: int,
    turns: int,
    objectives: Objectives,
    tell: Callable[[TurnRecord], None] = lambda _: None,
) -> Point:
    """`sessions` people, each asking `turns` questions; they begin one after another within two seconds."""

    async def person(i: int) -> Attempted:
        await box.clock.sleep_until(box.clock.now() + 2.0 * i / sessions)
        asked = [files[(i + k) % len(files)] for k in range(turns)]
        return await _converse(box, f"closed-{sessions}-{i}", asked, tell)

    return Point(sessions, True, tuple(await asyncio.gather(*map(person, range(sessions)))), objectives)


async def open_loop(
    box: Appliance,
    files: Sequence[AudioFile],
    rate: float,
    seconds: float,
    objectives: Objectives,
    tell: Callable[[TurnRecord], None] = lambda _: None,
    *,
    reception: Reception | None = None,
    seed: int = 1,
) -> Point:
    """People arrive at random (Poisson, `rate` a second) for `seconds` and ask one question each.

    With a `reception` each asks for a place first, and leaves at once when there is none.
    """
    chance = random.Random(seed)
    started = box.clock.now()
    at = 0.0
    tasks: list[tuple[float, AudioFile]] = []
    while (at := at + chance.expovariate(rate)) < seconds:
        tasks.append((at, files[len(tasks) % len(files)]))

    async def person(i: int, at: float, file: AudioFile) -> Attempted:
        await box.clock.sleep_until(started + at)
        name = f"open-{rate}-{i}"
        if reception is None:
            return await _converse(box, name, [file], tell)
        asked_at = box.clock.now()
        decision = reception.ask(name)
        if isinstance(decision, Refused):
            return Attempted(name, 1, refused_ms=ms(asked_at, box.clock.now()))
        try:
            if not await reception.wait(name):
                return Attempted(name, 1, refused_ms=0.0)
            return await _converse(box, name, [file], tell, reception)
        finally:
            reception.leave(name)

    people = await asyncio.gather(*(person(i, at, file) for i, (at, file) in enumerate(tasks)))
    return Point(rate, False, tuple(people), objectives)


def write_turns(path: Path, points: Sequence[Point]) -> None:
    """One JSON object a turn, failures and refusals too; no words."""
    with path.open("w", encoding="utf-8") as out:
        for point in points:
            for each in point.conversations:
                base = {"load": point.load, "closed": point.closed, "session": each.session}
                for record in each.records:
                    measured = record.ms.as_dict() if record.ms else None
                    row = {**base, "turn": record.turn, "ms": measured, "starvation_ms": record.starvation_ms}
                    out.write(json.dumps(row) + "\n")
                if each.failed or each.refused_ms is not None:
                    row = {**base, "failed": each.failed, "refused_ms": each.refused_ms, "error": each.error}
                    out.write(json.dumps(row) + "\n")


def safe_sessions(points: Sequence[Point]) -> int:
    """The largest number of sessions up to which every measured point was safe."""
    closed = [point for point in points if point.closed]
    return int(safe_capacity([p.measured for p in closed], closed[0].limits)) if closed else 0


async def _converse(
    box: Appliance,
    name: str,
    files: Sequence[AudioFile],
    tell: Callable[[TurnRecord], None],
    reception: Reception | None = None,
) -> Attempted:
    sink = CheckedSink(box.voice_rate, box.clock)
    attempted = Attempted(name, len(files))
    conduct = reception.conduct if reception else Conduct
    try:
        attempted.records = await hold_in(box, Talk(files), tell, session=name, sink=sink, conduct=conduct)
    except* ApplianceError as group:
        attempted.error = "; ".join(str(error) for error in group.exceptions)
    attempted.bad_audio = sink.bad
    return attempted


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
