"""How loud: decibels, clipping, and a microphone that is nearly silent. Pure."""

from dataclasses import dataclass

import numpy as np

from appliance.engines.ports import RATE, Audio

SILENCE_DBFS = -120.0


def dbfs(audio: Audio) -> float:
    """RMS level in dB relative to full scale (a full-scale square wave is 0 dBFS); at least -120."""
    if len(audio) == 0:
        return SILENCE_DBFS
    power = float(np.dot(audio, audio)) / len(audio)
    return max(SILENCE_DBFS, 10.0 * float(np.log10(power + 1e-12)))


def amplitude(level_dbfs: float) -> float:
    """The linear amplitude of a level in dBFS."""
    return float(10.0 ** (level_dbfs / 20.0))


def first_audible(audio: Audio, threshold_dbfs: float = -50.0) -> int | None:
    """Index of the first sample whose magnitude exceeds the threshold; None where there is none."""
    loud = np.abs(audio) > amplitude(threshold_dbfs)
    index = int(loud.argmax()) if len(loud) else 0
    return index if len(loud) and bool(loud[index]) else None


@dataclass(frozen=True, slots=True)
class LevelSettings:
    """When a microphone deserves a warning."""

    nearly_silent_dbfs: float = -75.0  # the loudest block of the window stays below this
    nearly_silent_after_s: float = 20.0
    clipping_share: float = 0.001  # of samples at full scale, over one second


class LevelWatch:
    """Watches blocks of 16 kHz audio; `feed` returns "", "silent" or "clipping", once at each change."""

    def __init__(self, settings: LevelSettings | None = None) -> None:
        self.settings = settings or LevelSettings()
        self.level_dbfs = SILENCE_DBFS
        self.state = ""
        self._quiet_samples = 0
        self._samples = 0
        self._clipped = 0

    def feed(self, block: Audio) -> str:
        """The new state where it changed with this block ("ok" when a warning is over), else ""."""
        self.level_dbfs = dbfs(block)
        if self.level_dbfs > self.settings.nearly_silent_dbfs:
            self._quiet_samples = 0
        else:
            self._quiet_samples += len(block)
        clipping = self._count_clipping(block)
        state = self.state
        if self._quiet_samples >= self.settings.nearly_silent_after_s * RATE:
            state = "silent"
        elif clipping is not None:
            state = "clipping" if clipping else ""
        elif state == "silent":
            state = ""
        if state == self.state:
            return ""
        self.state = state
        return state or "ok"

    def _count_clipping(self, block: Audio) -> bool | None:
        """A verdict once a second, else None."""
        self._clipped += int(np.count_nonzero(np.abs(block) >= 0.999))
        self._samples += len(block)
        if self._samples < RATE:
            return None
        share, self._samples, self._clipped = self._clipped / self._samples, 0, 0
        return share > self.settings.clipping_share
