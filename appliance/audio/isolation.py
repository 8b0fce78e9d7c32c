"""Does the microphone hear the loudspeaker at all? With a headset or a handset it does not.

An echo canceller that has nothing to cancel takes a person who speaks over an answer for the echo and removes them,
for as long as it has not learned otherwise. So where nothing comes back, nothing is cancelled. Pure: levels and
samples in, a verdict out. Owns no stream.
"""

from collections import deque

import numpy as np

from appliance.engines.ports import RATE, Audio

_AUDIBLE_DBFS = -40.0


class Isolation:
    """Fed 10 ms frames of both sides in step; `holds` while there is no echo.

    It looks at frames before which the loudspeaker has sounded almost without a gap for 200 ms: an echo would be in
    them, however late. It takes `NEEDED` such frames of which one in `SILENT_OF` comes back at less than `BELOW_DB`,
    and people may talk over all the others; a room's noise is enough to leave it open, and then the canceller stays.
    (Over 21 interruptions in a row that share lay at -61 dB at most, behind an echo of -30 dB at -53 and more, where
    the median said nothing: people were talking in half the frames.) A sound at the microphone that is a late copy of
    what was played, three times as late, begins it all anew: somebody pulled the plug of the headset. The likeness of
    another voice over 200 ms reached 0.41 once in 21 interruptions, and its lag wanders; that of the echo in a hard
    room is at least 0.34 in 19 of 20. (For a person in the very voice that answers, twice
    was too little: 42 of 216 interruptions were taken for an echo, and 16 with three.)
    """

    NEEDED = 20
    SILENT_OF = 5
    BELOW_DB = -50.0
    SOUNDING = 17  # frames of the last 20
    HEARD_DB = -45.0  # what is worth comparing
    ALIKE = 0.32
    SAME_LAG = RATE // 1000
    SAME = 3  # comparisons in a row, 50 ms apart, that agree
    NEAR_FRAMES = 20  # compared with…
    LAG_FRAMES = 40  # …what was played up to so long before

    def __init__(self) -> None:
        self.holds = False
        self._coupling: deque[float] = deque(maxlen=200)
        self._near: deque[Audio] = deque(maxlen=self.NEAR_FRAMES)
        self._far: deque[Audio] = deque(maxlen=self.NEAR_FRAMES + self.LAG_FRAMES)
        self._far_levels: deque[float] = deque(maxlen=20)
        self._lag: int | None = None  # of the last comparison, where it found a likeness
        self._same = 0  # how many in a row have found it there
        self._sounding = 0  # frames of the microphone since it began to sound over the loudspeaker

    def feed(self, near: Audio, far: Audio, near_dbfs: float, far_dbfs: float) -> bool:
        """One frame of both with its levels. Returns `holds`."""
        self._near.append(near)
        self._far.append(far)
        self._far_levels.append(far_dbfs)
        loudest = max(self._far_levels)
        if loudest <= _AUDIBLE_DBFS:
            self._sounding = 0
            return self.holds
        self._sounding = self._sounding + 1 if near_dbfs - loudest > self.HEARD_DB else 0
        if self.holds and self._sounding >= self.NEAR_FRAMES and self._sounding % 5 == 0 and self._echoes():
            self._coupling.clear()
            self.holds = False
        if sum(level > _AUDIBLE_DBFS for level in self._far_levels) >= self.SOUNDING:
            self._coupling.append(near_dbfs - loudest)
            enough = len(self._coupling) >= self.NEEDED
            self.holds = enough and float(np.quantile(self._coupling, 1 / self.SILENT_OF)) < self.BELOW_DB
        return self.holds

    def _echoes(self) -> bool:
        """Whether what the microphone hears is what was played, as late as in the comparisons before."""
        before = self._lag if self._sounding > self.NEAR_FRAMES else None
        likeness, lag = alike(np.concatenate(self._near), np.concatenate(self._far))
        self._lag = lag if likeness > self.ALIKE else None
        if self._lag is None:
            self._same = 0
        else:
            self._same = self._same + 1 if before is not None and abs(self._lag - before) <= self.SAME_LAG else 1
        return self._same >= self.SAME


def alike(near: Audio, far: Audio) -> tuple[float, int]:
    """The largest normalised cross-correlation (0..1) of `near` with a stretch of `far` of the same length.

    Also how many samples before the end of `far` that stretch ends.
    """
    if len(far) < len(near) or not near.any():
        return 0.0, 0
    size = 1 << int(np.ceil(np.log2(len(near) + len(far))))
    product = np.fft.irfft(np.fft.rfft(far, size) * np.conj(np.fft.rfft(near, size)), size)
    lags = len(far) - len(near) + 1
    energy = np.cumsum(np.concatenate(([0.0], far.astype(np.float64) ** 2)))
    power = energy[len(near) :][:lags] - energy[:lags]
    norm = np.sqrt(np.maximum(power, 1e-9) * float(np.dot(near, near)))
    likeness = np.abs(product[:lags]) / np.maximum(norm, 1e-9)
    best = int(likeness.argmax())
    return float(likeness[best]), lags - 1 - best
