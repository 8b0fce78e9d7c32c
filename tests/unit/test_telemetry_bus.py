"""The bus: bounded, ordered, newest-wins, and never in the speaker's way."""

import asyncio
import threading

from hypothesis import given
from hypothesis import strategies as st

from appliance.events import (
    Event,
    Level,
    Notice,
    SessionClosed,
    SessionOpened,
    SpeechStarted,
    State,
    StateChanged,
    TurnEnded,
)
from appliance.telemetry.bus import DURABLE, Bus


def level(at: float, session: str = "a") -> Level:
    return Level(at=at, session=session, input_dbfs=-20, speech=at)


def state(at: float) -> StateChanged:
    return StateChanged(at=at, session="a", state=State.HEARING)


def test_the_newest_of_a_coalescing_kind_replaces_the_older_of_the_same_session() -> None:
    bus = Bus()
    sub = bus.subscribe()
    bus.publish(level(1))
    bus.publish(state(2))
    bus.publish(level(3, "b"))
    bus.publish(level(4))
    assert [e.at for e in sub.drain()] == [2, 3, 4]
    assert sub.dropped == 0


def test_on_overflow_the_oldest_ordinary_event_goes_and_is_counted() -> None:
    bus = Bus()
    sub = bus.subscribe(limit=3)
    for at in range(5):
        bus.publish(state(at))
    assert [e.at for e in sub.drain()] == [2, 3, 4]
    assert sub.dropped == 2


def test_a_durable_listener_keeps_what_must_not_be_missed_in_order() -> None:
    bus = Bus()
    sub, plain = bus.subscribe(limit=2, durable=True), bus.subscribe(limit=2)
    bus.publish(SessionOpened(at=0, session="a"))
    for at in range(1, 10):
        bus.publish(state(at))
    bus.publish(TurnEnded(at=10, session="a", turn=1, last_speech_at=9, reason="score"))
    bus.publish(SessionClosed(at=11, session="a"))
    assert [e.at for e in sub.drain()] == [0, 8, 9, 10, 11]
    assert [e.at for e in plain.drain()] == [10, 11]


_EVENTS = st.lists(
    st.sampled_from(
        [
            lambda at: level(at, "a"),
            lambda at: level(at, "b"),
            state,
            lambda at: SpeechStarted(at=at, session="b"),
            lambda at: Notice(at=at, level="info", message="x"),
            lambda at: SessionClosed(at=at, session="a"),
        ]
    ),
    max_size=60,
)


@given(_EVENTS, st.integers(1, 8), st.booleans())
def test_any_order_of_events_stays_bounded_ordered_and_accounted_for(makers: list, limit: int, durable: bool) -> None:
    bus = Bus()
    sub = bus.subscribe(limit=limit, durable=durable)
    sent: list[Event] = [make(at) for at, make in enumerate(makers)]
    for event in sent:
        bus.publish(event)
    got = sub.drain()
    assert [e.at for e in got] == sorted(e.at for e in got)
    kept = [e for e in sent if durable and isinstance(e, DURABLE)]
    assert [e for e in got if e in kept] == kept
    assert len(got) - len(kept) <= limit
    newest = {(type(e), e.session): e for e in sent if e.coalesce}
    assert all(newest[(type(e), e.session)] is e for e in got if e.coalesce)
    replaced = sum(e.coalesce for e in sent) - len(newest)
    assert len(got) + sub.dropped <= len(sent)
    assert len(got) + sub.dropped >= len(sent) - replaced


def test_iteration_waits_and_ends_when_closed_and_empty() -> None:
    async def main() -> list[float]:
        bus = Bus()
        sub = bus.subscribe()
        got: list[float] = []

        async def listen() -> None:
            async for event in sub:
                got.append(event.at)

        task = asyncio.create_task(listen())
        await asyncio.sleep(0)
        bus.publish(state(1))
        await asyncio.sleep(0)
        bus.publish(state(2))
        sub.close()
        bus.publish(state(3))
        await asyncio.wait_for(task, 5)
        return got

    assert asyncio.run(main()) == [1, 2]


def test_publish_from_another_thread_arrives_and_a_closed_loop_is_ignored() -> None:
    bus = Bus()

    async def main() -> float:
        sub = bus.subscribe()
        loop = asyncio.get_running_loop()
        thread = threading.Thread(target=bus.publish_threadsafe, args=(loop, state(7)))
        thread.start()
        event = await asyncio.wait_for(anext(sub), 5)
        thread.join()
        return event.at

    loop = asyncio.new_event_loop()
    assert loop.run_until_complete(main()) == 7
    loop.close()
    bus.publish_threadsafe(loop, state(8))
