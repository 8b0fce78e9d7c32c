"""The gate: edges of speech from probabilities, on the sample clock."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.engines.ports import BLOCK, RATE
from appliance.turns.gate import (
    Gate,
    GateEvent,
    GateSettings,
    Pause,
    Resume,
    Silence,
    SpeechStart,
    TooLong,
    last_voiced,
)

PROBABILITIES = st.lists(st.floats(0, 1), max_size=300)


def feed(gate: Gate, probabilities: list[float], start: int = 0) -> list[GateEvent]:
    return [e for i, p in enumerate(probabilities) for e in gate.feed(p, start + i * BLOCK)]


def test_a_turn_with_a_pause_has_its_edges_where_the_probabilities_have_them() -> None:
    events = feed(Gate(GateSettings()), [0.0] * 20 + [0.9] * 10 + [0.1] * 5 + [0.9] * 4 + [0.0] * 3)
    assert events[0] == SpeechStart(20 * BLOCK, 20 * BLOCK - RATE // 2)
    assert events[1:3] == [Pause(30 * BLOCK), Silence(32.0, 30 * BLOCK)]
    assert [e for e in events if isinstance(e, Resume)] == [Resume(35 * BLOCK)]
    assert events[-1] == Silence(96.0, 39 * BLOCK)


def test_a_word_of_a_quarter_second_is_heard_even_as_the_first_sound() -> None:
    assert feed(Gate(GateSettings()), [0.7] * 4 + [0.1] * 4)[0] == SpeechStart(0, 0)


def test_a_word_with_a_stop_in_its_middle_is_one_start() -> None:
    assert [type(e) for e in feed(Gate(GateSettings()), [0.8, 0.2, 0.8, 0.8])] == [SpeechStart]


@pytest.mark.parametrize("clicks", [[0.9], [0.9, 0.9], [0.9] + [0.0] * 8 + [0.9] + [0.0] * 8 + [0.9]])
def test_clicks_start_nothing(clicks: list[float]) -> None:
    assert feed(Gate(GateSettings()), [0.0] * 3 + clicks + [0.0] * 10) == []


def test_a_click_does_not_end_a_pause_but_holds_the_silence_for_its_block() -> None:
    events = feed(Gate(GateSettings()), [0.9] * 5 + [0.0] * 3 + [0.9] + [0.0] * 2)
    silences = [e.ms for e in events if isinstance(e, Silence)]
    assert silences == [32.0, 64.0, 96.0, 160.0, 192.0]
    assert not any(isinstance(e, Resume) for e in events)


def test_between_the_thresholds_speech_goes_on_but_does_not_begin() -> None:
    assert feed(Gate(GateSettings()), [0.4] * 20) == []
    assert [type(e) for e in feed(Gate(GateSettings()), [0.9] * 3 + [0.4] * 20)] == [SpeechStart]


def test_the_next_turn_takes_nothing_that_belonged_to_the_last() -> None:
    gate = Gate(GateSettings())
    feed(gate, [0.9] * 10 + [0.0] * 6)
    gate.end_turn()
    (start,) = feed(gate, [0.9] * 3, 16 * BLOCK)
    assert start == SpeechStart(16 * BLOCK, 10 * BLOCK)


def test_after_a_cap_in_mid_speech_the_same_breath_starts_no_new_turn() -> None:
    gate = Gate(GateSettings(max_turn_ms=320.0))
    events = feed(gate, [0.9] * 12)
    assert [e for e in events if isinstance(e, TooLong)] == [TooLong(320.0)]
    gate.end_turn()
    assert feed(gate, [0.9] * 20, 12 * BLOCK) == []
    assert [type(e) for e in feed(gate, [0.0] + [0.9] * 3, 32 * BLOCK)] == [SpeechStart]


def test_missing_blocks_are_silence() -> None:
    gate = Gate(GateSettings())
    feed(gate, [0.9] * 5)
    assert gate.feed(0.0, 20 * BLOCK) == (Pause(5 * BLOCK), Silence(16 * 32.0, 5 * BLOCK))
    with pytest.raises(ValueError, match="lies before"):
        gate.feed(0.0, 3 * BLOCK)


def test_reset_forgets_the_turn_and_its_audio() -> None:
    gate = Gate(GateSettings())
    feed(gate, [0.9] * 5)
    gate.reset()
    assert not gate.in_turn
    (start,) = feed(gate, [0.9] * 3, 5 * BLOCK)
    assert start == SpeechStart(5 * BLOCK, 5 * BLOCK)


def test_thresholds_that_cross_are_refused() -> None:
    with pytest.raises(ValueError, match="stop_probability"):
        GateSettings(start_probability=0.3, stop_probability=0.5)


@given(PROBABILITIES, st.sets(st.integers(0, 299)))
def test_events_alternate_and_positions_never_go_back(probabilities: list[float], ends: set[int]) -> None:
    gate = Gate(GateSettings())
    paused, position, floor = False, 0, 0
    for i, probability in enumerate(probabilities):
        for event in gate.feed(probability, i * BLOCK):
            match event:
                case SpeechStart(first, take_from):
                    assert floor <= take_from <= first
                    position, paused = first, False
                case Pause(last):
                    assert not paused
                    assert position < last <= i * BLOCK
                    position, paused = last, True
                case Silence(ms, last):
                    assert paused
                    assert last == position
                    assert ms == ((i + 1) * BLOCK - last) * 1000 / RATE
                case Resume(first):
                    assert paused
                    assert first >= position
                    position, paused = first, False
        if i in ends:
            if gate.in_turn and paused:
                floor = position
            gate.end_turn()
            assert not gate.in_turn


def test_energy_finds_the_last_voiced_sample_within_ten_ms() -> None:
    rng = np.random.default_rng(0)
    audio = rng.normal(0, 0.001, RATE).astype(np.float32)
    audio[:9000] += np.sin(np.arange(9000) * 0.1).astype(np.float32) * 0.2
    assert abs(last_voiced(audio) - 9000) <= RATE // 100


def test_nothing_is_voiced_in_nothing() -> None:
    assert last_voiced(np.zeros(0, np.float32)) == 0
    assert last_voiced(np.zeros(RATE, np.float32)) == 0
