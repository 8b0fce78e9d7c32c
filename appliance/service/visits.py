"""A station's people: who comes, when their session begins and when it is over.

A visit begins when someone speaks (or says the wake word, or presses the talk key) and ends after a quiet spell.
It owns the blocks between the microphone and the conversation: what was said before the session was open is kept
for it, and what is said to nobody goes nowhere. It knows no engine but the VAD that notices speech.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

import numpy as np

from appliance import events
from appliance.app import Appliance
from appliance.audio.levels import dbfs
from appliance.audio.ports import Block, Sink, Source
from appliance.audio.resample import resample
from appliance.audio.settings import VisitSettings
from appliance.audio.wakeword import WakeSource
from appliance.capacity.limiter import Admitted, Queued
from appliance.conversation.conversation import Conversation
from appliance.engines.ports import BLOCK
from appliance.errors import ApplianceError
from appliance.events import State
from appliance.service.ear import Ear
from appliance.service.reception import REFUSED, WAITING, Reception
from appliance.turns.gate import Gate, SpeechStart

_KEPT_BLOCKS = 94  # 3 s from before the session was open, for who had to wait
_FIRST_BLOCKS = 38  # 1.2 s: the first words of who is let in at once
_SILENT_PEAK = 10 ** (-70 / 20)
_LEVEL_EVERY = 4  # blocks: nobody redraws more often while nothing is said, and each event wakes four listeners
_GONE_S = 1.0  # quiet for so long: whoever was refused has gone, or has finished
_GONE_AT_MOST_S = 15.0


class Visits:
    """One station's loop: wait for somebody, admit, converse, say goodbye, and again."""

    def __init__(
        self,
        box: Appliance,
        reception: Reception,
        source: Source,
        sink: Sink,
        settings: VisitSettings,
        *,
        station: str = "default",
        gate: WakeSource | None = None,
    ) -> None:
        self.station = station
        self.conversation: Conversation | None = None
        self.gate = gate  # with a wake word or push to talk; `source` is then behind it
        self._box = box
        self._reception = reception
        self._ear = Ear(source, box.clock)
        self._sink = sink
        self._settings = settings
        self._pressed = self._muted = self._deaf = False
        self._count = 0
        self._kept: deque[Block] = deque(maxlen=_KEPT_BLOCKS)
        self._leaving = self._farewell = False

    async def run(self) -> None:
        """Until the source ends or `stop`. One visit after another; may be called again after an error."""
        self._ear.start()
        while await self._somebody():
            self._count += 1
            session = f"{self.station}-{self._count}"
            try:
                if await self._admitted(session):
                    await self._converse(session)
            finally:
                self._reception.leave(session)

    async def stop(self, patience_s: float = 15.0) -> None:
        """Let the running turn end (at most `patience_s`), then leave."""
        deadline = self._box.clock.now() + patience_s
        while self.conversation is not None and not self.conversation.idle and self._box.clock.now() < deadline:
            await self._box.clock.sleep_until(self._box.clock.now() + 0.05)
        self._leaving = True
        await self._ear.close()

    # what keys and devices do

    def talk(self) -> None:
        """The talk key: opens and closes the microphone with push to talk, else stands for the wake word once."""
        if self.gate is None:
            return
        self._pressed = not self._pressed
        self.gate.press(self._pressed)
        if not self._pressed and self.conversation is not None:
            self.conversation.finish_turn()

    def finish(self) -> None:
        """The visitor leaves: the session ends once nothing is being said, without waiting for the quiet spell."""
        self._farewell = self.conversation is not None

    def mute(self, muted: bool) -> None:
        """Nothing is heard until it is taken back; what was said so far is still answered."""
        self._muted = muted
        self._tell_state()

    def deafen(self, deaf: bool) -> None:
        """The microphone went away, or is back."""
        if deaf != self._deaf:
            self._deaf = deaf
            self._tell_state()

    # a visit

    async def _somebody(self) -> bool:
        """True when speech begins; False when the input is over."""
        gate = Gate(self._box.config.talk.gate)
        session = f"{self.station}-door"
        self._tell_state()
        try:
            while not self._leaving:
                block = await self._ear.next()
                if block is None:
                    if self._ear.over:
                        return False
                    continue
                self._kept.append(block)
                probability = await self._speech(session, block)
                if block.start // BLOCK % _LEVEL_EVERY == 0:
                    self._publish_level(block, probability)
                if any(isinstance(event, SpeechStart) for event in gate.feed(probability, block.start)):
                    return True
            return False
        finally:
            self._box.engines.vad.forget(session)

    async def _speech(self, session: str, block: Block) -> float:
        if float(np.abs(block.samples).max()) < _SILENT_PEAK:
            return 0.0
        return await self._box.engines.vad.probability(session, block.samples)

    async def _admitted(self, session: str) -> bool:
        """Ask; whoever must wait or go is told so aloud, at once."""
        decision = self._reception.ask(session)
        if isinstance(decision, Admitted):
            while len(self._kept) > _FIRST_BLOCKS:
                self._kept.popleft()
            return True
        if isinstance(decision, Queued):
            self._say(WAITING)
            if await self._waited(session):
                return True
        if not self._leaving:
            await self._refuse(session)
        return False

    async def _waited(self, session: str) -> bool:
        """Wait in the queue, keeping what is said meanwhile. False where the wait became too long or in vain."""
        waiting = asyncio.create_task(self._reception.wait(session))
        try:
            while not waiting.done() and not self._leaving and not self._ear.over:
                block = await self._ear.next()
                if block is not None:
                    self._kept.append(block)
            return waiting.done() and waiting.result()
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    async def _refuse(self, session: str) -> None:
        """Say so once, and let the person finish before the next is listened to."""
        end = self._say(REFUSED)
        began = quiet_since = self._box.clock.now()
        while not self._leaving and not self._ear.over:
            block = await self._ear.next()
            now = self._box.clock.now()
            if block is not None and await self._speech(session, block) >= self._box.config.talk.gate.start_probability:
                quiet_since = now
            if now - quiet_since > _GONE_S and (self._sink.played() >= end or now - began > _GONE_AT_MOST_S):
                break
        self._kept.clear()
        self._box.engines.vad.forget(session)

    def _say(self, text: str) -> int:
        """Queue a rehearsed sentence; the position behind its last sample."""
        end = 0
        for piece in self._reception.sentences.get(text, ()):
            audio = resample(piece.audio, piece.sample_rate, self._sink.sample_rate)
            end = self._sink.write(audio) + len(audio)
        return end

    async def _converse(self, session: str) -> None:
        try:
            conversation = await self._box.open(
                self._sink,
                session=session,
                station=self.station,
                conduct=self._reception.conduct,
                turn_began=self._reception.turn_began,
                turn_ended=self._reception.turn_ended,
            )
        except ApplianceError as error:
            self._notice(error)
            await self._refuse(session)
            return
        self.conversation, self._farewell = conversation, False
        try:
            await conversation.run(_Visit(self, conversation))
        except ApplianceError as error:  # an engine that gave up ends this visit, and no other
            self._notice(error)
        finally:
            self.conversation = None
            if self.gate is not None:
                self.gate.sleep()
            await self._wipe(session)

    async def _wipe(self, session: str) -> None:
        if not self._settings.wipe:
            return
        try:
            await self._box.wipe(session)
        except ApplianceError as error:
            self._notice(error)

    async def blocks_of(self, conversation: Conversation) -> AsyncIterator[Block]:
        """What the visit hears: the kept blocks first; ends after the quiet spell."""
        kept = list(self._kept)
        self._kept.clear()
        for block in kept:
            yield block
        quiet_since = self._box.clock.now()
        while True:
            heard = await self._ear.next()
            now = self._box.clock.now()
            if not conversation.idle:
                quiet_since = now
            if self.gate is not None:
                self.gate.hold(not conversation.idle)
            if heard is not None:
                yield heard
            elif self._leaving or self._ear.over:
                return
            else:
                for block in self._ear.missing():
                    yield block
            if conversation.idle and (self._farewell or now - quiet_since > self._settings.idle_s):
                return

    # for the screen

    def _tell_state(self) -> None:
        """What this station's session is doing as far as devices and keys decide it; the rest is the session's own."""
        conversation = self.conversation
        if self._muted:
            state = State.MUTED
        elif self._deaf or (self.gate is not None and not self.gate.awake):
            state = State.WAITING
        elif conversation is None or conversation.idle:
            state = State.LISTENING
        else:
            return
        session = self.station if conversation is None else conversation.session
        self._box.bus.publish(events.StateChanged(at=self._box.clock.now(), session=session, state=state))

    def _publish_level(self, block: Block, probability: float) -> None:
        self._box.bus.publish(
            events.Level(at=block.captured_at, session=self.station, input_dbfs=dbfs(block.samples), speech=probability)
        )

    def _notice(self, error: ApplianceError) -> None:
        self._box.bus.publish(
            events.Notice(at=self._box.clock.now(), level="error", message=error.message, hint=error.hint)
        )


class _Visit:
    """The `Source` of one conversation: the station's blocks while the visit lasts."""

    def __init__(self, visits: Visits, conversation: Conversation) -> None:
        self._visits = visits
        self._conversation = conversation

    def blocks(self) -> AsyncIterator[Block]:
        return self._visits.blocks_of(self._conversation)

    async def close(self) -> None:
        return
