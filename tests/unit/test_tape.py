import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.conversation.tape import Tape


@given(st.lists(st.tuples(st.integers(0, 700), st.integers(0, 300)), max_size=30), st.integers(0, 9000))
def test_a_cut_is_what_was_appended(pieces: list[tuple[int, int]], back: int) -> None:
    tape = Tape(0.1)  # 1,600 samples
    truth = np.zeros(0, dtype=np.float32)
    rng = np.random.default_rng(1)
    for length, gap in pieces:
        samples = rng.random(length, dtype=np.float32) + 1
        tape.append(samples, len(truth) + gap)
        truth = np.concatenate((truth, np.zeros(gap, dtype=np.float32), samples))
    start = max(0, len(truth) - back)
    want = truth[max(start, len(truth) - 1600) :]
    got = tape.cut(start)
    assert tape.end == len(truth)
    assert np.array_equal(got, want)


def test_samples_cannot_be_put_into_the_past() -> None:
    tape = Tape(1)
    tape.append(np.ones(10, dtype=np.float32), 0)
    with pytest.raises(ValueError, match="before the end"):
        tape.append(np.ones(10, dtype=np.float32), 5)


def test_a_cut_ends_where_it_is_told() -> None:
    tape = Tape(1)
    tape.append(np.arange(100, dtype=np.float32), 0)
    assert tape.cut(10, 13).tolist() == [10, 11, 12]
    assert len(tape.cut(100)) == 0


def test_positions_have_instants() -> None:
    tape = Tape(1)
    tape.append(np.zeros(1600, dtype=np.float32), 0, at=5.0)
    assert tape.instant(1600) == 5.0
    assert tape.instant(0) == pytest.approx(4.9)
    assert tape.ms_since(800) == 50.0
    tape.append(np.zeros(160, dtype=np.float32), 3200, at=5.11)  # what lies between was lost
    assert tape.instant(1600) == pytest.approx(5.0)


def test_the_last_voiced_sample_is_found_within_the_grain() -> None:
    tape = Tape(2)
    sound = np.zeros(16_000, dtype=np.float32)
    sound[8000:12_000] = np.random.default_rng(3).normal(0, 0.1, 4000)
    tape.append(sound, 0)
    assert tape.voiced_end(12_800) == pytest.approx(12_000, abs=160)
