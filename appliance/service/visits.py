"""A station's people: who comes, when their session begins and when it is over.

A visit begins when someone speaks (or says the wake word, or presses the talk key) and ends after a quiet spell.
It owns the blocks between the microphone and the conversation: what was said before the session was open is kept
for it, and what is said to nobody goes nowhere. It knows no engine but the VAD that notices speech.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator

import numpy as np

from appliance import events
from appliance.app import Appliance
from appliance.audio.levels import dbfs
from appliance.audio.ports import Block, Sink, Source
from appliance.audio.settings import VisitSettings
from appliance.audio.wakeword import WakeSource
from appliance.capacity.limiter import Admitted, Queued
from appliance.conversation.conversation import Conversation
from appliance.errors import ApplianceError
from appliance.events import State
from appliance.service.reception import REFUSED, WAITING, Reception
from appliance.turns.gate import Gate, SpeechStart

_KEPT_BLOCKS = 94  # 3 s from before the session was open: its first words
_SILENT_PEAK = 10 ** (-70 / 20)


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
        self._source = source
        self._sink = sink
        self._settings = settings
        self._pressed = False
        self._count = 0
        self._kept: deque[Block] = deque(maxlen=_KEPT_BLOCKS)
        self._blocks: AsyncIterator[Block] | None = None
        self._leaving = False
        self._quiet_since = 0.0

    async def run(self) -> None:
        """Until the source ends or `stop`. One visit after another."""
        self._blocks = self._source.blocks()
        while not self._leaving and await self._somebody():
            self._count += 1
            session = f"{self.station}-{self._count}"
            if await self._admitted(session):
                try:
                    await self._converse(session)
                finally:
                    self._reception.leave(session)

    async def stop(self, patience_s: float = 10.0) -> None:
        """Let the running turn end (at most `patience_s`), then leave."""
        deadline = self._box.clock.now() + patience_s
        while self.conversation is not None and not self.conversation.idle and self._box.clock.now() < deadline:
            await self._box.clock.sleep_until(self._box.clock.now() + 0.05)
        self._leaving = True
        await self._source.close()

    def talk(self) -> None:
        """The talk key: opens and closes the microphone with push to talk, else stands for the wake word once."""
        if self.gate is None:
            return
        self._pressed = not self._pressed
        self.gate.press(self._pressed)
        if not self._pressed and self.conversation is not None:
            self.conversation.finish_turn()

    async def _somebody(self) -> bool:
        """True when speech begins; False when the input is over."""
        gate = Gate(self._box.config.talk.gate)
        session = f"{self.station}-door"
        self._publish_state(State.LISTENING)
        async for block in self._open_blocks():
            self._kept.append(block)
            probability = await self._speech(session, block)
            self._publish_level(block, probability)
            if any(isinstance(event, SpeechStart) for event in gate.feed(probability, block.start)):
                self._box.engines.vad.forget(session)
                return True
        return False

    async def _speech(self, session: str, block: Block) -> float:
        if float(np.abs(block.samples).max()) < _SILENT_PEAK:
            return 0.0
        return await self._box.engines.vad.probability(session, block.samples)

    async def _admitted(self, session: str) -> bool:
        """Ask; whoever must wait or go is told so aloud, at once."""
        decision = self._reception.ask(session)
        if isinstance(decision, Admitted):
            return True
        self._say(WAITING if isinstance(decision, Queued) else REFUSED)
        if not isinstance(decision, Queued):
            return False
        waiting = asyncio.create_task(self._reception.wait(session))
        async for block in self._open_blocks():
            self._kept.append(block)
            if waiting.done():
                break
        if not waiting.done():
            waiting.cancel()
            self._reception.leave(session)
            return False
        if not waiting.result():
            self._say(REFUSED)
        return waiting.result()

    def _say(self, text: str) -> None:
        for piece in self._reception.sentences.get(text, ()):
            self._sink.write(piece.audio)

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
            self._box.bus.publish(
                events.Notice(at=self._box.clock.now(), level="error", message=error.message, hint=error.hint)
            )
            self._say(REFUSED)
            return
        self.conversation = conversation
        try:
            await conversation.run(_Visit(self, conversation))
        finally:
            self.conversation = None
            if self._settings.wipe and self._box.store is not None:
                with contextlib.suppress(ApplianceError):
                    await self._box.wipe(session)

    async def _open_blocks(self) -> AsyncIterator[Block]:
        """The source's blocks, its iterator shared by door and visits."""
        assert self._blocks is not None
        async for block in self._blocks:
            if self._leaving:
                return
            yield block

    async def blocks_of(self, conversation: Conversation) -> AsyncIterator[Block]:
        """What the visit hears: the kept blocks first; ends after the quiet spell."""
        kept = list(self._kept)
        self._kept.clear()
        for block in kept:
            yield block
        quiet_since = self._box.clock.now()
        blocks = self._open_blocks()
        coming = asyncio.ensure_future(anext(blocks, None))
        try:
            while True:
                # Behind a wake word no block comes for a long time; the visit must end all the same.
                await asyncio.wait([coming], timeout=1.0)
                now = self._box.clock.now()
                if not conversation.idle:
                    quiet_since = now
                if self.gate is not None:
                    self.gate.hold(not conversation.idle)
                if coming.done():
                    heard = coming.result()
                    if heard is None:
                        return
                    coming = asyncio.ensure_future(anext(blocks, None))
                    yield heard
                if now - quiet_since > self._settings.idle_s:
                    return
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)

    def _publish_state(self, state: State) -> None:
        self._box.bus.publish(events.StateChanged(at=self._box.clock.now(), session=self.station, state=state))

    def _publish_level(self, block: Block, probability: float) -> None:
        self._box.bus.publish(
            events.Level(at=block.captured_at, session=self.station, input_dbfs=dbfs(block.samples), speech=probability)
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
