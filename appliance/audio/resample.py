"""Sample rates: soxr for whole files, and a short filter for everything that somebody is waiting for.

Own nothing but the filters' state. Know nothing of files, devices or time.

soxr's stream works in blocks: at its default quality it holds back 6 to 40 ms of sound, which is nothing to a
file and 5 % of a voice-to-voice budget. `LiveResampler` holds back half of its filter, about 1 ms.
"""

from functools import lru_cache
from math import gcd
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from appliance.engines.ports import Audio

EMPTY: Audio = np.zeros(0, dtype=np.float32)

_CROSSINGS = 16  # zero crossings of the sinc on either side
_BETA = 8.0  # Kaiser window: about 80 dB of stop band
_PASS = 0.92  # of the lower Nyquist frequency, so that the transition band ends near it


class Resampler:
    """Mono float32 from one rate to another with soxr, chunk by chunk, without seams; for files.

    With equal rates chunks pass through unchanged. After `last` the next chunk begins a new stream.
    """

    def __init__(self, rate_in: int, rate_out: int, *, quality: str = "HQ") -> None:
        self.rate_in, self.rate_out = rate_in, rate_out
        self._quality = quality
        self._stream: Any = None

    def push(self, audio: Audio, *, last: bool = False) -> Audio:
        """Resample `audio`; returns float32 in -1..1, possibly empty."""
        if self.rate_in == self.rate_out:
            return audio
        if self._stream is None:
            import soxr

            self._stream = soxr.ResampleStream(self.rate_in, self.rate_out, 1, dtype="float32", quality=self._quality)
        out = self._stream.resample_chunk(np.ascontiguousarray(audio, dtype=np.float32), last=last)
        if last:
            self._stream = None
        return cast(Audio, np.clip(out, -1.0, 1.0))


class LiveResampler:
    """Mono float32 from one rate to another, chunk by chunk, as soon as each sample can be known.

    A polyphase windowed sinc: output n lies at input instant n * rate_in / rate_out exactly, so positions on
    both sides correspond. After `last` the next chunk begins a new stream.
    """

    def __init__(self, rate_in: int, rate_out: int) -> None:
        self.rate_in, self.rate_out = rate_in, rate_out
        common = gcd(rate_in, rate_out)
        self._up, self._down = rate_out // common, rate_in // common
        self._half = int(np.ceil(_CROSSINGS * max(1.0, rate_in / rate_out)))
        self._bank = _bank(self._up, self._half, rate_out / rate_in) if rate_in != rate_out else None
        self._restart()

    def _restart(self) -> None:
        self._held: Audio = np.zeros(self._half - 1, dtype=np.float32)  # silence before the first sample
        self._origin = 1 - self._half  # input index of _held[0]
        self._next = 0  # output index to make next
        self._taken = 0  # input samples seen

    def push(self, audio: Audio, *, last: bool = False) -> Audio:
        """Resample `audio`; returns float32 in -1..1, possibly empty."""
        if self._bank is None:
            return audio
        self._taken += len(audio)
        tail = np.zeros(self._half if last else 0, dtype=np.float32)
        self._held = np.concatenate((self._held, audio.astype(np.float32, copy=False), tail))
        # Output n needs the input up to floor(n * down / up) + half.
        known = self._taken if last else self._taken - self._half
        end = max(self._next, -(-known * self._up // self._down))
        out = self._make(self._next, end)
        self._next = end
        if last:
            self._restart()
        else:
            self._forget(end)
        return out

    def _make(self, begin: int, end: int) -> Audio:
        if end <= begin:
            return EMPTY
        assert self._bank is not None
        places = np.arange(begin, end, dtype=np.int64) * self._down
        starts = places // self._up - self._half + 1 - self._origin
        windows = np.lib.stride_tricks.sliding_window_view(self._held, 2 * self._half)
        if self._up == 1:
            out = windows[starts[0] : starts[-1] + 1 : self._down] @ self._bank[0]
        else:
            out = np.einsum("nt,nt->n", windows[starts], self._bank[places % self._up])
        return cast(Audio, np.clip(out, -1.0, 1.0))

    def _forget(self, next_output: int) -> None:
        """Keep what the next output needs. Indices are kept small so that a stream may run for ever."""
        needed = next_output * self._down // self._up - self._half + 1
        drop = min(max(0, needed - self._origin), len(self._held))
        self._held = self._held[drop:].copy()
        self._origin += drop
        cycles = min(self._next // self._up, (self._origin + self._half) // self._down)
        if cycles > 1000:
            self._next -= cycles * self._up
            self._origin -= cycles * self._down
            self._taken -= cycles * self._down


@lru_cache(maxsize=16)
def _bank(up: int, half: int, ratio: float) -> NDArray[np.float32]:
    """One filter of 2 * half taps for each of the `up` phases, each with unit gain at 0 Hz. Not to be written to."""
    offsets = np.arange(2 * half) - (half - 1)
    phases = np.arange(up)[:, None] / up
    distance = offsets[None, :] - phases  # input samples between a tap and the output's place
    inside = np.clip(1.0 - (distance / half) ** 2, 0.0, None)
    bank = np.sinc(_PASS * min(1.0, ratio) * distance) * np.i0(_BETA * np.sqrt(inside))
    return cast(NDArray[np.float32], (bank / bank.sum(axis=1, keepdims=True)).astype(np.float32))


def resample(audio: Audio, rate_in: int, rate_out: int) -> Audio:
    """The whole of `audio` (mono float32) at `rate_out`."""
    return Resampler(rate_in, rate_out).push(audio, last=True)
