"""Who may talk now, and what the box gives up under pressure: limiter and ladder, fed with real numbers.

It owns the one `Limiter` and the one `Ladder` of the process, asks them with real time, publishes every decision
and keeps the sentences that a refused or waiting person hears. Policy is theirs; it carries none of its own.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from appliance import events
from appliance.capacity.cap import Cap
from appliance.capacity.ladder import Ladder, LadderSettings, Signals
from appliance.capacity.limiter import Admitted, CapacitySettings, Decision, Limiter, Queued, Refused
from appliance.clock import Clock
from appliance.conversation.desk import Conduct
from appliance.engines.ports import CancelToken, Priority, Spoken, Synthesizer
from appliance.telemetry.bus import Bus
from appliance.telemetry.metrics import LoopLag, Metrics

TICK_S = 0.5
_RECENT_S = 60.0
_TREND = 4  # turns; one slow turn is no trend
REFUSED = "Sorry, all places are taken. Please come back in a few minutes."
WAITING = "One moment please, you are next as soon as a place is free."


class Reception:
    """`ask` and `leave` belong to the event loop; `run` is its heartbeat."""

    def __init__(
        self,
        cap: Cap,
        capacity: CapacitySettings,
        ladder: LadderSettings,
        metrics: Metrics,
        bus: Bus,
        clock: Clock,
        *,
        small_models: tuple[bool, bool] = (False, False),
        compact_from: Callable[[float | None], None] = lambda _: None,
    ) -> None:
        """`small_models`: are a smaller ASR and LLM there? `compact_from` has the LLM summarise earlier."""
        self.cap = cap
        self.ladder = Ladder(ladder, small_asr=small_models[0], fallback_llm=small_models[1])
        self.lag = LoopLag(clock=clock)
        self.sentences: dict[str, tuple[Spoken, ...]] = {}
        self._limiter = Limiter(capacity, cap.sessions)
        self._metrics = metrics
        self._bus = bus
        self._clock = clock
        self._admitted: dict[str, asyncio.Event] = {}
        self._draining = False
        self._compact_from = compact_from
        self._moved_at = float("-inf")  # the ladder's last step

    async def rehearse(self, synthesizer: Synthesizer) -> None:
        """Synthesise the sentences of refusal and waiting now, so that they can be said at once when all is busy."""
        for text in (REFUSED, WAITING):
            speech = synthesizer.synthesize(text, priority=Priority.IDLE, deadline=0.0, cancel=CancelToken())
            self.sentences[text] = tuple([piece async for piece in speech])

    def ask(self, session: str) -> Decision:
        """May `session` begin? Asking again repeats the answer."""
        decision = self._limiter.ask(self._clock.now(), session)
        self._tell(decision)
        if isinstance(decision, Queued):
            self._admitted.setdefault(session, asyncio.Event())
        return decision

    async def wait(self, session: str) -> bool:
        """Wait in the queue; True once admitted, False when the wait became too long."""
        event = self._admitted.get(session)
        try:
            if event is not None:
                await event.wait()
        finally:
            self._admitted.pop(session, None)
        return isinstance(self._limiter.ask(self._clock.now(), session), Admitted)

    def leave(self, session: str) -> None:
        """`session` is over, or gave up waiting. The next in the queue is let in."""
        self._admit(self._limiter.release(self._clock.now(), session))

    def turn_began(self, session: str) -> None:
        self._limiter.begin_turn(session)

    def turn_ended(self, session: str) -> None:
        self._limiter.end_turn(session)

    def conduct(self) -> Conduct:
        """What the ladder allows now."""
        effects = self.ladder.effects
        return Conduct(
            speculate=effects.speculate,
            partials=effects.partials,
            max_tokens=effects.max_tokens if effects.max_tokens is not None else 1_000_000,
            small_asr=effects.small_asr,
            fallback_llm=effects.fallback_llm,
        )

    def drain(self) -> None:
        """Admit nobody new; those inside finish."""
        self._draining = True
        self._limiter.close("the appliance is being stopped")

    async def run(self) -> None:
        """Watch the signals and move the ladder until cancelled."""
        probe = asyncio.create_task(self.lag.run())
        try:
            while True:
                await self._clock.sleep_until(self._clock.now() + TICK_S)
                self.tick()
        finally:
            probe.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await probe

    def tick(self) -> None:
        """One look at the signals: the queue's patience, the ladder's step, the snapshot for the screen."""
        now = self._clock.now()
        for refused in self._limiter.expire(now):
            self._tell(refused)
            self._wake(refused.session)
        move = self.ladder.observe(now, self._signals(now))
        if move is not None:
            self._moved_at = now
            self._bus.publish(
                events.LadderMoved(at=now, level=int(move.step), name=move.step.title, reason=move.reason)
            )
            self._compact_from(self.ladder.effects.compact_at)
            if not self.ladder.effects.admit:
                self._limiter.close("the box is at its limit")
            elif not self._draining:
                self._admit(self._limiter.reopen(now))
        self._bus.publish(self.snapshot(now))

    def snapshot(self, now: float) -> events.CapacitySnapshot:
        return events.CapacitySnapshot(
            at=now,
            cap=self._limiter.live_cap,
            limited_by=self.cap.limited_by,
            sessions=self._limiter.sessions,
            queued=self._limiter.queued,
            refused=self._limiter.refused,
            ladder_level=int(self.ladder.step),
            ladder_name=self.ladder.step.title,
            loop_lag_ms=self.lag.p95_ms or 0.0,
            sum_lines=self.cap.lines,
        )

    def _signals(self, now: float) -> Signals:
        # What was slow an hour ago, or before the last step was taken, says nothing of now: a box nobody speaks
        # to must come down again, or it would refuse everybody for ever.
        seen = self._metrics.snapshot(since=max(now - _RECENT_S, self._moved_at))
        llm = self._metrics.llm
        free = None
        if llm is not None and llm.cells_total:
            free = 1 - (llm.cells_prefix + llm.cells_reserved) / llm.cells_total
        recent = seen.turns >= _TREND
        return Signals(
            queue_wait_s=self._limiter.oldest_wait_s(now),
            first_audio_ms_p95=seen.p95["voice_to_voice"] if recent else None,
            starvation_ms_p95=seen.starvation_ms_p95 if recent else None,
            free_cells_share=free,
            loop_lag_ms=self.lag.p95_ms or 0.0,
        )

    def _admit(self, sessions: Sequence[str]) -> None:
        for session in sessions:
            self._tell(Admitted(session))
            self._wake(session)

    def _wake(self, session: str) -> None:
        event = self._admitted.get(session)
        if event is not None:
            event.set()

    def _tell(self, decision: Decision) -> None:
        now = self._clock.now()
        match decision:
            case Admitted():
                event = events.AdmissionDecided(at=now, session=decision.session, decision="admitted")
            case Queued():
                event = events.AdmissionDecided(
                    at=now,
                    session=decision.session,
                    decision="queued",
                    position=decision.position,
                    wait_s=decision.expected_wait_s,
                )
            case Refused():
                event = events.AdmissionDecided(
                    at=now,
                    session=decision.session,
                    decision="refused",
                    reason=decision.reason,
                    wait_s=decision.retry_after_s,
                )
        self._bus.publish(event)
