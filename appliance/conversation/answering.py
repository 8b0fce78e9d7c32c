"""A turn that is over and is being answered: from the release to the record of what was really heard.

It owns the ending of a turn, whichever way it ends (heard to the end, cut by the person, no words, an engine's
error): the history of the language model, the latency parts and the record agree on what was heard.
"""

import asyncio

from appliance import events
from appliance.clock import ms
from appliance.conversation.attempt import Attempt
from appliance.conversation.desk import Desk
from appliance.conversation.hearing import Hearing
from appliance.engines.ports import CancelToken, Priority
from appliance.errors import ApplianceError, first_of
from appliance.events import LatencyParts, Speculation, TurnRecord
from appliance.telemetry.spans import latency_parts


class Answering:
    """`task` ends when the answer has been heard, was cut, or turned out to be none."""

    def __init__(self, desk: Desk, hearing: Hearing, attempt: Attempt, reason: str, station: str) -> None:
        self.hearing = hearing
        self.attempt = attempt
        self.cut_ms: float | None = None
        self._desk = desk
        self._reason = reason
        self._station = station
        self._announced = False
        self._ducked_for: float | None = None
        self.task = asyncio.create_task(self._run(), name=f"answer-{hearing.turn}")

    @property
    def audible(self) -> bool:
        """Something of this answer has been heard."""
        return (
            self.attempt.stamps.first_chunk is not None
            and self._desk.player.turn == self.hearing.turn
            and self._desk.player.first_audible_at is not None
        )

    def duck(self, speech_at: float) -> None:
        """Someone speaks: silence at once, until it is known what it was. `speech_at`: first sample of it."""
        if self._ducked_for is not None:
            return
        self._ducked_for = speech_at
        self.attempt.hold(True)
        self._desk.player.pause()
        if self.cut_ms is None:
            self.cut_ms = ms(speech_at, self._desk.clock.now())
        self._publish_barge_in("duck")

    def resume(self) -> None:
        """It was nothing: go on from where it stopped."""
        if self._ducked_for is None:
            return
        self._ducked_for = None
        self.cut_ms = None
        self.attempt.hold(False)
        self._desk.player.resume()
        self._publish_barge_in("resume")

    async def cut(self) -> TurnRecord | None:
        """The person interrupts: stop everything; the record of what was heard, None when that was nothing.

        Nothing heard means the turn is rolled back: the person's next words are part of it.
        """
        heard_something = self.audible
        await self.attempt.abandon()
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self._publish_barge_in("interrupt")
        if not heard_something:
            self._stop_player()
            await self._desk.chat.settle(None)
            return None
        cut = self._desk.player.stop()
        spoken = cut_at_word(self.attempt.reply, cut.heard_chars)
        return await self._finish(spoken, interrupted=len(spoken) < len(self.attempt.reply.rstrip()))

    def publish_progress(self) -> None:
        """Tell the observers how far the listener is. Cheap; called every few blocks."""
        player, now = self._desk.player, self._desk.clock.now()
        if not self.audible:
            return
        if not self._announced:
            self._announced = True
            at = player.first_audible_at
            self._desk.bus.publish(
                events.PlaybackStarted(at=now if at is None else at, session=self._desk.session, turn=self.hearing.turn)
            )
            self._desk.bus.publish(
                events.StateChanged(
                    at=now, session=self._desk.session, turn=self.hearing.turn, state=events.State.SPEAKING
                )
            )
        spoken = cut_at_word(self.attempt.reply, player.heard_chars)
        self._desk.bus.publish(
            events.Heard(
                at=now, session=self._desk.session, turn=self.hearing.turn, spoken=spoken, played_ms=player.played_ms
            )
        )

    async def _run(self) -> TurnRecord | None:
        desk, attempt = self._desk, self.attempt
        failed: ApplianceError | None = None
        try:
            await attempt.task
        except* ApplianceError as group:  # the attempt is a task group; whatever else is in it goes on
            failed = first_of(group)
        if failed is not None:
            await self._apologise(failed)
            return None
        if attempt.transcript is None or not attempt.transcript.text:
            reason = attempt.transcript.reason if attempt.transcript else "cancelled"
            desk.bus.publish(
                events.TurnDropped(at=desk.clock.now(), session=desk.session, turn=self.hearing.turn, reason=reason)
            )
            return None
        self.publish_progress()
        return await self._finish(attempt.reply, interrupted=False)

    async def _finish(self, spoken: str, *, interrupted: bool) -> TurnRecord:
        desk, attempt = self._desk, self.attempt
        heard = attempt.transcript.text if attempt.transcript else ""
        # A bare "stop" is no beginning of what will be said next.
        await desk.chat.settle(heard if spoken or not attempt.skill else None, spoken)
        record = self._record(heard, spoken, interrupted)
        desk.bus.publish(
            events.TurnFinished(at=desk.clock.now(), session=desk.session, turn=self.hearing.turn, record=record)
        )
        return record

    def _record(self, heard: str, spoken: str, interrupted: bool) -> TurnRecord:
        attempt, stamps, player = self.attempt, self.attempt.stamps, self._desk.player
        seconds = (stamps.last_token or 0.0) - (stamps.first_token or 0.0)
        written = attempt.tokens - max(1, attempt.recalled)  # after the first
        return TurnRecord(
            session=self._desk.session,
            turn=self.hearing.turn,
            started=self.hearing.started,
            heard=heard,
            reply=attempt.reply,
            spoken=spoken,
            interrupted=interrupted,
            ms=self._parts(),
            language=attempt.transcript.language if attempt.transcript else "en",
            end_reason=self._reason,
            tokens=attempt.tokens,
            ttft_ms=ms(stamps.thinking, stamps.first_token) if stamps.thinking and stamps.first_token else None,
            tokens_per_s=written / seconds if seconds > 0 and written > 0 else None,
            starvation_ms=player.starvation_ms,
            barge_in_ms=self.cut_ms if interrupted else None,
            speculation=self._ledger(),
            skill=attempt.skill,
            station=self._station,
        )

    def _parts(self) -> LatencyParts | None:
        stamps, audible = self.attempt.stamps, self._desk.player.first_audible_at
        if audible is None or stamps.over is None or not self._desk.measured:
            return None
        return latency_parts(
            stamps.last_speech, stamps.over, stamps.transcript, stamps.first_clause, stamps.first_chunk, audible
        )

    def _ledger(self) -> Speculation:
        attempt, stamps = self.attempt, self.attempt.stamps
        held = attempt.thought_ahead
        saved = 0.0
        if held and stamps.over is not None and stamps.thinking is not None:
            saved = max(0.0, ms(stamps.thinking, min(stamps.over, stamps.first_chunk or stamps.over)))
        return Speculation(
            tries=self.hearing.tries_ahead + held,
            held=held,
            wasted_tokens=max(0, self.hearing.wasted_tokens - attempt.recalled),
            spoken_tokens=attempt.tokens,
            saved_ms=saved,
        )

    async def _apologise(self, error: ApplianceError) -> None:
        """An engine failed in the middle: say so aloud if that still works, and keep the conversation."""
        desk = self._desk
        desk.bus.publish(
            events.Notice(
                at=desk.clock.now(), session=desk.session, level="error", message=error.message, hint=error.hint
            )
        )
        self._stop_player()
        await desk.chat.settle(None)
        desk.player.begin(self.hearing.turn)
        try:
            sorry = desk.engines.synthesizer.synthesize(
                desk.settings.sorry, priority=Priority.FINAL, deadline=0.0, cancel=CancelToken()
            )
            async for piece in sorry:
                desk.player.play(piece, 0)
        except ApplianceError:
            pass  # the synthesizer itself is what failed; the notice stands
        desk.player.end()
        await desk.player.drained()
        desk.bus.publish(
            events.TurnDropped(at=desk.clock.now(), session=desk.session, turn=self.hearing.turn, reason="engine error")
        )

    def _stop_player(self) -> None:
        self._desk.player.resume()
        if self._desk.player.turn == self.hearing.turn:
            self._desk.player.stop()

    def _publish_barge_in(self, action: str) -> None:
        desk = self._desk
        desk.bus.publish(
            events.BargeIn(
                at=desk.clock.now(),
                session=desk.session,
                turn=self.hearing.turn,
                action=action,
                to_silence_ms=self.cut_ms,
            )
        )


def cut_at_word(text: str, chars: int) -> str:
    """`text` up to `chars` characters, cut back to the end of the last whole word."""
    if chars >= len(text):
        return text.rstrip()
    if chars <= 0:
        return ""
    if text[chars].isspace():
        return text[:chars].rstrip()
    head = text[:chars]
    cut = max(head.rfind(" "), head.rfind("\n"))
    return head[:cut].rstrip() if cut > 0 else ""
