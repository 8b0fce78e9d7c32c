"""From events to rows, whatever happens to the disk or to the process."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from appliance.errors import StoreError
from appliance.events import (
    ClauseReady,
    EndpointLooked,
    Event,
    Heard,
    LatencyParts,
    Level,
    Notice,
    PlaybackStarted,
    SessionClosed,
    SessionOpened,
    SpeechResumed,
    SpeechStarted,
    State,
    StateChanged,
    Transcribed,
    TurnDropped,
    TurnEnded,
    TurnFinished,
    TurnRecord,
)
from appliance.store.database import StoreDatabase, StoreSettings
from appliance.store.feed import FeedSettings, StoreFeed
from appliance.store.store import Store
from appliance.telemetry.bus import Bus


def record(turn: int = 1, session: str = "demo", heard: str = "what time is it") -> TurnRecord:
    return TurnRecord(
        session=session, turn=turn, started=f"2026-01-01T00:00:{turn % 60:02}+00:00", heard=heard,
        reply="It is ten. Sharp.", spoken="It is ten. Sharp.", interrupted=False, ms=LatencyParts(200, 0, 90, 0, 12),
    )  # fmt: skip


def until_audible(turn: int = 1, session: str = "demo", at: float = 10.0) -> list[Event]:
    """A turn with a draft that did not stand, up to the instant the answer is heard."""
    who: dict[str, Any] = {"session": session, "turn": turn}
    return [
        SpeechStarted(at=at, **who),
        Level(at=at + 0.1, session=session, input_dbfs=-20, speech=0.9),
        Transcribed(at=at + 0.4, kind="draft", text="what", language="en", audio_ms=300, took_ms=90, **who),
        ClauseReady(at=at + 0.45, index=0, text="Pardon?", tokens=2, **who),
        ClauseReady(at=at + 0.46, index=1, text="Say more.", tokens=2, **who),
        SpeechResumed(at=at + 0.5, **who),
        EndpointLooked(
            at=at + 1.2,
            silence_ms=200,
            audio_score=0.8,
            text_score=None,
            llm_score=None,
            done_probability=0.8,
            wait_ms=200,
            **who,
        ),
        TurnEnded(at=at + 1.2, last_speech_at=at + 1.0, reason="score", **who),
        Transcribed(at=at + 1.3, kind="final", text="what time is it", language="en", audio_ms=900, took_ms=90, **who),
        ClauseReady(at=at + 1.4, index=0, text="It is ten.", tokens=4, **who),
        PlaybackStarted(at=at + 1.5, **who),
    ]


def played(path: Path, events: list[Event], settings: StoreSettings | None = None) -> list[Event]:
    """Publish `events` to a feed on `path`, close it, and return what else was on the bus."""

    async def main() -> list[Event]:
        bus = Bus()
        notices = bus.subscribe(durable=True)
        store = Store(path, settings)
        feed = StoreFeed(store, bus)
        feed.start()
        for event in events:
            bus.publish(event)
            await asyncio.sleep(0)
        await feed.close()
        store.close()
        return [e for e in notices.drain() if isinstance(e, Notice)]

    return asyncio.run(main())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "appliance.db"


def test_before_the_answer_ends_the_turn_is_there_with_the_words_that_count(path: Path) -> None:
    events = [SessionOpened(at=9, session="demo", station="kitchen"), *until_audible()]
    played(path, [*events, Heard(at=12, session="demo", turn=1, spoken="It is", played_ms=400)])
    (stored,) = StoreDatabase(path).turns("demo")
    assert not stored.finished
    assert (stored.record.heard, stored.record.reply, stored.record.spoken) == (
        "what time is it",
        "It is ten.",
        "It is",
    )
    assert (stored.record.end_reason, stored.record.station) == ("score", "kitchen")


def test_a_finished_turn_has_its_timeline_in_order_from_its_first_sample(path: Path) -> None:
    events = until_audible()
    played(path, [*events, TurnFinished(at=14, session="demo", turn=1, record=record())])
    db = StoreDatabase(path)
    (stored,) = db.turns("demo")
    assert stored.finished
    assert stored.record == record()
    spans = db.spans("demo", 1)
    assert [s.kind for s in spans] == [type(e).__name__ for e in events if not isinstance(e, Level)] + ["Levels"]
    assert spans[0].at_ms == 0
    looked = next(s for s in spans if s.kind == "EndpointLooked")
    assert looked.at_ms == pytest.approx(1200)
    assert looked.data["audio_score"] == 0.8
    assert spans[-1].data["speech"] == [0.9]


def test_a_dropped_turn_leaves_nothing(path: Path) -> None:
    played(path, [*until_audible(), TurnDropped(at=13, session="demo", turn=1, reason="no words")])
    assert StoreDatabase(path).turns() == []


def test_two_runs_of_the_same_session_name_are_two_sessions(path: Path) -> None:
    for _ in range(2):
        played(path, [SessionOpened(at=0, session="demo"), TurnFinished(at=1, session="demo", turn=1, record=record()),
                      SessionClosed(at=2, session="demo", reason="end of input")])  # fmt: skip
    sessions = StoreDatabase(path).sessions()
    assert [(s.id, s.turns, s.reason) for s in sessions] == [("demo~2", 1, "end of input"), ("demo", 1, "end of input")]


def test_a_long_turn_keeps_a_bounded_level_curve_over_its_whole_length(path: Path) -> None:
    levels = [Level(at=n * 0.032, session="demo", turn=1, input_dbfs=-30, speech=0.5) for n in range(3000)]
    played(path, [SpeechStarted(at=0, session="demo", turn=1), *levels,
                  TurnFinished(at=100, session="demo", turn=1, record=record())])  # fmt: skip
    curve = StoreDatabase(path).spans("demo", 1)[-1].data
    assert 200 <= len(curve["at_ms"]) < 512
    assert curve["at_ms"][-1] > 94_000
    assert curve["at_ms"] == sorted(curve["at_ms"])


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  what is awaited belongs to another thread
            await asyncio.sleep(0)  # lets the store's thread and the feed go on; no time is assumed


class HandClock:
    """Sleepers wake when the test says so."""

    def __init__(self) -> None:
        self.wake = asyncio.Event()

    def now(self) -> float:
        return 0.0

    async def sleep_until(self, instant: float) -> None:
        await self.wake.wait()
        self.wake.clear()


def with_full_disk(
    path: Path, hold: int, check: Callable[[Bus, Store, StoreFeed, HandClock, list[Notice]], Coroutine[Any, Any, None]]
) -> list[Notice]:
    async def main() -> list[Notice]:
        bus = Bus()
        listener = bus.subscribe(durable=True)
        notices: list[Notice] = []
        clock = HandClock()
        store = Store(path, StoreSettings(limit_bytes=100 * 4096))
        await store.open_session("ballast")
        for n in range(1, 11):
            await store.finish_turn(record(n, "ballast", heard="x" * 36_000))
        feed = StoreFeed(store, bus, FeedSettings(hold_turns=hold), clock)
        feed.start()
        await check(bus, store, feed, clock, notices)
        await feed.close()
        store.close()
        notices += [e for e in listener.drain() if isinstance(e, Notice)]
        return notices

    return asyncio.run(main())


BIG = "y" * 48_000  # more than the ballast leaves, so that not one fits


def test_while_the_disk_is_full_turns_wait_and_are_written_when_it_is_not(path: Path) -> None:
    async def check(bus: Bus, store: Store, feed: StoreFeed, clock: HandClock, notices: list[Notice]) -> None:
        for n in range(1, 5):
            bus.publish(TurnFinished(at=n, session="demo", turn=n, record=record(n, heard=BIG)))
        await _until(lambda: feed.held == 4)
        clock.wake.set()
        await _until(lambda: not clock.wake.is_set())
        await store.flush()
        assert feed.held == 4, "a retry on a full disk loses nothing"
        await store.forget(session="ballast")
        clock.wake.set()
        await _until(lambda: feed.held == 0)

    said = with_full_disk(path, 10, check)
    assert [t.record.turn for t in StoreDatabase(path).turns("demo")] == [1, 2, 3, 4]
    assert [n.level for n in said] == ["error", "info"]
    assert "no space is left" in said[0].message
    assert "forget" in said[0].hint
    assert said[1].message.endswith("turns lost: 0")


def test_what_waits_for_a_full_disk_is_bounded_and_the_loss_is_said(path: Path) -> None:
    async def check(bus: Bus, store: Store, feed: StoreFeed, clock: HandClock, notices: list[Notice]) -> None:
        for n in range(1, 9):
            bus.publish(TurnFinished(at=n, session="demo", turn=n, record=record(n, heard=BIG)))
        await _until(lambda: feed.held == 3 and feed.lost == 5)
        await store.forget(session="ballast")
        clock.wake.set()
        await _until(lambda: feed.held == 0)

    said = with_full_disk(path, 3, check)
    assert [t.record.turn for t in StoreDatabase(path).turns("demo")] == [6, 7, 8]
    assert said[-1].message.endswith("turns lost: 5")


def test_turns_that_still_wait_at_the_end_are_counted_as_lost(path: Path) -> None:
    lost: list[StoreFeed] = []

    async def check(bus: Bus, store: Store, feed: StoreFeed, clock: HandClock, notices: list[Notice]) -> None:
        lost.append(feed)
        for n in range(1, 5):
            bus.publish(TurnFinished(at=n, session="demo", turn=n, record=record(n, heard=BIG)))

    with_full_disk(path, 10, check)
    assert lost[0].lost == 4
    assert StoreDatabase(path).turns("demo") == []


def test_opening_says_what_is_wrong_and_leaves_no_thread(tmp_path: Path) -> None:
    import threading

    (tmp_path / "file").touch()
    before = threading.active_count()
    with pytest.raises(StoreError):
        Store(tmp_path / "file" / "appliance.db")
    assert threading.active_count() == before


_ANSWERS = """
import asyncio, pathlib, sys
from appliance.store.feed import StoreFeed
from appliance.store.store import Store
from appliance.telemetry.bus import Bus
from appliance.telemetry.wire import from_json

async def main():
    bus = Bus()
    store = Store(pathlib.Path(sys.argv[1]))
    feed = StoreFeed(store, bus)
    feed.start()
    for line in sys.stdin:
        bus.publish(from_json(line))
        await asyncio.sleep(0)
    await feed.caught_up()
    print("audible", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("finished", [False, True])
def test_a_turn_that_was_heard_survives_kill_9(path: Path, finished: bool) -> None:
    from appliance.telemetry.wire import to_json

    events: list[Event] = [SessionOpened(at=9, session="demo"), *until_audible()]
    if finished:
        events.append(TurnFinished(at=14, session="demo", turn=1, record=record()))
    with subprocess.Popen(
        [sys.executable, "-c", _ANSWERS, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(to_json(e) + "\n" for e in events))
        process.stdin.close()
        assert process.stdout.readline() == "audible\n"
        os.kill(process.pid, signal.SIGKILL)
    (stored,) = StoreDatabase(path).turns("demo")
    assert stored.finished == finished
    assert stored.record.heard == "what time is it"
    assert stored.record.reply.startswith("It is ten.")


def test_the_provisional_row_is_written_before_playback_starts(path: Path) -> None:
    """The first audible sample comes at least a clause's synthesis after the transcript; the row needs none of it."""
    played(path, until_audible()[:-2])
    (stored,) = StoreDatabase(path).turns()
    assert (stored.record.heard, stored.record.reply) == ("what time is it", "")


def test_state_changes_and_strangers_are_ignored(path: Path) -> None:
    played(path, [StateChanged(at=0, session="demo", state=State.LISTENING), Notice(at=0, level="info", message="hi"),
                  Level(at=1, session="demo", input_dbfs=-50, speech=0)])  # fmt: skip
    assert StoreDatabase(path).sessions() == []
