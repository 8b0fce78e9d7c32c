"""One try at answering what a person has said so far: transcript, thought, clauses, sound.

An attempt starts at a pause, before anyone knows whether the turn is over. It may think and synthesise
ahead, but nothing is heard until it is released; when speech goes on it is abandoned and leaves no trace.
It owns the tasks of its turn (one TaskGroup) and the stamps of the critical path; it decides nothing.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from enum import IntEnum

from appliance import events
from appliance.clock import ms
from appliance.conversation.desk import Desk
from appliance.engines.ports import Audio, CancelToken, Generation, Halt, Priority, Spoken, Transcript
from appliance.speech.chunker import Chunker, ChunkSettings, Clause
from appliance.speech.clean import StreamCleaner
from appliance.speech.normalise import normalise


@dataclass(slots=True)
class Stamps:
    """Instants along the critical path; None until reached."""

    last_speech: float
    over: float | None = None  # the policy held the turn for over
    released: float | None = None  # from here on it may be heard
    transcript: float | None = None
    thinking: float | None = None
    first_token: float | None = None
    last_token: float | None = None
    first_clause: float | None = None
    first_chunk: float | None = None


class Leave(IntEnum):
    """What the language model may do with a draft while the turn can still go on."""

    WAIT = 0
    READ = 1  # the words, and say what it thinks of their end
    ANSWER = 2  # write, held back


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the words before they are transcribed."""

    said: str = ""  # the turn's words before the audio; they are not transcribed again
    expected: str = ""  # of an earlier transcript of the same audio
    language: str | None = None  # None: as configured


class Attempt:
    """See the module. Created on the event loop; starts at once."""

    def __init__(
        self,
        desk: Desk,
        turn: int,
        audio: Audio,
        last_speech: float,
        *,
        known: Known | None = None,
        quick: bool = False,
        leave: Callable[[], Leave] = lambda: Leave.WAIT,
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        """`audio`: what is still to be transcribed; `quick`: as `Transcriber.transcribe` has it.

        `leave` is asked when the transcript is there, and when the language model has read it. `ready` is called when
        the first sound is there; it may release the attempt.
        """
        self.turn = turn
        self.stamps = Stamps(last_speech)
        self.transcript: Transcript | None = None
        self.reply = ""  # cleaned text written so far
        self.tokens = self.recalled = 0  # of the answer; of these, as `Generation.recalled`
        self.skill = ""
        self.turn_end: float | None = None  # the LLM's opinion, once its prompt is evaluated
        self.reading = False  # the LLM reads the words; it has not been asked for an answer
        self.heard_words = asyncio.Event()  # the transcript is there (possibly empty)
        self._desk = desk
        self._audio = audio
        self._cancel = CancelToken()
        self._released = asyncio.Event()
        self._unheld = asyncio.Event()  # cleared while someone may be interrupting
        self._unheld.set()
        self._may_think = asyncio.Event()
        self._sound_ready = asyncio.Event()  # the first clause has been synthesised, as far as its first piece
        self._known = known or Known()
        self._quick = quick
        self._leave = leave
        self._ready = ready
        self._act: Callable[[], None] | None = None  # what a skill does once its answer may be heard
        self._generation: Generation | None = None
        self._clauses: asyncio.Queue[Clause | None] = asyncio.Queue(maxsize=64)  # more than any answer has
        self.task = asyncio.create_task(self._run(), name=f"turn-{turn}")

    # what the conversation calls

    @property
    def released(self) -> bool:
        return self._released.is_set()

    @property
    def thought_ahead(self) -> bool:
        """The LLM started on it while the turn could still go on."""
        return self.stamps.thinking is not None and (
            self.stamps.released is None or self.stamps.thinking < self.stamps.released
        )

    @property
    def preparing(self) -> bool:
        """It is under way and has no sound yet."""
        return self.stamps.first_chunk is None and not self.task.done()

    def think(self) -> None:
        """Let the LLM start on the draft, held back."""
        self._may_think.set()

    def release(self, over: float) -> None:
        """The turn, over since the instant `over`, is closed: what is held is heard, the rest follows."""
        self.stamps.over, self.stamps.released = over, self._desk.clock.now()
        self._may_think.set()
        self._released.set()

    def hold(self, held: bool) -> None:
        """Someone may be interrupting: nothing begins to sound, and nothing more is made, so that the cores hear."""
        if held:
            self._unheld.clear()
        else:
            self._unheld.set()

    async def abandon(self) -> None:
        """Stop everything and wait until it has stopped. Idempotent; errors of the work are swallowed."""
        self._cancel.cancel()
        if self._generation is not None:
            self._generation.cancel()
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(asyncio.gather(self.task, return_exceptions=True))

    # the work

    async def _run(self) -> None:
        desk = self._desk
        started = desk.clock.now()
        priority = Priority.FINAL if self.released else Priority.DRAFT
        heard = await desk.engines.transcriber.transcribe(
            self._audio,
            priority=priority,
            cancel=self._cancel,
            language=self._known.language,
            expected=self._known.expected,
            quick=self._quick,
        )
        self.transcript = replace(heard, text=joined(self._known.said, heard.text)) if self._known.said else heard
        self.stamps.transcript = desk.clock.now()
        self.heard_words.set()
        desk.bus.publish(
            events.Transcribed(
                at=self.stamps.transcript,
                session=desk.session,
                turn=self.turn,
                kind="final" if self.released else "draft",
                text=self.transcript.text,
                language=self.transcript.language,
                audio_ms=len(self._audio) / 16,
                took_ms=ms(started, self.stamps.transcript),
            )
        )
        if not self.transcript.text:
            return
        leave = self._leave()
        if leave is Leave.READ:
            await self._read(self.transcript.text)
            leave = self._leave()
        if leave is Leave.ANSWER:
            self.think()
        await self._may_think.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._think(self.transcript))
            group.create_task(self._speak(self.transcript.language))

    async def _read(self, words: str) -> None:
        """Let the LLM read the words and say what it thinks of their end; an answer that is wanted goes first."""
        opinion = asyncio.create_task(self._desk.chat.anticipate(words))
        wanted = asyncio.create_task(self._may_think.wait())
        self.reading = True
        try:
            await asyncio.wait((opinion, wanted), return_when=asyncio.FIRST_COMPLETED)
            if opinion.done():
                self.turn_end = opinion.result()
        finally:
            self.reading = False
            opinion.cancel()
            wanted.cancel()

    async def _think(self, transcript: Transcript) -> None:
        """Write the answer, clause by clause, into the queue."""
        desk, stamps = self._desk, self.stamps
        stamps.thinking = desk.clock.now()
        cleaner, chunker = StreamCleaner(), Chunker(desk.settings.clauses, transcript.language)
        async for text in self._words(transcript):
            clean = cleaner.feed(text)
            self.reply += clean
            await self._pass_on(chunker.feed(clean))
        clean = cleaner.flush()
        self.reply += clean
        await self._pass_on([*chunker.feed(clean), *chunker.flush()])
        await self._clauses.put(None)
        if self._act is not None:
            await self._released.wait()
            self._act()

    async def _words(self, transcript: Transcript) -> AsyncIterator[str]:
        """The answer's raw text as it comes: from a skill where one knows it, else from the LLM."""
        desk, stamps = self._desk, self.stamps
        if desk.skills is not None:
            known = desk.skills.answer(desk.session, transcript.text, transcript.language)
            if known is not None:
                self.skill, self._act = known.skill, known.act
                yield known.text
                return
        ahead = desk.settings.speculation.tokens_ahead
        limit = min(desk.settings.answer.max_tokens, desk.conduct().max_tokens)
        completes = completes_first_clause(desk.settings.clauses, transcript.language)
        generation = desk.chat.generate(
            transcript.text,
            replace(desk.settings.answer, max_tokens=limit),
            halt=lambda text: completes(text) or not self._unheld.is_set(),
        )
        self._generation = generation
        async for piece in generation:
            if stamps.first_token is None:
                stamps.first_token = piece.at
                self.turn_end, self.recalled = generation.turn_end, generation.recalled
                desk.bus.publish(
                    events.FirstToken(
                        at=piece.at,
                        session=desk.session,
                        turn=self.turn,
                        ttft_ms=ms(stamps.thinking or piece.at, piece.at),
                        prompt_tokens=generation.prompt_tokens,
                    )
                )
            stamps.last_token = piece.at
            self.tokens += piece.tokens
            if piece.text:
                yield piece.text
            if self.tokens >= ahead:
                await self._released.wait()
            await self._unheld.wait()

    async def _pass_on(self, clauses: list[Clause]) -> None:
        for clause in clauses:
            first = self.stamps.first_clause is None
            if first:
                self.stamps.first_clause = self._desk.clock.now()
            await self._clauses.put(clause)
            if first:  # nothing is asked of the LLM meanwhile, so it pauses and leaves the cores to the first sound
                await self._sound_ready.wait()

    async def _speak(self, language: str) -> None:
        """Turn clauses into sound, in order; the first waits for the release."""
        desk = self._desk
        index = 0
        while (clause := await self._clauses.get()) is not None:
            await self._unheld.wait()
            started = desk.clock.now()
            desk.bus.publish(
                events.ClauseReady(
                    at=started, session=desk.session, turn=self.turn, index=index, text=clause.text, tokens=self.tokens
                )
            )
            samples = 0
            speech = desk.engines.synthesizer.synthesize(
                normalise(clause.text, language),
                priority=Priority.FINAL if index == 0 else Priority.LATER,
                deadline=desk.player.runs_dry_at if self.released else 0.0,
                cancel=self._cancel,
            )
            async for piece in speech:
                samples += len(piece.audio)
                await self._play(piece, clause)
            self._sound_ready.set()  # a clause may have no sound at all
            desk.bus.publish(
                events.ClauseSynthesized(
                    at=desk.clock.now(),
                    session=desk.session,
                    turn=self.turn,
                    index=index,
                    audio_ms=samples * 1000 / desk.engines.synthesizer.sample_rate,
                    took_ms=ms(started, desk.clock.now()),
                )
            )
            index += 1
        await self._released.wait()
        if self.stamps.first_chunk is not None:
            desk.player.end()
            await desk.player.drained()

    async def _play(self, piece: Spoken, clause: Clause) -> None:
        if self.stamps.first_chunk is None:
            self.stamps.first_chunk = self._desk.clock.now()
            self._sound_ready.set()
            self._ready()
            await self._released.wait()
            await self._unheld.wait()
            self._desk.player.begin(self.turn)
        self._desk.player.play(piece, clause.end)


def completes_first_clause(settings: ChunkSettings, language: str) -> Halt:
    """Whether a piece of the answer completes its first clause: True once, then the LLM leaves the cores to the voice.

    It runs where the piece is made, because the next step would have begun before the event loop knew.
    """
    cleaner, chunker = StreamCleaner(), Chunker(settings, language)
    waiting = True

    def completes(text: str) -> bool:
        nonlocal waiting
        completed = waiting and bool(chunker.feed(cleaner.feed(text)))
        waiting = waiting and not completed
        return completed

    return completes


def joined(said: str, more: str) -> str:
    """Two stretches of one turn as one text: a full stop in mid-sentence is only where the transcriber paused."""
    if not said or not more:
        return said or more
    if more[:1].islower():
        said = said.rstrip().rstrip(".…")
    return f"{said.rstrip()} {more.lstrip()}"
