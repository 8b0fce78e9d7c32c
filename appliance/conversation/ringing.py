"""Timers that are due, said aloud while nobody is speaking. Owns the announcement under way; the skills own timers."""

import asyncio

from appliance import events
from appliance.conversation.desk import Desk
from appliance.engines.ports import CancelToken, Priority
from appliance.errors import ApplianceError
from appliance.skills.timers import announcement
from appliance.speech.normalise import normalise


class Ringing:
    """`ring` with every quiet block, `hush` when somebody speaks."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._task: asyncio.Task[None] | None = None

    def ring(self) -> None:
        """Announce what is due, unless an announcement is under way."""
        desk = self._desk
        if desk.skills is None or (self._task is not None and not self._task.done()):
            return
        due = desk.skills.timers.due(desk.session, desk.clock.now())
        if due:
            self._task = asyncio.create_task(self._announce(" ".join(announcement(timer) for timer in due)))

    def hush(self) -> None:
        """An announcement gives way."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            self._desk.player.stop()

    async def _announce(self, text: str) -> None:
        desk = self._desk
        speech = desk.engines.synthesizer.synthesize(
            normalise(text, "en"), priority=Priority.FINAL, deadline=0.0, cancel=CancelToken()
        )
        desk.player.begin(0)
        try:
            async for piece in speech:
                desk.player.play(piece, 0)
        except ApplianceError as error:
            desk.bus.publish(
                events.Notice(at=desk.clock.now(), session=desk.session, level="error", message=error.message)
            )
        desk.player.end()
        await desk.player.drained()
