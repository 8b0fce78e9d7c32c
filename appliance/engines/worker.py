"""One native engine, one thread that owns it.

A `Worker` runs plain functions on its thread in order of (priority, deadline, arrival) and hands results to
the event loop. The inbox is bounded: when it is full the least urgent waiting job is refused, so that what
the ear waits for always gets in. Cancelling the awaiting task does not stop a native call; the job's cancel
token is checked before it starts and by the function itself between native calls.
"""

import asyncio
import heapq
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

from appliance.engines.ports import CancelToken
from appliance.errors import Cancelled, EngineError

T = TypeVar("T")

_Job = tuple[int, float, int, "Future[Any]", Callable[[], Any], CancelToken]


class Worker:
    """A thread with a bounded priority inbox."""

    def __init__(self, name: str, *, limit: int = 64) -> None:
        self.name = name
        self._limit = limit
        self._jobs: list[_Job] = []
        self._serial = itertools.count()
        self._wake = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(
        self,
        fn: Callable[[], T],
        *,
        priority: int = 0,
        deadline: float = 0.0,
        cancel: CancelToken | None = None,
    ) -> "Future[T]":
        """Queue `fn`. The future fails with EngineError when the inbox is full or the worker has stopped."""
        future: Future[T] = Future()
        job: _Job = (priority, deadline, next(self._serial), future, fn, cancel or CancelToken())
        refused: Future[Any] | None = None
        with self._wake:
            if self._stopping:
                future.set_exception(EngineError(f"the {self.name} engine has stopped"))
                return future
            heapq.heappush(self._jobs, job)
            if len(self._jobs) > self._limit:
                worst = max(self._jobs)
                self._jobs.remove(worst)
                heapq.heapify(self._jobs)
                refused = worst[3]
            self._wake.notify()
        if refused is not None and refused.set_running_or_notify_cancel():
            refused.set_exception(EngineError(f"the {self.name} engine is overloaded"))
        return future

    async def call(
        self,
        fn: Callable[[], T],
        *,
        priority: int = 0,
        deadline: float = 0.0,
        cancel: CancelToken | None = None,
    ) -> T:
        """Run `fn` on the thread and await its result. Cancelling the awaiting task sets the cancel token."""
        token = cancel or CancelToken()
        future = self.submit(fn, priority=priority, deadline=deadline, cancel=token)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            token.cancel()
            raise

    async def stream(
        self,
        fn: Callable[[], Iterator[T]],
        *,
        priority: int = 0,
        deadline: float = 0.0,
        cancel: CancelToken,
        gained: Callable[[T], float] | None = None,
    ) -> AsyncIterator[T]:
        """Iterate over what the generator function `fn` yields on the thread, as it yields it.

        Each item is a job of its own, so that more urgent work gets in between; one item is made ahead of the
        consumer, no more. `gained` says by how many seconds an item moves the deadline of those after it.
        """
        items: list[Iterator[T]] = []

        def step() -> tuple[T, ...]:
            if not items:
                items.append(iter(fn()))
            return tuple(itertools.islice(items[0], 1))

        def ahead() -> "asyncio.Future[tuple[T, ...]]":
            return asyncio.wrap_future(self.submit(step, priority=priority, deadline=deadline, cancel=cancel))

        coming = ahead()
        ended = False
        try:
            while item := await coming:
                deadline += gained(item[0]) if gained else 0.0
                coming = ahead()
                yield item[0]
            ended = True
        finally:
            if not ended:  # the consumer left or failed, or the job did: what runs ahead is of no use
                cancel.cancel()
            coming.add_done_callback(lambda f: f.cancelled() or f.exception())

    def stop(self, timeout: float = 5.0) -> None:
        """Refuse what waits, let the running call end, join the thread. Idempotent."""
        with self._wake:
            self._stopping = True
            waiting, self._jobs = self._jobs, []
            self._wake.notify()
        for job in waiting:
            if job[3].set_running_or_notify_cancel():
                job[3].set_exception(Cancelled())
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._jobs and not self._stopping:
                    self._wake.wait()
                if self._stopping:
                    return
                *_, future, fn, cancel = heapq.heappop(self._jobs)
            if not future.set_running_or_notify_cancel():
                continue
            if cancel.cancelled:
                future.set_exception(Cancelled())
                continue
            try:
                future.set_result(fn())
            except BaseException as error:  # noqa: BLE001  the edge of the thread: the caller gets it, the next job runs
                future.set_exception(error)
            del future, fn, cancel
