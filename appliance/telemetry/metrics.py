"""Rolling figures over the last turns, and how late the event loop runs.

It owns the windows and what is reported of them; it is fed by the bus and asks nobody. What a percentile is,
`spans` says.
"""

from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from appliance.clock import Clock, MonotonicClock
from appliance.events import Event, LatencyParts, LlmStats, TurnDropped, TurnFinished, TurnRecord
from appliance.telemetry.spans import Budget, percentile, percentiles, share_in_budget


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """Over the window: ms, tokens a second, shares 0..1. None where nothing was measured yet."""

    turns: int
    p50: dict[str, float | None]
    p95: dict[str, float | None]
    in_budget: float | None
    starvation_ms_p95: float | None
    ttft_ms_p50: float | None
    tokens_per_s_p50: float | None
    barge_in_ms_p95: float | None
    queue_wait_ms_p95: float | None
    interrupted: int
    dropped: int
    loop_lag_ms_p95: float | None


@dataclass(slots=True)
class LoopLag:
    """How much later than asked the event loop wakes a sleeper: what any one step holds up everybody by."""

    interval_s: float = 0.05
    clock: Clock = field(default_factory=MonotonicClock)
    last_ms: float = 0.0
    _window: deque[float] = field(default_factory=lambda: deque(maxlen=400))

    async def run(self) -> None:
        """Probe until cancelled."""
        while True:
            due = self.clock.now() + self.interval_s
            await self.clock.sleep_until(due)
            self.last_ms = max(0.0, (self.clock.now() - due) * 1000.0)
            self._window.append(self.last_ms)

    @property
    def p95_ms(self) -> float | None:
        return percentile(self._window, 95)


class Metrics:
    """Windows over the last `window` finished turns of all sessions."""

    def __init__(self, budget: Budget, window: int = 200, lag: LoopLag | None = None) -> None:
        self._budget = budget
        self._records: deque[tuple[float, TurnRecord]] = deque(maxlen=window)
        self._lag = lag
        self._dropped = 0
        self.llm: LlmStats | None = None

    async def run(self, subscription: AsyncIterator[Event]) -> None:
        async for event in subscription:
            self.take(event)

    def take(self, event: Event) -> None:
        if isinstance(event, TurnFinished):
            self._records.append((event.at, event.record))
        elif isinstance(event, TurnDropped):
            self._dropped += 1
        elif isinstance(event, LlmStats):
            self.llm = event

    def snapshot(self, since: float = float("-inf")) -> MetricsSnapshot:
        """Over the window, or what of it finished after the instant `since`."""
        records = [record for at, record in self._records if at > since]
        timed: list[LatencyParts] = [r.ms for r in records if r.ms is not None]
        return MetricsSnapshot(
            turns=len(records),
            p50=percentiles(timed, 50),
            p95=percentiles(timed, 95),
            in_budget=share_in_budget(timed, self._budget),
            starvation_ms_p95=percentile((r.starvation_ms for r in records if r.ms is not None), 95),
            ttft_ms_p50=percentile((r.ttft_ms for r in records if r.ttft_ms is not None), 50),
            tokens_per_s_p50=percentile((r.tokens_per_s for r in records if r.tokens_per_s is not None), 50),
            barge_in_ms_p95=percentile((r.barge_in_ms for r in records if r.barge_in_ms is not None), 95),
            queue_wait_ms_p95=percentile((r.queue_wait_ms for r in records), 95),
            interrupted=sum(r.interrupted for r in records),
            dropped=self._dropped,
            loop_lag_ms_p95=None if self._lag is None else self._lag.p95_ms,
        )
