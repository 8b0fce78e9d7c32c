"""The edges of a synthesised clause: a few ms before the first sound, a short natural tail, no clicks.

Pure numbers, shared by the synthesizer engines; works on a clause that arrives in pieces. Silence that a model
puts in front of a clause is latency that the ear pays for, so it goes.
"""

import numpy as np

from appliance.engines.ports import Audio

FADE_MS = 3.0


class Trimmer:
    """Feed it a clause piece by piece: it swallows leading silence and holds back silence until sound follows.

    `silence` is the amplitude below which a sample is silent. `dropped` counts samples cut from the front, which
    whoever times words must subtract.
    """

    def __init__(self, rate: int, *, lead_ms: float, tail_ms: float, silence: float) -> None:
        self._lead = int(lead_ms * rate / 1000)
        self._tail = int(tail_ms * rate / 1000)
        self._fade = int(FADE_MS * rate / 1000)
        self._silence = silence
        self._held = np.zeros(0, np.float32)
        self._begun = False
        self._rise = np.linspace(0.0, 1.0, min(self._fade, self._lead), dtype=np.float32)  # what is left of it
        self.dropped = 0

    def feed(self, audio: Audio) -> Audio:
        """What of the clause so far may be played now; may be empty."""
        pending = np.concatenate((self._held, audio)) if len(self._held) else audio
        sounding = np.flatnonzero(np.abs(pending) > self._silence)
        if not len(sounding):
            keep = len(pending) if self._begun else min(len(pending), self._lead)
            if not self._begun:
                self.dropped += len(pending) - keep
            self._held = pending[len(pending) - keep :]
            return pending[:0]
        begin, end = 0, int(sounding[-1]) + 1
        if not self._begun:
            begin = max(0, int(sounding[0]) - self._lead)
            self.dropped += begin
        self._held = pending[end:]
        ready = np.array(pending[begin:end], np.float32)
        rising = min(len(self._rise), len(ready))  # the first piece may be shorter than the fade
        ready[:rising] *= self._rise[:rising]
        self._rise = self._rise[rising:]
        self._begun = True
        return ready

    def finish(self) -> Audio:
        """The clause's tail, faded out; empty when nothing ever sounded."""
        if not self._begun:
            return self._held[:0]
        tail = np.array(self._held[: self._tail], np.float32)
        length = min(self._fade, len(tail))
        tail[len(tail) - length :] *= np.linspace(1.0, 0.0, length, dtype=np.float32)
        return tail
