"""The sound that says "I am listening": two soft notes, made here so that no file is needed."""

import numpy as np

from appliance.engines.ports import Audio

CHIME_MARGIN_S = 0.15  # the way through speaker, room and microphone
_NOTES_HZ = (880.0, 1174.7)
_NOTE_S = 0.09


def chime(sample_rate: int) -> Audio:
    """0.18 s at `sample_rate`, mono float32, peak 0.2."""
    time = np.arange(int(_NOTE_S * sample_rate)) / sample_rate
    fade = np.sin(np.pi * time / _NOTE_S) ** 2
    return np.concatenate([0.2 * fade * np.sin(2 * np.pi * note * time) for note in _NOTES_HZ]).astype(np.float32)
