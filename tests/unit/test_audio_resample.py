"""The live resampler against soxr: same signal, same places, far less held back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.audio.resample import LiveResampler, resample

PAIRS = [(48_000, 16_000), (44_100, 16_000), (8_000, 16_000), (22_050, 44_100), (24_000, 48_000), (22_050, 48_000)]


def speech_like(rate: int, seconds: float = 1.0) -> np.ndarray:
    t = np.arange(int(rate * seconds)) / rate
    return (0.2 * sum(np.sin(2 * np.pi * hz * t + hz) for hz in (130, 700, 1_900, 3_100))).astype(np.float32)


@pytest.mark.parametrize(("rate_in", "rate_out"), PAIRS)
def test_same_signal_at_the_same_places_as_soxr(rate_in: int, rate_out: int) -> None:
    audio = speech_like(rate_in)
    ours = LiveResampler(rate_in, rate_out).push(audio, last=True)
    theirs = resample(audio, rate_in, rate_out)
    assert abs(len(ours) - len(theirs)) <= 1
    inner = slice(rate_out // 20, rate_out * 19 // 20)
    error = ours[inner] - theirs[inner]
    assert 10 * np.log10(np.mean(error**2) / np.mean(theirs[inner] ** 2)) < -60


@pytest.mark.parametrize("rate_in", [44_100, 48_000])
def test_what_would_fold_into_speech_is_filtered_out(rate_in: int) -> None:
    t = np.arange(rate_in) / rate_in
    folded = LiveResampler(rate_in, 16_000).push(np.sin(2 * np.pi * 10_000 * t).astype(np.float32), last=True)
    assert np.abs(folded[500:-500]).max() < 1e-3


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(PAIRS), st.lists(st.integers(0, 1500), min_size=1, max_size=30))
def test_chunks_join_without_seams(pair: tuple[int, int], sizes: list[int]) -> None:
    rate_in, rate_out = pair
    audio = speech_like(rate_in)[: sum(sizes)]
    live = LiveResampler(rate_in, rate_out)
    pieces, at = [], 0
    for size in sizes:
        pieces.append(live.push(audio[at : at + size]))
        at += size
        made = sum(len(piece) for piece in pieces)
        assert min(at, len(audio)) / rate_in - made / rate_out < 0.0022  # no more than half a filter is held back
    pieces.append(live.push(audio[:0], last=True))
    whole = LiveResampler(rate_in, rate_out).push(audio, last=True)
    np.testing.assert_allclose(np.concatenate(pieces), whole, atol=1e-6)


def test_a_stream_may_run_for_hours_without_its_indices_growing() -> None:
    live = LiveResampler(44_100, 16_000)
    chunk = speech_like(44_100, 0.1)
    made = sum(len(live.push(chunk)) for _ in range(600))
    assert abs(made - 600 * 1_600) < 40
    assert live._next < 2_000_000
    assert len(live._held) < 400
