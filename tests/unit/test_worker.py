"""The worker: order, bound, cancelling, streams that give way, and its end."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from appliance.engines.ports import CancelToken
from appliance.engines.worker import Worker
from appliance.errors import Cancelled, EngineError


class Held:
    """A worker whose thread waits until it is let go, so that jobs queue up in a known order."""

    def __init__(self, limit: int = 64) -> None:
        self.worker = Worker("test", limit=limit)
        self._go, self._began = threading.Event(), threading.Event()
        self._first = self.worker.submit(self._block)
        assert self._began.wait(5)

    def _block(self) -> None:
        self._began.set()
        assert self._go.wait(5)

    def let_go(self) -> None:
        self._go.set()
        self._first.result(5)


def test_urgent_work_first_then_earlier_deadline_then_arrival():
    held, order = Held(), []
    jobs = [(20, 5.0, "b"), (20, 1.0, "a"), (0, 9.0, "first"), (20, 5.0, "c")]
    futures = [held.worker.submit(lambda n=n: order.append(n), priority=p, deadline=d) for p, d, n in jobs]
    held.let_go()
    for future in futures:
        future.result(5)
    held.worker.stop()
    assert order == ["first", "a", "b", "c"]


def test_a_full_inbox_refuses_the_least_urgent():
    held = Held(limit=2)
    partial = held.worker.submit(lambda: "partial", priority=30)
    final = held.worker.submit(lambda: "final", priority=0)
    draft = held.worker.submit(lambda: "draft", priority=10)
    with pytest.raises(EngineError, match="overloaded"):
        partial.result(5)
    held.let_go()
    assert (final.result(5), draft.result(5)) == ("final", "draft")
    held.worker.stop()


def test_a_job_cancelled_while_it_waits_never_runs():
    held, token, ran = Held(), CancelToken(), []
    future = held.worker.submit(lambda: ran.append(1), cancel=token)
    token.cancel()
    held.let_go()
    with pytest.raises(Cancelled):
        future.result(5)
    assert not ran
    held.worker.stop()


def test_a_failing_job_reaches_its_caller_and_the_thread_lives_on():
    worker = Worker("test")
    with pytest.raises(ZeroDivisionError):
        worker.submit(lambda: 1 // 0).result(5)
    assert worker.submit(lambda: 7).result(5) == 7
    worker.stop()


def test_stop_refuses_what_waits_and_what_comes_later():
    held = Held()
    waiting = held.worker.submit(lambda: 1)
    stopper = threading.Thread(target=held.worker.stop)
    stopper.start()
    with pytest.raises(Cancelled):
        waiting.result(5)
    held.let_go()
    stopper.join(5)
    with pytest.raises(EngineError, match="stopped"):
        held.worker.submit(lambda: 1).result(5)
    held.worker.stop()  # idempotent


def test_cancelling_the_awaiting_task_sets_the_token():
    async def scene() -> None:
        held, token = Held(), CancelToken()
        task = asyncio.create_task(held.worker.call(lambda: 1, cancel=token))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert token.cancelled
        held.let_go()
        held.worker.stop()

    asyncio.run(scene())


def test_a_stream_gives_way_between_items():
    async def scene() -> list[object]:
        worker, order = Worker("test"), []

        def items() -> Iterator[int]:
            for i in range(3):
                order.append(i)
                if i == 0:  # arrives while the stream runs
                    worker.submit(lambda: order.append("urgent"), priority=0)
                yield i

        got = [i async for i in worker.stream(items, priority=20, cancel=CancelToken())]
        worker.stop()
        assert got == [0, 1, 2]
        return order

    assert asyncio.run(scene()) == [0, "urgent", 1, 2]


def test_what_an_item_gains_moves_the_deadline_of_the_next():
    async def scene() -> list[str]:
        held, order = Held(), []

        def say(name: str) -> Iterator[str]:
            for i in range(2):
                order.append(f"{name}{i}")
                yield name

        async def listen(name: str, deadline: float) -> None:
            stream = held.worker.stream(
                lambda: say(name), priority=20, deadline=deadline, cancel=CancelToken(), gained=lambda _: 10.0
            )
            async for _ in stream:
                pass

        both = asyncio.gather(listen("a", 1.0), listen("b", 2.0))
        await asyncio.sleep(0)
        held.let_go()
        await both
        held.worker.stop()
        return order

    assert asyncio.run(scene())[:2] == ["a0", "b0"]


def test_leaving_a_stream_cancels_what_is_made_ahead():
    async def scene() -> None:
        worker, token = Worker("test"), CancelToken()
        stream = worker.stream(lambda: iter(range(100)), cancel=token)
        async for _ in stream:
            break
        await stream.aclose()
        assert token.cancelled
        worker.stop()

    asyncio.run(scene())


def test_an_error_inside_a_stream_reaches_the_listener():
    def items() -> Iterator[int]:
        yield 1
        raise EngineError("broke")

    async def scene() -> None:
        worker = Worker("test")
        try:
            with pytest.raises(EngineError, match="broke"):
                [i async for i in worker.stream(items, cancel=CancelToken())]
        finally:
            worker.stop()

    asyncio.run(scene())
