"""The ladder: one step at a time, in order, with evidence up and patience down, and a reason for every move."""

from hypothesis import given
from hypothesis import strategies as st

from appliance.capacity.ladder import Effects, Ladder, LadderSettings, Move, Signals, Step

SETTINGS = LadderSettings(up_after_s=2.0, down_after_s=15.0, hold_s=4.0)
CALM = Signals(first_audio_ms_p95=500.0, free_cells_share=0.9)
PRESSED = Signals(first_audio_ms_p95=2600.0, free_cells_share=0.9)


def climb(ladder: Ladder, signals: Signals, start: float, seconds: float) -> list[Move]:
    moves = [ladder.observe(start + i / 2, signals) for i in range(int(seconds * 2))]
    return [move for move in moves if move]


def test_pressure_must_last_before_a_step_is_taken() -> None:
    ladder = Ladder(SETTINGS)
    assert ladder.observe(0.0, PRESSED) is None
    assert ladder.observe(1.9, PRESSED) is None
    assert ladder.observe(1.95, CALM) is None  # it was gone for a moment: the clock starts again
    assert ladder.observe(2.0, PRESSED) is None
    move = ladder.observe(4.0, PRESSED)
    assert move == Move(Step.NO_SPECULATION, Step.FULL, "first audio p95 2600 ms")
    assert move.up


def test_steps_come_in_order_and_return_in_reverse() -> None:
    ladder = Ladder(SETTINGS, small_asr=True, fallback_llm=True)
    up = climb(ladder, PRESSED, 0.0, 120)
    assert [move.step for move in up] == list(Step)[1:]
    assert ladder.step is Step.REFUSE_NEW
    down = climb(ladder, CALM, 200.0, 300)
    assert [move.step for move in down] == list(reversed(list(Step)[:-1]))
    assert all(move.reason.startswith("no pressure for") for move in down)


def test_steps_without_their_model_are_left_out() -> None:
    ladder = Ladder(SETTINGS)
    assert [move.step for move in climb(ladder, PRESSED, 0.0, 120)] == [
        Step.NO_SPECULATION, Step.FEWER_PARTIALS, Step.SHORTER_ANSWERS, Step.SUMMARISE_EARLIER, Step.REFUSE_NEW,
    ]  # fmt: skip
    assert not ladder.effects.small_asr
    assert not ladder.effects.fallback_llm


def test_between_the_thresholds_nothing_moves() -> None:
    """Hysteresis: 1,500 ms presses, and it is clear only below 70 % of that."""
    ladder = Ladder(SETTINGS)
    climb(ladder, PRESSED, 0.0, 3)
    assert ladder.step is Step.NO_SPECULATION
    between = Signals(first_audio_ms_p95=1200.0)
    assert climb(ladder, between, 10.0, 300) == []
    assert ladder.step is Step.NO_SPECULATION


def test_every_signal_presses_and_names_itself() -> None:
    cases = {
        "someone has waited 9.0 s": Signals(queue_wait_s=9.0),
        "first audio p95 1501 ms": Signals(first_audio_ms_p95=1501.0),
        "starvation p95 101 ms": Signals(starvation_ms_p95=101.0),
        "only 5% of the KV cells are free": Signals(free_cells_share=0.05),
        "event loop 80 ms late": Signals(loop_lag_ms=80.0),
    }
    for reason, signals in cases.items():
        moves = climb(Ladder(SETTINGS), signals, 0.0, 3)
        assert [move.reason for move in moves] == [reason]
    both = Signals(starvation_ms_p95=110.0, loop_lag_ms=500.0)
    assert climb(Ladder(SETTINGS), both, 0.0, 3)[0].reason == "event loop 500 ms late"


def test_what_each_step_means() -> None:
    ladder = Ladder(SETTINGS, small_asr=True, fallback_llm=True)
    assert ladder.effects == Effects(True, True, None, None, False, False, True)
    seen = {}
    for i in range(400):
        move = ladder.observe(i / 2, PRESSED)
        if move:
            seen[move.step] = ladder.effects
    assert not seen[Step.NO_SPECULATION].speculate
    assert seen[Step.NO_SPECULATION].partials
    assert not seen[Step.FEWER_PARTIALS].partials
    assert seen[Step.SHORTER_ANSWERS].max_tokens == 48
    assert seen[Step.SUMMARISE_EARLIER].compact_at == 0.45
    assert seen[Step.SMALLER_ASR].small_asr
    assert not seen[Step.SMALLER_ASR].fallback_llm
    assert seen[Step.FALLBACK_LLM].admit
    assert seen[Step.REFUSE_NEW] == Effects(False, False, 48, 0.45, True, True, False)


def test_a_ladder_that_is_switched_off_stays_down() -> None:
    ladder = Ladder(LadderSettings(enabled=False))
    assert climb(ladder, PRESSED, 0.0, 100) == []


NUMBERS = st.one_of(st.none(), st.floats(0, 5000))
SIGNALS = st.builds(
    Signals, st.floats(0, 60), NUMBERS, NUMBERS, st.one_of(st.none(), st.floats(0, 1)), st.floats(0, 500)
)


@given(st.lists(st.tuples(st.floats(0, 20), SIGNALS), max_size=80), st.booleans(), st.booleans())
def test_moves_are_single_rungs_with_a_reason_and_time_between_them(
    looks: list[tuple[float, Signals]], small_asr: bool, fallback: bool
) -> None:
    ladder = Ladder(SETTINGS, small_asr=small_asr, fallback_llm=fallback)
    now, last = 0.0, float("-inf")
    for seconds, signals in looks:
        now += seconds
        before = ladder.step
        move = ladder.observe(now, signals)
        if move is None:
            assert ladder.step is before
            continue
        assert move.reason
        assert move.before is before
        assert move.step is ladder.step
        assert abs(ladder.steps.index(move.step) - ladder.steps.index(move.before)) == 1
        assert now - last >= SETTINGS.hold_s
        last = now
    assert all(step.title for step in Step)


@given(st.lists(SIGNALS, min_size=1, max_size=60))
def test_no_oscillation_within_the_patience(signals: list[Signals]) -> None:
    """Looks half a second apart: a step taken is not taken back within `down_after_s`."""
    ladder = Ladder(SETTINGS)
    went_up = float("-inf")
    for i, each in enumerate(signals):
        move = ladder.observe(i / 2, each)
        if move and move.up:
            went_up = i / 2
        elif move:
            assert i / 2 - went_up >= SETTINGS.down_after_s
