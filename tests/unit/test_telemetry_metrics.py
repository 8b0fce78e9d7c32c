"""Rolling figures, and the probe that says how late the loop runs."""

import asyncio

from appliance.events import LatencyParts, TurnDropped, TurnFinished, TurnRecord
from appliance.telemetry.metrics import LoopLag, Metrics
from appliance.telemetry.spans import Budget


def finished(turn: int, endpoint: float, **changes: object) -> TurnFinished:
    record = TurnRecord(
        session="s", turn=turn, started="", heard="", reply="", spoken="", interrupted=False,
        ms=LatencyParts(endpoint, 0, 0, 0, 0), **changes,  # type: ignore[arg-type]
    )  # fmt: skip
    return TurnFinished(at=turn, session="s", turn=turn, record=record)


def test_the_window_rolls() -> None:
    metrics = Metrics(Budget(), window=3)
    empty = metrics.snapshot()
    assert (empty.turns, empty.in_budget, empty.p50["voice_to_voice"]) == (0, None, None)
    for turn, endpoint in enumerate((5000, 100, 200, 900), start=1):
        metrics.take(finished(turn, endpoint, starvation_ms=float(turn), tokens_per_s=10.0 * turn))
    metrics.take(TurnDropped(at=9, session="s", turn=5, reason="no words"))
    now = metrics.snapshot()
    assert (now.turns, now.dropped) == (3, 1)
    assert now.p50["voice_to_voice"] == 200
    assert now.p95["voice_to_voice"] == 900
    assert now.in_budget == 2 / 3
    assert now.starvation_ms_p95 == 4
    assert now.tokens_per_s_p50 == 30


class LateClock:
    """Wakes sleepers 7 ms late, three times."""

    def __init__(self) -> None:
        self.time, self.left = 100.0, 3

    def now(self) -> float:
        return self.time

    async def sleep_until(self, instant: float) -> None:
        if not self.left:
            raise asyncio.CancelledError
        self.left -= 1
        self.time = instant + 0.007


def test_loop_lag_is_how_much_later_than_asked_the_sleeper_wakes() -> None:
    lag = LoopLag(clock=LateClock())

    async def main() -> None:
        try:
            await lag.run()
        except asyncio.CancelledError:
            return

    asyncio.run(main())
    assert round(lag.last_ms, 3) == 7.0
    assert round(lag.p95_ms or 0, 3) == 7.0
