"""A microphone made of files: what is said, when, block by block.

Owns the order of files and silences and the arithmetic of their instants. The sample count is the clock: a
block's `captured_at` is the opening instant plus its samples over 16,000, never the moment a sleep returned.
Knows nothing of what the blocks are used for.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from appliance.audio.files import AudioFile
from appliance.audio.ports import Block
from appliance.clock import Clock
from appliance.engines.ports import BLOCK, RATE, Audio


@dataclass(frozen=True, slots=True)
class Said:
    """Where one utterance lies in the stream: samples `start` up to `end`, at 16 kHz since the source opened."""

    name: str
    start: int
    end: int


class FileSource:
    """A `Source` that speaks files, and silence between them.

    Paced, it runs in real time: between utterances it yields silence blocks until `end`. A consumer that lags
    gets the backlog at once, as from a device. Unpaced, it yields what was asked for as fast as it is taken,
    then waits for the next `say`, `silence` or `end`; instants are those of the sample count all the same.

        source = FileSource([], clock, pace=True)
        source.say(open_audio("question.wav"), after_ms=500)
        await source.drained()   # the utterance is out; wait for the answer, say the next, then end()
    """

    def __init__(self, files: Iterable[AudioFile | Audio], clock: Clock, pace: bool = True, *, gap_ms: float = 500.0):
        self.said: list[Said] = []
        self._clock = clock
        self._pace = pace
        self._queue: deque[tuple[str, Iterator[Audio]]] = deque()
        self._ended = self._closed = False
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.opened_at: float | None = None
        for file in files:
            self.say(file, after_ms=gap_ms)

    def say(self, audio: AudioFile | Audio, *, after_ms: float = 0.0, name: str = "") -> None:
        """Queue an utterance (16 kHz mono float32 if an array) behind `after_ms` of silence."""
        if after_ms > 0:
            self.silence(after_ms)
        if isinstance(audio, AudioFile):
            self._push(name or audio.name, audio.chunks(BLOCK))
        else:
            self._push(name or "audio", iter(_cut(audio)))

    def silence(self, duration_ms: float) -> None:
        """Queue silence, rounded up to whole blocks. Unpaced, this is the only silence there is."""
        blocks = -(-int(duration_ms * RATE) // (1000 * BLOCK))
        self._push("", (np.zeros(BLOCK, dtype=np.float32) for _ in range(blocks)))

    def end(self) -> None:
        """Nothing more will be said: the stream ends after what is queued."""
        self._ended = True
        self._wake.set()

    async def drained(self) -> None:
        """Return when everything queued has been taken by the consumer."""
        await self._idle.wait()

    def instant(self, position: int) -> float:
        """The instant of sample `position`. Raises RuntimeError before the first block."""
        if self.opened_at is None:
            raise RuntimeError("the source has not been opened")
        return self.opened_at + position / RATE

    async def blocks(self) -> AsyncIterator[Block]:
        self.opened_at = self._clock.now()
        position = 0
        while not self._closed:
            if self._queue:
                name, chunks = self._queue.popleft()
                said = Said(name, position, position)
                for chunk in chunks:
                    if name:
                        said = self._note(said, position + len(chunk))
                    yield await self._block(_padded(chunk), position)
                    position += BLOCK
                    if self._closed:
                        return
                continue
            self._idle.set()
            if self._ended:
                return
            if self._pace:
                yield await self._block(np.zeros(BLOCK, dtype=np.float32), position)
                position += BLOCK
            else:
                self._wake.clear()
                await self._wake.wait()

    async def close(self) -> None:
        """End at once; what is queued is dropped. Idempotent."""
        self._closed = True
        self._queue.clear()
        self.end()
        self._idle.set()

    async def _block(self, samples: Audio, start: int) -> Block:
        captured_at = self.instant(start + BLOCK)
        if self._pace:
            await self._clock.sleep_until(captured_at)
        else:
            await asyncio.sleep(0)  # unpaced must not starve the loop
        return Block(samples, start, captured_at)

    def _push(self, name: str, chunks: Iterator[Audio]) -> None:
        self._queue.append((name, chunks))
        self._idle.clear()
        self._wake.set()

    def _note(self, said: Said, end: int) -> Said:
        """Extend the entry of the utterance under way, or begin it."""
        grown = replace(said, end=end)
        if self.said and self.said[-1] is said:
            self.said[-1] = grown
        else:
            self.said.append(grown)
        return grown


def _cut(audio: Audio) -> list[Audio]:
    return [audio[at : at + BLOCK] for at in range(0, len(audio), BLOCK)]


def _padded(chunk: Audio) -> Audio:
    return chunk if len(chunk) == BLOCK else np.pad(chunk, (0, BLOCK - len(chunk)))
