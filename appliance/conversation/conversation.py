"""One session: it listens block by block, decides with the pure policies of `turns`, and runs the attempts.

At any moment there is at most one turn being heard and one answer being given. Speech while an answer is on
its way ducks it; whether that was an interruption is decided by the words. The conversation owns the tape, the
turn numbers and the record of each finished turn. It does not know devices, files, models or SQL.
"""

import asyncio
from functools import partial

import numpy as np

from appliance import events
from appliance.audio.levels import dbfs
from appliance.audio.ports import Block, Source
from appliance.clock import wall
from appliance.conversation.alert import Alert
from appliance.conversation.answering import Answering
from appliance.conversation.attempt import Attempt, Known, Leave
from appliance.conversation.desk import Desk
from appliance.conversation.hearing import Hearing, Place
from appliance.conversation.judgement import Judgement
from appliance.conversation.ringing import Ringing
from appliance.conversation.tape import Tape
from appliance.engines.ports import RATE
from appliance.events import State
from appliance.turns.bargein import Action
from appliance.turns.gate import Gate, GateEvent, Pause, Resume, Silence, SpeechStart, TooLong
from appliance.turns.guards import Steady

# Below this peak a block is silence whatever the model would say, and it is not asked. -70 dBFS.
_SILENT_PEAK = 10 ** (-70 / 20)
_HEARD_EVERY = 8  # blocks between two progress events of an answer


class Conversation:
    """`paced` False: the input waits for the answers and for every look, so that policy sees the same numbers."""

    def __init__(self, desk: Desk, *, station: str = "default", paced: bool = True) -> None:
        self._desk = desk
        self._station = station
        self._paced = paced
        settings = desk.settings
        self._gate = Gate(settings.gate)
        self._judgement = Judgement(desk)
        self._ringing = Ringing(desk)
        self._failure: BaseException | None = None
        self._told_to_end = False
        self._tape = Tape(settings.gate.max_turn_ms / 1000 + 15)
        self._turns = 0
        self._hearing: Hearing | None = None
        self._answering: Answering | None = None
        self._state = State.WAITING
        self._alert = Alert(settings.barge_in.alert_probability)
        self._blocks = 0
        self.muted = False

    # what the app and the screen call

    @property
    def session(self) -> str:
        return self._desk.session

    @property
    def idle(self) -> bool:
        """Nobody is being heard and nothing is being answered."""
        return self._hearing is None and self._answering is None

    async def run(self, source: Source) -> None:
        """Listen to `source` until it ends, finish what is under way, and leave nothing behind."""
        desk = self._desk
        desk.bus.publish(events.SessionOpened(at=desk.clock.now(), session=desk.session, station=self._station))
        reason = "error"
        try:
            self._become(State.LISTENING)
            async for block in source.blocks():
                await self._hear(block)
                if self._failure is not None:
                    raise self._failure
            await self._input_ended()
            reason = "end of input"
        except asyncio.CancelledError:
            reason = "stopped"
            raise
        finally:
            try:
                await self._close()
            finally:  # cancelled a second time, it has ended all the same
                desk.bus.publish(events.SessionClosed(at=desk.clock.now(), session=desk.session, reason=reason))

    async def interrupt(self) -> None:
        """Cut the answer that is being given, as the interrupt key does. What was heard is kept."""
        if self._answering is not None:
            await self._cut_answer()
            self._become(State.LISTENING if self._hearing is None else State.HEARING)
        elif self._hearing is not None and self._hearing.over_since is not None:
            self._gate.end_turn()
            await self._drop(self._hearing, "interrupted")

    def finish_turn(self) -> None:
        """The person says by a key that they are done; the turn is over with the next block."""
        self._told_to_end = self._hearing is not None

    # listening

    async def _hear(self, block: Block) -> None:
        desk = self._desk
        self._tape.append(block.samples, block.start, block.captured_at)
        self._blocks += 1
        silent = self.muted or float(np.abs(block.samples).max()) < _SILENT_PEAK
        probability = 0.0 if silent else await desk.engines.vad.probability(desk.session, block.samples)
        level = dbfs(block.samples)
        desk.bus.publish(
            events.Level(
                at=block.captured_at,
                session=desk.session,
                turn=self._hearing.turn if self._hearing else 0,
                input_dbfs=level,
                speech=probability,
                output_dbfs=desk.player.output_dbfs,
            )
        )
        if self._hearing is not None and probability >= desk.settings.gate.stop_probability:
            self._hearing.voiced_blocks += 1
            self._hearing.voiced_sum += probability
        self._alert.note(block.start, probability)
        for event in self._gate.feed(probability, block.start, level):
            await self._on(event)
        self._alert.weigh(self._answering if self._hearing is None else None, block.start, self._tape)
        if self._answering is not None and self._blocks % _HEARD_EVERY == 0:
            self._answering.publish_progress()
        if self._hearing is not None:
            await self._consider(self._hearing)
        elif self._answering is None:
            self._ringing.ring()
        if not self._paced:
            await self._catch_up()

    async def _on(self, event: GateEvent) -> None:
        hearing = self._hearing
        match event:
            case SpeechStart():
                self._begin_hearing(event)
            case _ if hearing is None:
                pass  # the rest of a turn that was already decided
            case Pause():
                hearing.last_sample = self._tape.voiced_end(event.last_sample)
                hearing.last_speech_at = self._tape.instant(hearing.last_sample)
                hearing.silence_ms = self._tape.ms_since(hearing.last_sample)
                self._publish(events.SpeechPaused(at=hearing.last_speech_at, **self._of(hearing)))
                self._become(State.PAUSE)
                hearing.stop_reading()
                self._try(hearing)
            case Silence():
                hearing.silence_ms = self._tape.ms_since(hearing.last_sample)
            case Resume():
                await hearing.resume()
                self._publish(events.SpeechResumed(at=self._tape.instant(event.first_sample), **self._of(hearing)))
                self._become(State.HEARING)
            case TooLong():
                await self._turn_over(hearing, "cap")

    def _begin_hearing(self, event: SpeechStart) -> None:
        if self._hearing is not None:
            return
        self._ringing.hush()
        self._turns += 1
        at = self._tape.instant(event.first_sample)
        self._hearing = Hearing(
            turn=self._turns,
            started=wall(self._desk.clock.now() - at if self._paced else 0.0),
            take_from=event.take_from,
            first_sample=event.first_sample,
            last_sample=event.first_sample,
            last_speech_at=at,
            steady=Steady(self._desk.settings.guards),
            over_answer=self._answering is not None,
        )
        stop = self._desk.settings.gate.stop_probability
        voiced = self._alert.voiced(event.first_sample, stop)
        self._hearing.voiced_blocks, self._hearing.voiced_sum = len(voiced), sum(voiced)
        self._publish(events.SpeechStarted(at=at, **self._of(self._hearing)))
        self._become(State.HEARING)

    def _try(self, hearing: Hearing) -> None:
        """A pause: look at how it sounds, and start on an answer in case this was the end."""
        desk = self._desk
        audio = self._tape.cut(hearing.take_from)
        if hearing.attempt is None and not self._judgement.not_speech(hearing, audio) and desk.conduct().drafts:
            hearing.attempt = self._attempt(hearing)
        hearing.look(desk, audio, self._judgement.next_look_ms(hearing.silence_ms))

    def _attempt(self, hearing: Hearing) -> Attempt:
        def leave() -> Leave:
            if hearing.silence_ms <= 0:
                return Leave.WAIT
            decision = self._judgement.decide(hearing)
            allowed = self._judgement.leave(hearing, decision)
            if decision.end and allowed is Leave.ANSWER and self._paced:
                self._stays_open(hearing)  # the words end the turn: not only with the next block
            return allowed

        return Attempt(
            self._desk,
            hearing.turn,
            self._tape.cut(hearing.start),
            hearing.last_speech_at,
            known=Known(hearing.said, hearing.begins, self._judgement.heard_in),
            quick=hearing.over_answer,
            leave=leave,
            ready=partial(self._sound_ready, hearing),
        )

    async def _consider(self, hearing: Hearing) -> None:
        """With what is known by now: think ahead, look again, end the turn, or wait."""
        if hearing.over_answer and await self._weigh_interruption(hearing):
            return
        if self._told_to_end:
            self._told_to_end = False
            await self._turn_over(hearing, "key")
            return
        if hearing.over_answer:
            return  # whether it is a turn at all comes before whether it is over
        if hearing.silence_ms <= 0:
            hearing.read_along(self._desk, self._tape, self._judgement.heard_in)
            return
        decision = self._judgement.decide(hearing)
        self._publish(self._judgement.looked(hearing, decision, at=self._tape.at))
        may_think = hearing.attempt is not None and self._judgement.leave(hearing, decision) is Leave.ANSWER
        if decision.end:
            if not may_think or not self._stays_open(hearing):
                await self._turn_over(hearing, decision.reason)
                return
        elif hearing.over_since is not None:
            hearing.over_since = None
            self._become(State.PAUSE)
        if hearing.attempt is not None and may_think:
            hearing.attempt.think()
        if self._judgement.look_due(hearing, decision):
            audio = self._tape.cut(hearing.take_from)
            hearing.look(self._desk, audio, self._judgement.next_look_ms(hearing.silence_ms))

    def _stays_open(self, hearing: Hearing) -> bool:
        """Until its answer can sound, a turn that is over may as well go on: then nobody was cut off."""
        if hearing.over_since is None:
            self._become(State.THINKING)
        return hearing.awaits_sound(self._desk.clock.now()) and self._paced

    def _sound_ready(self, hearing: Hearing) -> None:
        """The answer to what was said up to here could sound now: it does if the turn is over."""
        if self._hearing is not hearing or hearing.over_since is None or hearing.over_answer or self._answering:
            return
        if (decision := self._judgement.decide(hearing)).end:
            self._declare_over(hearing, decision.reason)
            self._answer(hearing, decision.reason)

    async def _turn_over(self, hearing: Hearing, reason: str) -> None:
        self._declare_over(hearing, reason)
        if self._answering is not None:  # a key, or the end of the input, before it was decided: it was meant
            hearing.over_answer = False
            await self._cut_answer()
        if hearing.attempt is None:
            why_not = self._judgement.not_speech(hearing, self._tape.cut(hearing.take_from))
            if why_not:
                await self._drop(hearing, why_not)
                return
            hearing.attempt = self._attempt(hearing)
        self._answer(hearing, reason)

    def _declare_over(self, hearing: Hearing, reason: str) -> None:
        if hearing.over_since is None:
            hearing.over_since = self._desk.clock.now()
        self._publish(
            events.TurnEnded(
                at=hearing.over_since, last_speech_at=hearing.last_speech_at, reason=reason, **self._of(hearing)
            )
        )
        self._gate.end_turn()

    def _answer(self, hearing: Hearing, reason: str) -> None:
        desk, attempt = self._desk, hearing.release()
        attempt.release(desk.clock.now() if hearing.over_since is None else hearing.over_since)
        self._hearing = None
        desk.turn_began(self.session)
        self._answering = Answering(desk, hearing, attempt, reason, self._station)
        self._answering.task.add_done_callback(partial(self._answered, attempt))
        self._become(State.THINKING)

    # interruptions

    async def _weigh_interruption(self, hearing: Hearing) -> bool:
        """Speech over an answer: has it turned out to be one? True when `hearing` is no more."""
        answering = self._answering
        if answering is None:
            hearing.over_answer = False  # the answer ended by itself meanwhile
            return False
        verdict = self._judgement.interruption(hearing, answering, self._tape.end)
        if verdict.transcribe and hearing.attempt is None:
            hearing.listen_in(self._desk, self._tape.cut(hearing.start), urgent=True, language=self._judgement.heard_in)
        match verdict.action:
            case Action.DUCK:
                answering.duck(self._tape.instant(hearing.first_sample))
            case Action.INTERRUPT:
                hearing.over_answer = False
                answering.duck(self._tape.instant(hearing.first_sample))
                await self._cut_answer()
            case Action.RESUME:
                answering.resume()
                self._gate.end_turn()
                await self._drop(hearing, verdict.reason)
                return True
            case Action.IGNORE:
                pass
        return False

    async def _cut_answer(self) -> None:
        """Stop the answer; where nothing of it was heard, the turn under way takes over the earlier words."""
        answering, hearing = self._answering, self._hearing
        if answering is None:
            return
        self._answering = None
        record = await answering.cut()
        if record is not None:
            self._judgement.remember(record, answering.attempt.transcript)
        elif hearing is not None:
            self._judgement.patience.resumed((hearing.first_sample - answering.hearing.last_sample) * 1000 / RATE)
            hearing.take_over(answering.hearing)
            await hearing.drop_attempt()
            if hearing.silence_ms > 0:
                hearing.attempt = self._attempt(hearing)

    # ends

    def _answered(self, attempt: Attempt, task: "asyncio.Task[events.TurnRecord | None]") -> None:
        self._desk.turn_ended(self.session)
        if self._answering is not None and self._answering.task is task:
            self._answering = None
            self._desk.player.resume()  # it may have ended while it was ducked
            if self._hearing is None:
                self._become(State.LISTENING)
            else:
                self._hearing.over_answer = False
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            self._failure = error
        elif (record := task.result()) is not None:
            self._judgement.remember(record, attempt.transcript)
            self._judgement.patience.turn_went_well()

    async def _drop(self, hearing: Hearing, reason: str) -> None:
        self._hearing = None
        if self._answering is not None:
            self._answering.resume()
        await hearing.close()
        self._publish(events.TurnDropped(at=self._desk.clock.now(), reason=reason, **self._of(hearing)))
        self._become(State.LISTENING if self._answering is None else State.SPEAKING)

    async def _catch_up(self) -> None:
        """Unpaced: let every look, draft and answer end before the next block."""
        hearing = self._hearing
        if hearing is not None and hearing.silence_ms > 0:
            await hearing.settled()
            await self._consider(hearing)
        if self._answering is not None:
            await asyncio.wait([self._answering.task])

    async def _input_ended(self) -> None:
        if self._hearing is not None:
            await self._turn_over(self._hearing, "end of input")
        if self._answering is not None:
            self._answering.resume()  # whatever had silenced it will not go on
            await asyncio.wait([self._answering.task])

    async def _close(self) -> None:
        self._ringing.hush()
        if self._hearing is not None:
            await self._hearing.close()
            self._hearing = None
        if self._answering is not None:
            await self._answering.cut()
            self._answering = None
        self._desk.engines.vad.forget(self._desk.session)
        await self._desk.chat.close()

    # small change

    def _become(self, state: State) -> None:
        if state is not self._state:
            self._state = state
            turn = self._hearing.turn if self._hearing else self._turns
            self._publish(events.StateChanged(at=self._desk.clock.now(), session=self.session, turn=turn, state=state))

    def _of(self, hearing: Hearing) -> Place:
        return {"session": self.session, "turn": hearing.turn}

    def _publish(self, event: events.Event) -> None:
        self._desk.bus.publish(event)
