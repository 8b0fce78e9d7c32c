"""The one reader of a station's input, for as long as the station lives.

Visits come and go and a station's loop may begin again; the source is opened once. It owns the blocks that wait
(the oldest give way) and the silence that stands in for an input that is muted, asleep or unplugged, so that
a conversation's time goes on. It knows nothing of what the blocks are used for.
"""

import asyncio
import contextlib
from collections import deque

import numpy as np

from appliance.audio.ports import Block, Source
from appliance.clock import Clock
from appliance.engines.ports import BLOCK, RATE

_WAITING = 300  # blocks, about 10 s
_MISSING_S = 1.0  # a device says it is lost after 0.3 s; what comes later than this is not waited for


class Ear:
    """`next` may be cancelled at any moment without losing a block."""

    def __init__(self, source: Source, clock: Clock) -> None:
        self.dropped = 0
        self._source = source
        self._clock = clock
        self._blocks: deque[Block] = deque()
        self._arrived = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._last: Block | None = None  # the newest given out
        self._silent = np.zeros(BLOCK, dtype=np.float32)

    @property
    def over(self) -> bool:
        """The source has ended, and everything of it was given out."""
        return self._task is not None and self._task.done() and not self._blocks

    def start(self) -> None:
        """Open the source. Idempotent."""
        if self._task is None:
            self._task = asyncio.create_task(self._read(), name="ear")

    async def next(self, timeout_s: float = 0.25) -> Block | None:
        """The next block; None when there is none within `timeout_s` or ever again. Raises what the source raised."""
        if not self._blocks and not self.over:
            self._arrived.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):  # no task of its own for each block, as wait_for makes
                    await self._arrived.wait()
        if self._blocks:
            self._last = self._blocks.popleft()
            return self._last
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()
        return None

    def missing(self) -> list[Block]:
        """Silence for the time that has passed without input, for a conversation that must not stand still."""
        out: list[Block] = []
        last = self._last
        while last is not None and last.captured_at < self._clock.now() - _MISSING_S:
            last = Block(self._silent, last.start + BLOCK, last.captured_at + BLOCK / RATE)
            out.append(last)
        self._last = last
        return out

    async def close(self) -> None:
        """Close the source. Idempotent."""
        await self._source.close()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=1.0)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _read(self) -> None:
        try:
            async for block in self._source.blocks():
                if self._last is not None and block.start < self._last.start + BLOCK:
                    continue  # silence has been given out in its place
                if len(self._blocks) == _WAITING:
                    self._blocks.popleft()
                    self.dropped += 1
                self._blocks.append(block)
                self._arrived.set()
        finally:
            self._arrived.set()
