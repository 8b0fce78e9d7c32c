"""The way of one answer from the engine's thread to the event loop, and of text out of tokens.

Owns the bounded stream of pieces, UTF-8 assembly and stop strings. It does not know the context or the scheduler.
"""

import asyncio
import codecs
from collections import deque
from collections.abc import AsyncIterator, Callable

from appliance.engines.ports import Halt, Piece
from appliance.errors import ApplianceError


class LlamaGeneration:
    """`ports.Generation`. The thread feeds it through `deliver`, which runs on the loop that called `generate`."""

    def __init__(self, wake: Callable[[], None], halt: Halt | None = None) -> None:
        self.halt = halt
        self.prompt_tokens = self.recalled = 0
        self.finish = ""
        self.turn_end: float | None = None
        self.loop = asyncio.get_running_loop()
        self.cancelled = False
        self.read = 0  # pieces taken by the client; only the loop writes, the thread compares
        self.wanted = 0  # pieces asked for; likewise
        self.paused = False  # the thread waits for the client to read; only the thread writes
        self._wake = wake
        self._pieces: deque[Piece] = deque()
        self._ended = False
        self._error: ApplianceError | None = None
        self._news = asyncio.Event()

    def cancel(self) -> None:
        self.cancelled = True
        self._wake()

    def __aiter__(self) -> AsyncIterator[Piece]:
        return self

    async def __anext__(self) -> Piece:
        self.wanted += 1
        if self.paused:
            self._wake()
        while not self._pieces:
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            if self._ended:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        self.read += 1
        if self.paused:
            self._wake()
        return self._pieces.popleft()

    def deliver(self, piece: Piece) -> None:
        self._pieces.append(piece)
        self._news.set()

    def end(self, finish: str, error: ApplianceError | None) -> None:
        self.finish, self._error, self._ended = finish, error, True
        self._news.set()


class TextOut:
    """Bytes of tokens -> text that may be shown. Holds back unfinished characters and beginnings of stop strings."""

    def __init__(self, stop: tuple[str, ...]) -> None:
        self._stop = tuple(s for s in stop if s)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self.stopped = False

    def add(self, data: bytes, *, last: bool = False) -> str:
        """The text that became certain. After `stopped`, nothing more does."""
        if self.stopped:
            return ""
        text = self._held + self._decoder.decode(data, last)
        places = [place for place in (text.find(s) for s in self._stop) if place >= 0]
        if places:
            self.stopped, self._held = True, ""
            return text[: min(places)]
        keep = 0 if last else max((_overlap(text, s) for s in self._stop), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of `text` could begin `stop`."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
