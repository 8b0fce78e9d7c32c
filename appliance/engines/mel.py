"""Whisper's log-mel features in plain numpy: 25 ms Hann windows every 10 ms, Slaney mel bands.

Pure numbers in, numbers out; shared by the whisper and smart-turn engines. Only samples that exist are
transformed: silence that pads a window is filled in with its known value, never computed.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from appliance.engines.ports import RATE, Audio

HOP = 160
FFT = 400
FLOOR = 1e-10  # power below which log10 is clipped, as whisper was trained
_BREAK_HZ, _BREAK_MEL, _LINEAR_HZ = 1000.0, 15.0, 200.0 / 3  # Slaney: linear to 1 kHz, logarithmic above
_LOG_STEP = np.log(6.4) / 27.0

Features = NDArray[np.float32]


@lru_cache(maxsize=4)
def mel_filters(bands: int) -> Features:
    """Triangular Slaney filters with unit area, shape (bands, 201), 0 to 8,000 Hz."""
    top = _BREAK_MEL + np.log(RATE / 2 / _BREAK_HZ) / _LOG_STEP
    mels = np.linspace(0.0, top, bands + 2)
    edges = np.where(mels < _BREAK_MEL, mels * _LINEAR_HZ, _BREAK_HZ * np.exp(_LOG_STEP * (mels - _BREAK_MEL)))
    bins = np.fft.rfftfreq(FFT, 1.0 / RATE)
    low, mid, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising, falling = (bins - low) / (mid - low), (high - bins) / (high - mid)
    weights = np.maximum(0.0, np.minimum(rising, falling)) * (2.0 / (high - low))
    return np.ascontiguousarray(weights, dtype=np.float32)


@lru_cache(maxsize=1)
def _window() -> Features:
    return np.hanning(FFT + 1)[:-1].astype(np.float32)


def mel_power(audio: Audio, bands: int) -> Features:
    """Mel power of `audio`, shape (bands, len(audio) // HOP); frames are centred, edges reflected.

    `audio` needs at least 201 samples.
    """
    padded = np.pad(audio, FFT // 2, mode="reflect")
    count = len(audio) // HOP
    frames = np.lib.stride_tricks.sliding_window_view(padded, FFT)[::HOP][:count]
    spectrum = np.fft.rfft(frames * _window(), axis=1)
    power = spectrum.real**2 + spectrum.imag**2
    return mel_filters(bands) @ power.T.astype(np.float32, copy=False)


def log_mel(power: Features) -> Features:
    """Whisper's compression: log10, at most 80 dB below the peak, shifted to about -1..1."""
    logs = np.log10(np.maximum(power, FLOOR))
    np.maximum(logs, logs.max() - 8.0, out=logs)
    logs += 4.0
    logs *= 0.25
    return logs
