"""A turn while it is being heard: where it lies on the tape, what the looks said, and the try at answering it.

It owns the running look and the running attempt of one turn, so that newer looks replace older ones. Whether
the turn is over is `turns.endpoint`'s decision; what happens then is the conversation's.
"""

import asyncio
import contextlib
from dataclasses import dataclass, field

from appliance.conversation.attempt import Attempt
from appliance.conversation.desk import Desk
from appliance.engines.ports import RATE, Audio, CancelToken, Priority
from appliance.errors import Cancelled, EngineError
from appliance.turns.guards import Steady


@dataclass(slots=True)
class Hearing:
    """Positions are samples on the tape. `silence_ms` is 0 while speech is coming in."""

    turn: int
    started: str
    take_from: int
    first_sample: int
    last_sample: int
    last_speech_at: float
    steady: Steady
    over_answer: bool = False  # it began while an answer was on its way: maybe an interruption
    silence_ms: float = 0.0
    voiced_blocks: int = 0
    voiced_sum: float = 0.0  # of their probabilities
    partial: str | None = None  # a transcript of speech that still goes on
    audio_score: float | None = None
    next_look_ms: float = 0.0
    tries: int = 0  # attempts begun
    tries_ahead: int = 0  # of those thrown away, the ones that the LLM had started on
    wasted_tokens: int = 0
    attempt: Attempt | None = None
    looking: asyncio.Task[None] | None = None
    reading: asyncio.Task[None] | None = None
    _cancel: CancelToken = field(default_factory=CancelToken)

    @property
    def words(self) -> str | None:
        """The draft transcript of everything said so far, None while there is none."""
        if self.attempt is not None and self.attempt.transcript is not None:
            return self.attempt.transcript.text
        return self.partial

    @property
    def llm_score(self) -> float | None:
        return self.attempt.turn_end if self.attempt else None

    def look(self, desk: Desk, audio: Audio) -> None:
        """Ask for the acoustic score of `audio` unless a look is still under way."""
        if self.looking is None or self.looking.done():
            self.looking = asyncio.create_task(self._look(desk, audio))

    async def _look(self, desk: Desk, audio: Audio) -> None:
        try:
            self.audio_score = await desk.engines.end_of_turn.score(audio[-8 * RATE :], self._cancel)
        except Cancelled:
            return
        except EngineError:
            self.audio_score = None  # overloaded: the policy goes on with what it has

    def listen_in(self, desk: Desk, audio: Audio) -> None:
        """Transcribe `audio` while speech goes on, unless that is already under way; `partial` gets the words."""
        if self.reading is None or self.reading.done():
            self.reading = asyncio.create_task(self._listen_in(desk, audio))

    async def _listen_in(self, desk: Desk, audio: Audio) -> None:
        try:
            transcript = await desk.engines.transcriber.transcribe(audio, priority=Priority.FINAL, cancel=self._cancel)
        except (EngineError, Cancelled):
            return
        self.partial = transcript.text

    async def resume(self) -> None:
        """Speech goes on: the looks and the attempt of the pause are void."""
        self.silence_ms = 0.0
        self.audio_score = None
        self.next_look_ms = 0.0
        self._stop_looking()
        await self.drop_attempt()

    async def drop_attempt(self) -> None:
        attempt, self.attempt = self.attempt, None
        if attempt is not None:
            await attempt.abandon()
            if attempt.thought_ahead:
                self.tries_ahead += 1
                self.wasted_tokens += attempt.tokens

    def release(self) -> Attempt:
        """The turn is over: hand the attempt on. There must be one."""
        attempt, self.attempt = self.attempt, None
        if attempt is None:
            raise RuntimeError("no attempt to release")
        self._stop_looking()
        return attempt

    async def close(self) -> None:
        self._stop_looking()
        for task in (self.looking, self.reading):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        await self.drop_attempt()

    def _stop_looking(self) -> None:
        self._cancel.cancel()
        self._cancel = CancelToken()
        if self.looking is not None:
            self.looking.cancel()
