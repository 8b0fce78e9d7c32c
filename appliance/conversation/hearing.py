"""A turn while it is being heard: where it lies on the tape, what the looks said, and the try at answering it.

It owns the running look and the running attempt of one turn, so that newer looks replace older ones. Whether
the turn is over is `turns.endpoint`'s decision; what happens then is the conversation's.
"""

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TypedDict

from appliance.clock import ms
from appliance.conversation.attempt import Attempt, joined
from appliance.conversation.desk import Desk
from appliance.conversation.tape import Tape
from appliance.engines.ports import RATE, Audio, CancelToken, Priority, Transcript
from appliance.errors import Cancelled, EngineError
from appliance.events import Transcribed
from appliance.turns.guards import Steady

# The end of a partial transcript often changes with the next word.
_UNSTABLE_WORDS = 2
# A stretch this long is not transcribed again after a pause: a final covers only what follows.
_LONG_SAMPLES = 8 * RATE
_OPEN_MS = 1000.0  # so long a turn that is over waits for its answer's first sound; then it is closed without


class Place(TypedDict):
    """Which session and turn an event belongs to."""

    session: str
    turn: int


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
    partial_logprob: float = 0.0  # mean a token
    partial_at: int = 0  # the position up to which it was taken
    begins: str = ""  # the newest words from `start` on; a later transcript is likely to begin with them
    said: str = ""  # words of the long turn's earlier stretches; they are not transcribed again
    base: int = 0  # where the stretch begins that is not yet in `said`; 0: at take_from
    audio_score: float | None = None
    over_since: float | None = None  # the instant from which on the policy has held the turn for over
    next_look_ms: float = 0.0
    tries: int = 0  # attempts begun
    tries_ahead: int = 0  # of those thrown away, the ones that the LLM had started on
    wasted_tokens: int = 0
    attempt: Attempt | None = None
    looking: asyncio.Task[None] | None = None
    reading: asyncio.Task[None] | None = None
    _cancel: CancelToken = field(default_factory=CancelToken)
    _unread: CancelToken = field(default_factory=CancelToken)

    @property
    def start(self) -> int:
        """From which sample on the turn still has to be transcribed."""
        return max(self.take_from, self.base)

    @property
    def draft(self) -> Transcript | None:
        """The transcript of everything said so far, None while there is none."""
        return self.attempt.transcript if self.attempt is not None else None

    @property
    def words(self) -> str | None:
        """The newest words, maybe of a part of what was said only; None while there are none."""
        return self.draft.text if self.draft is not None else self.partial

    @property
    def logprob(self) -> float:
        """The mean log-probability a token of `words`."""
        return self.draft.logprob if self.draft is not None else self.partial_logprob

    @property
    def words_coming(self) -> bool:
        """A transcript is under way."""
        drafting = self.attempt is not None and self.attempt.transcript is None and not self.attempt.task.done()
        return drafting or (self.reading is not None and not self.reading.done())

    @property
    def opinion_coming(self) -> bool:
        """The language model is reading the words; what it thinks of the end comes with its first token."""
        if self.attempt is None:
            return False
        return self.attempt.reading or (self.attempt.thought_ahead and self.attempt.stamps.first_token is None)

    @property
    def llm_score(self) -> float | None:
        return self.attempt.turn_end if self.attempt else None

    def look(self, desk: Desk, audio: Audio, next_ms: float) -> None:
        """Ask for the acoustic score of `audio` unless a look is still under way; the next is due at `next_ms`."""
        self.next_look_ms = next_ms
        if self.looking is None or self.looking.done():
            self.looking = asyncio.create_task(self._look(desk, audio))

    async def _look(self, desk: Desk, audio: Audio) -> None:
        try:
            self.audio_score = await desk.engines.end_of_turn.score(audio[-8 * RATE :], self._cancel)
        except Cancelled:
            return
        except EngineError:
            self.audio_score = None  # overloaded: the policy goes on with what it has

    def listen_in(self, desk: Desk, audio: Audio, *, urgent: bool, language: str | None = None) -> None:
        """Transcribe `audio` while speech goes on, unless that is already under way; `partial` gets the words.

        `urgent`: an answer is held up by it. Otherwise it yields to everything, and the language model reads the
        words that are not likely to change, so that less is left to read when the turn ends.
        """
        if self.reading is None or self.reading.done():
            self.reading = asyncio.create_task(self._listen_in(desk, audio, urgent, language))

    def read_along(self, desk: Desk, tape: Tape, language: str | None) -> None:
        """In a long stretch of speech, transcribe now and then what was said so far."""
        every = int(desk.settings.partial_every_s * RATE)
        newest = max(self.partial_at, self.start)
        due = every and not self.over_answer and tape.end - newest >= every
        if due and desk.conduct().partials and desk.alone():
            self.partial_at = tape.end
            self.listen_in(desk, tape.cut(self.start), urgent=False, language=language)

    def stop_reading(self) -> None:
        """A pause: the draft that now begins must not wait for a partial."""
        self._unread.cancel()
        self._unread = CancelToken()

    async def _listen_in(self, desk: Desk, audio: Audio, urgent: bool, language: str | None) -> None:
        try:
            transcript = await desk.engines.transcriber.transcribe(
                audio,
                priority=Priority.FINAL if urgent else Priority.PARTIAL,
                cancel=self._unread,
                language=language,
                expected=self.begins,
                quick=True,
            )
        except (EngineError, Cancelled):
            return
        self.begins = transcript.text
        self.partial, self.partial_logprob = joined(self.said, transcript.text), transcript.logprob
        desk.bus.publish(
            Transcribed(
                at=desk.clock.now(),
                session=desk.session,
                turn=self.turn,
                kind="partial",
                text=self.partial,
                language=transcript.language,
                audio_ms=len(audio) / 16,
                took_ms=transcript.took_ms,
            )
        )
        stable = " ".join(self.partial.split()[:-_UNSTABLE_WORDS])
        if stable and not urgent and self.attempt is None:
            await desk.chat.anticipate(stable)

    def take_over(self, earlier: "Hearing") -> None:
        """The turn before, whose answer nobody heard, was the beginning of this one."""
        self.turn, self.started, self.take_from = earlier.turn, earlier.started, earlier.take_from
        self.voiced_blocks += earlier.voiced_blocks
        self.voiced_sum += earlier.voiced_sum

    async def resume(self) -> None:
        """Speech goes on: the looks and the attempt of the pause are void.

        In a long turn the words before the pause stay; only what follows is transcribed then.
        """
        draft = self.draft
        if draft is not None and draft.text:
            self.partial_at = self.last_sample
            if self.last_sample - self.start >= _LONG_SAMPLES:
                self.said, self.base, self.begins = draft.text, self.last_sample, ""
            elif not self.said:
                self.begins = draft.text
        self.silence_ms = 0.0
        self.audio_score = self.over_since = None
        self.next_look_ms = 0.0
        self._stop_looking()
        await self.drop_attempt()

    def awaits_sound(self, now: float) -> bool:
        """The policy holds the turn for over at `now`: does it wait for an answer that is on its way?"""
        if self.over_since is None:
            self.over_since = now
        return self.attempt is not None and self.attempt.preparing and ms(self.over_since, now) < _OPEN_MS

    async def settled(self) -> None:
        """Return once the running look has ended and the words of the draft are there."""
        if self.looking is not None:
            await asyncio.wait([self.looking])
        if self.attempt is not None:
            await asyncio.wait(
                [self.attempt.task, asyncio.create_task(self.attempt.heard_words.wait())],
                return_when=asyncio.FIRST_COMPLETED,
            )

    async def drop_attempt(self) -> None:
        attempt, self.attempt = self.attempt, None
        if attempt is not None:
            await attempt.abandon()
            if attempt.thought_ahead:
                self.tries_ahead += 1
                self.wasted_tokens += attempt.tokens - attempt.recalled

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
