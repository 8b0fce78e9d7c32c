"""Silence is encoded once: what is put together is the same in shape, and exact where it is encoded."""

import numpy as np
import pytest
from numpy.typing import NDArray

from appliance.engines.mel import HOP
from appliance.engines.ports import RATE
from appliance.engines.splice import STATES_S, TAIL_S, Splicer, hum

BANDS, WIDTH = 8, 4
Array = NDArray[np.float32]


class Encoder:
    """Each state is the mean of its two frames in every dimension; it counts what it was given."""

    def __init__(self) -> None:
        self.frames: list[int] = []

    def __call__(self, inputs: Array) -> Array:
        self.frames.append(inputs.shape[1])
        pairs = inputs[:, : inputs.shape[1] // 2 * 2].reshape(BANDS, -1, 2).mean(axis=(0, 2))
        return np.repeat(pairs[None, :, None], WIDTH, axis=2).astype(np.float32)


@pytest.fixture
def spliced() -> tuple[Encoder, Splicer]:
    encoder = Encoder()
    tail = np.full((BANDS, int(TAIL_S * RATE) // HOP), -1.0, np.float32)
    return encoder, Splicer(encoder, tail, pad_s=0.5)


def window(seconds: float, speech_s: float) -> Array:
    frames = np.full((BANDS, int(seconds * 100)), -0.5, np.float32)
    frames[:, : int(speech_s * 100)] = 1.0
    return frames


def test_only_the_speech_and_its_pad_are_encoded(spliced: tuple[Encoder, Splicer]) -> None:
    encoder, splicer = spliced
    states = splicer.states(splicer.spliced(window(6.0, 2.0), 2.0))
    assert states.shape == (1, 6 * STATES_S, WIDTH)
    assert encoder.frames[1:] == [250]
    assert np.all(states[0, :100] == 1.0)
    assert np.all(states[0, 100:125] == -0.5)
    assert np.all(states[0, 125:] == -1.0)


def test_at_least_two_seconds_are_encoded(spliced: tuple[Encoder, Splicer]) -> None:
    encoder, splicer = spliced
    splicer.spliced(window(6.0, 0.4), 0.4)
    assert encoder.frames[1:] == [200]


def test_speech_that_fills_its_window_and_windows_beyond_the_tail_are_encoded_whole(
    spliced: tuple[Encoder, Splicer],
) -> None:
    encoder, splicer = spliced
    for seconds, speech_s in ((6.0, 5.8), (TAIL_S + 2, 3.0)):
        inputs = window(seconds, speech_s)
        assert np.array_equal(splicer.states(splicer.spliced(inputs, speech_s)), Encoder()(inputs))
        assert encoder.frames[-1] == inputs.shape[1]


def test_the_hum_is_a_second_of_sound_with_quiet_ends() -> None:
    wave = hum()
    assert wave.dtype == np.float32
    assert len(wave) == RATE
    assert 0.02 < np.abs(wave).max() < 1.0
    assert abs(wave[0]) < 0.001 > abs(wave[-1])
