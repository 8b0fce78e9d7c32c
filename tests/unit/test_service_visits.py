"""Visits one after another at a station: blocks are not lost, failures stay where they are, refusals are said once."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from appliance import events
from appliance.audio.ports import Block
from appliance.audio.settings import VisitSettings
from appliance.capacity.cap import Cap
from appliance.capacity.ladder import LadderSettings
from appliance.capacity.limiter import CapacitySettings
from appliance.clock import MonotonicClock
from appliance.conversation.desk import TalkSettings
from appliance.engines.ports import BLOCK, RATE, Spoken
from appliance.errors import EngineError
from appliance.events import LatencyParts, TurnFinished, TurnRecord
from appliance.service.ear import Ear
from appliance.service.reception import REFUSED, Reception
from appliance.service.visits import Visits
from appliance.telemetry.bus import Bus
from appliance.telemetry.metrics import Metrics
from appliance.telemetry.spans import Budget


class Now:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at

    async def sleep_until(self, instant: float) -> None:
        self.at = max(self.at, instant)
        await asyncio.sleep(0)


class Mouth:
    """A source that says what it is told to. `loud` blocks are speech to the fake VAD."""

    def __init__(self, base: float = 0.0) -> None:
        self.base = base  # instant of the first sample
        self.queue: asyncio.Queue[Block | Exception | None] = asyncio.Queue()
        self.opened = 0
        self._start = 0

    def say(self, blocks: int, level: float = 0.5) -> None:
        for _ in range(blocks):
            samples, end = np.full(BLOCK, level, np.float32), self._start + BLOCK
            self.queue.put_nowait(Block(samples, self._start, self.base + end / RATE))
            self._start += BLOCK

    async def blocks(self) -> AsyncIterator[Block]:
        self.opened += 1
        while (block := await self.queue.get()) is not None:
            if isinstance(block, Exception):
                raise block
            yield block

    async def close(self) -> None:
        self.queue.put_nowait(None)


class Speaker:
    sample_rate = 16_000

    def __init__(self) -> None:
        self.written = 0

    def write(self, audio: np.ndarray) -> int:
        self.written += len(audio)
        return self.written - len(audio)

    def played(self) -> int:
        return self.written


class Talk:
    """A conversation that hears `blocks` blocks, or fails on its first."""

    idle = True

    def __init__(self, session: str, fails: bool) -> None:
        self.session, self.fails, self.heard = session, fails, 0
        self.over = asyncio.Event()

    async def run(self, source: Any) -> None:
        async for _ in source.blocks():
            self.heard += 1
            if self.fails:
                raise EngineError("the vad has failed", "try again")
        self.over.set()


class Box:
    def __init__(self, clock: Any, fails: tuple[str, ...] = ()) -> None:
        self.clock, self.bus, self.store = clock, Bus(), None
        self.config = SimpleNamespace(talk=TalkSettings())
        self.engines = SimpleNamespace(vad=self)
        self.talks: list[Talk] = []
        self.judged = 0  # blocks
        self._fails = fails

    async def probability(self, session: str, samples: np.ndarray) -> float:
        self.judged += 1
        return float(samples[0] > 0.1)

    def forget(self, session: str) -> None: ...

    async def open(self, sink: Any, *, session: str, **_: Any) -> Talk:
        self.talks.append(Talk(session, session in self._fails))
        return self.talks[-1]


def station(clock: Any, *, fails: tuple[str, ...] = (), places: int = 1, idle_s: float = 1e9) -> Any:
    box, mouth, speaker = Box(clock, fails), Mouth(clock.now()), Speaker()
    reception = Reception(
        Cap(places, "config", ()),
        CapacitySettings(queue_length=0),
        LadderSettings(),
        Metrics(Budget()),
        box.bus,
        clock,
    )
    reception.sentences[REFUSED] = (Spoken(np.zeros(1600, np.float32), 16_000, REFUSED, last=True),)
    visits = Visits(box, reception, mouth, speaker, VisitSettings(idle_s=idle_s))  # type: ignore[arg-type]
    return SimpleNamespace(box=box, mouth=mouth, speaker=speaker, reception=reception, visits=visits)


async def until(true: Any) -> None:
    async with asyncio.timeout(5):
        while not true():  # noqa: ASYNC110  what is waited for sets no event
            await asyncio.sleep(0)


def test_a_session_that_fails_ends_alone_and_the_next_visitor_is_heard() -> None:
    async def scene() -> None:
        the = station(MonotonicClock(), fails=("default-1",))
        notices = the.box.bus.subscribe()
        running = asyncio.create_task(the.visits.run())
        the.mouth.say(20)
        await until(lambda: len(the.box.talks) == 2 and the.box.talks[1].heard > 3)
        assert [talk.session for talk in the.box.talks] == ["default-1", "default-2"]
        assert the.mouth.opened == 1
        said = [event.message for event in notices.drain() if isinstance(event, events.Notice)]
        assert said == ["the vad has failed"]
        await the.visits.stop()
        await running

    asyncio.run(scene())


def test_a_visit_ends_after_a_quiet_spell_and_the_station_goes_on() -> None:
    async def scene() -> None:
        the = station(MonotonicClock(), idle_s=0.05)
        running = asyncio.create_task(the.visits.run())
        for visit in (1, 2, 3):
            the.mouth.say(10)
            await until(lambda n=visit: len(the.box.talks) == n)
            await asyncio.wait_for(the.box.talks[-1].over.wait(), 5)
            await until(lambda: the.visits.conversation is None)
        assert [talk.session for talk in the.box.talks] == ["default-1", "default-2", "default-3"]
        assert all(talk.heard >= 3 for talk in the.box.talks)  # what opened the door is heard inside
        await the.visits.stop()
        await running

    asyncio.run(scene())


def test_who_is_refused_is_told_once_however_long_they_speak() -> None:
    async def scene() -> None:
        the = station(MonotonicClock())
        the.reception.ask("somebody else")
        running = asyncio.create_task(the.visits.run())
        the.mouth.say(100)
        await until(lambda: the.box.judged == 100)
        assert the.speaker.written == 1600
        assert the.box.talks == []
        await the.visits.stop()
        await running

    asyncio.run(scene())


def test_states_follow_devices_and_keys() -> None:
    async def scene() -> None:
        the = station(MonotonicClock())
        told = the.box.bus.subscribe()
        for step in (
            lambda: the.visits.deafen(True),
            lambda: the.visits.deafen(True),
            lambda: the.visits.deafen(False),
            lambda: the.visits.mute(True),
            lambda: the.visits.mute(False),
        ):
            step()
        states = [event.state.value for event in told.drain() if isinstance(event, events.StateChanged)]
        assert states == ["waiting", "listening", "muted", "listening"]

    asyncio.run(scene())


def test_the_ear_loses_nothing_to_a_cancelled_wait_and_passes_on_what_the_source_raised() -> None:
    async def scene() -> None:
        mouth = Mouth()
        ear = Ear(mouth, MonotonicClock())
        ear.start()
        waiting = asyncio.create_task(ear.next(5.0))
        await asyncio.sleep(0)  # it has begun to wait
        assert not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        mouth.say(3)
        blocks = [await ear.next() for _ in range(3)]
        assert [block.start for block in blocks if block] == [0, BLOCK, 2 * BLOCK]
        assert await ear.next(0.01) is None
        assert not ear.over
        mouth.queue.put_nowait(EngineError("gone"))
        with pytest.raises(EngineError):
            await ear.next()

    asyncio.run(scene())


def test_silence_stands_in_for_an_input_that_is_away_and_what_comes_too_late_is_left_out() -> None:
    async def scene() -> None:
        clock, mouth = Now(), Mouth()
        ear = Ear(mouth, clock)
        ear.start()
        mouth.say(1)
        assert await ear.next() is not None
        clock.at = 0.5
        assert ear.missing() == []
        clock.at = 3.0
        silence = ear.missing()
        assert silence
        assert all(not block.samples.any() for block in silence)
        assert [block.start for block in silence] == [BLOCK * (n + 1) for n in range(len(silence))]
        assert clock.at - silence[-1].captured_at == pytest.approx(1.0, abs=0.04)
        mouth.say(len(silence))  # these lie where silence was given out
        mouth.say(1)
        block = await ear.next()
        assert block is not None
        assert block.start == silence[-1].start + BLOCK

    asyncio.run(scene())


def test_a_box_nobody_speaks_to_comes_down_its_ladder_again() -> None:
    clock, bus = Now(), Bus()
    metrics = Metrics(Budget())
    reception = Reception(Cap(2, "config", ()), CapacitySettings(), LadderSettings(), metrics, bus, clock)
    slow = TurnRecord("s", 1, "", "", "", "", False, LatencyParts(3000, 0, 0, 0, 0))
    for _ in range(6):
        metrics.take(TurnFinished(at=clock.at, session="s", turn=1, record=slow))
    clock.at = 1.0
    steps = []
    for _ in range(400):
        clock.at += 0.5
        reception.tick()
        steps.append(int(reception.ladder.step))
    assert max(steps) == 1  # each step needs turns of its own
    assert steps[-1] == 0
