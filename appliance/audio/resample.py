"""Sample rates: one streaming resampler on soxr, and a whole-array shorthand.

Owns nothing but the filter's state. Knows nothing of files, devices or time.
"""

from typing import Any, cast

import numpy as np

from appliance.engines.ports import Audio

EMPTY: Audio = np.zeros(0, dtype=np.float32)


class Resampler:
    """Mono float32 from one rate to another, chunk by chunk, without seams.

    With equal rates chunks pass through unchanged. soxr holds back the length of its filter (a few ms) until
    more input or `last` arrives. After `last` the next chunk begins a new stream.
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


def resample(audio: Audio, rate_in: int, rate_out: int) -> Audio:
    """The whole of `audio` (mono float32) at `rate_out`."""
    return Resampler(rate_in, rate_out).push(audio, last=True)
