"""The degrade ladder: what the appliance gives up first when it is pressed, and when it takes it back.

Owns the order of the steps, their hysteresis and the reason of every move. Numbers in, a move out: it reads no
clock, measures nothing, and does not know who carries a step out. Nothing that is being spoken is ever cut.
"""

from dataclasses import dataclass
from enum import IntEnum


class Step(IntEnum):
    """Each step includes those before it."""

    FULL = 0
    NO_SPECULATION = 1
    FEWER_PARTIALS = 2
    SHORTER_ANSWERS = 3
    SUMMARISE_EARLIER = 4
    SMALLER_ASR = 5
    FALLBACK_LLM = 6
    REFUSE_NEW = 7

    @property
    def title(self) -> str:
        """In words, for the screen and the store."""
        return _TITLES[self]


_TITLES = {
    Step.FULL: "everything on",
    Step.NO_SPECULATION: "no speculation",
    Step.FEWER_PARTIALS: "fewer partials",
    Step.SHORTER_ANSWERS: "shorter answers",
    Step.SUMMARISE_EARLIER: "summarise earlier",
    Step.SMALLER_ASR: "smaller ASR",
    Step.FALLBACK_LLM: "fallback LLM",
    Step.REFUSE_NEW: "refuse new sessions",
}


@dataclass(frozen=True, slots=True)
class LadderSettings:
    """Thresholds above which a signal presses. It is clear again at `clear_ratio` of its threshold.

    Pressure must last `up_after_s` before a step is taken and be gone for `down_after_s` before one is taken back;
    at least `hold_s` lies between two moves, so that a step can show its effect.
    """

    enabled: bool = True
    queue_wait_s: float = 5.0
    first_audio_ms_p95: float = 1500.0
    starvation_ms_p95: float = 100.0
    free_cells_share: float = 0.08  # pressing when less than this is free
    loop_lag_ms: float = 50.0
    clear_ratio: float = 0.7
    up_after_s: float = 2.0
    down_after_s: float = 15.0
    hold_s: float = 4.0
    short_answer_tokens: int = 48
    compact_early_at: float = 0.45  # part of a session's share from which older turns are summarised


@dataclass(frozen=True, slots=True)
class Signals:
    """What the ladder looks at. None: not measured yet, and so no pressure."""

    queue_wait_s: float = 0.0  # of the oldest waiting session
    first_audio_ms_p95: float | None = None
    starvation_ms_p95: float | None = None
    free_cells_share: float | None = None
    loop_lag_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Move:
    """One step up or down, and why."""

    step: Step
    before: Step
    reason: str

    @property
    def up(self) -> bool:
        return self.step > self.before


@dataclass(frozen=True, slots=True)
class Effects:
    """What holds at a step. `max_tokens` None and `compact_at` None mean: as configured."""

    speculate: bool
    partials: bool
    max_tokens: int | None
    compact_at: float | None
    small_asr: bool
    fallback_llm: bool
    admit: bool


class Ladder:
    """State: the present step, since when pressure has lasted or been gone, and the last move's instant."""

    def __init__(self, settings: LadderSettings, *, small_asr: bool = False, fallback_llm: bool = False) -> None:
        """`small_asr`, `fallback_llm`: whether such models are loaded; their steps are left out otherwise."""
        self.settings = settings
        missing = {Step.SMALLER_ASR: small_asr, Step.FALLBACK_LLM: fallback_llm}
        self.steps = tuple(step for step in Step if missing.get(step, True))
        self._rung = 0
        self._pressed_since: float | None = None
        self._clear_since: float | None = None
        self._moved_at: float | None = None

    @property
    def step(self) -> Step:
        return self.steps[self._rung]

    @property
    def effects(self) -> Effects:
        step = self.step
        return Effects(
            speculate=step < Step.NO_SPECULATION,
            partials=step < Step.FEWER_PARTIALS,
            max_tokens=self.settings.short_answer_tokens if step >= Step.SHORTER_ANSWERS else None,
            compact_at=self.settings.compact_early_at if step >= Step.SUMMARISE_EARLIER else None,
            small_asr=step >= Step.SMALLER_ASR and Step.SMALLER_ASR in self.steps,
            fallback_llm=step >= Step.FALLBACK_LLM and Step.FALLBACK_LLM in self.steps,
            admit=step < Step.REFUSE_NEW,
        )

    def observe(self, now: float, signals: Signals) -> Move | None:
        """Take notice of `signals` at `now` (monotonic seconds, never going back); at most one step moves."""
        if not self.settings.enabled:
            return None
        pressing = self._over(signals, 1.0)
        still = self._over(signals, self.settings.clear_ratio)
        self._pressed_since = (now if self._pressed_since is None else self._pressed_since) if pressing else None
        self._clear_since = None if still else (now if self._clear_since is None else self._clear_since)
        if self._moved_at is not None and now - self._moved_at < self.settings.hold_s:
            return None
        if (
            self._pressed_since is not None
            and now - self._pressed_since >= self.settings.up_after_s
            and self._rung < len(self.steps) - 1
        ):
            return self._move(now, 1, pressing[0])
        if self._clear_since is not None and now - self._clear_since >= self.settings.down_after_s and self._rung > 0:
            return self._move(now, -1, f"no pressure for {now - self._clear_since:.0f} s")
        return None

    def _move(self, now: float, by: int, reason: str) -> Move:
        before = self.step
        self._rung += by
        # Both clocks start again: the next step needs its own evidence.
        self._moved_at, self._pressed_since, self._clear_since = now, None, None
        return Move(self.step, before, reason)

    def _over(self, signals: Signals, ratio: float) -> list[str]:
        """The signals above `ratio` of their thresholds, in words, the heaviest first."""
        s = self.settings
        found: list[tuple[float, str]] = []

        def look(value: float | None, limit: float, words: str) -> None:
            if value is not None and limit > 0 and value > limit * ratio:
                found.append((value / limit, words))

        look(signals.queue_wait_s, s.queue_wait_s, f"someone has waited {signals.queue_wait_s:.1f} s")
        look(
            signals.first_audio_ms_p95,
            s.first_audio_ms_p95,
            f"first audio p95 {signals.first_audio_ms_p95 or 0:.0f} ms",
        )
        look(signals.starvation_ms_p95, s.starvation_ms_p95, f"starvation p95 {signals.starvation_ms_p95 or 0:.0f} ms")
        look(signals.loop_lag_ms, s.loop_lag_ms, f"event loop {signals.loop_lag_ms:.0f} ms late")
        free = signals.free_cells_share
        if free is not None and s.free_cells_share > 0 and free < s.free_cells_share / ratio:
            found.append((s.free_cells_share / max(free, 1e-3), f"only {free:.0%} of the KV cells are free"))
        return [words for _, words in sorted(found, reverse=True)]
