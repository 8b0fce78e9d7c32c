"""Was there anything to answer? Guards against near silence, noise, music and the television.

Levels, scores and transcripts in, a reason out ("" means: go on). It does not know how they were measured.
"""

from dataclasses import dataclass

import numpy as np

from appliance.engines.ports import RATE, Audio
from appliance.turns.completeness import words_of


@dataclass(frozen=True, slots=True)
class GuardSettings:
    min_voiced_ms: float = 130.0  # in all; a click or a cough has less
    min_peak_dbfs: float = -55.0  # of the loudest 100 ms
    min_rise_db: float = 3.0  # of the loudest 100 ms over the quietest; steady noise has none
    max_no_speech: float = 0.6
    min_logprob: float = -1.0  # mean a token
    max_words_per_s: float = 7.0
    steady_looks: int = 4  # drafts in a row without a new word
    steady_after_ms: float = 8_000.0  # before that a turn is not suspected of being the television


@dataclass(frozen=True, slots=True)
class AudioStats:
    """Of a turn's audio. Levels are RMS of 100 ms in dBFS."""

    length_ms: float
    voiced_ms: float
    loudest_dbfs: float
    quietest_dbfs: float


def measure(audio: Audio, voiced_ms: float) -> AudioStats:
    """Statistics of mono 16 kHz `audio`; `voiced_ms` comes from whoever watched the probabilities."""
    grain = RATE // 10
    count = max(1, len(audio) // grain)
    padded = np.zeros(count * grain, np.float32)
    padded[: min(len(audio), count * grain)] = audio[: count * grain]
    frames = padded.reshape(count, grain)
    level = 10 * np.log10(np.einsum("ij,ij->i", frames, frames) / grain + 1e-12)
    return AudioStats(len(audio) * 1000 / RATE, voiced_ms, float(level.max()), float(level.min()))


def worth_transcribing(stats: AudioStats, settings: GuardSettings) -> str:
    """ "" when it may hold words, else the reason why not."""
    if stats.loudest_dbfs < settings.min_peak_dbfs:
        return "near silence"
    if stats.voiced_ms < settings.min_voiced_ms:
        return "too short"
    if stats.loudest_dbfs - stats.quietest_dbfs < settings.min_rise_db:
        return "steady noise"
    return ""


def is_words(text: str, *, no_speech: float, logprob: float, audio_ms: float, settings: GuardSettings) -> str:
    """ "" when a transcript holds words somebody said, else the reason why not.

    `no_speech` is a probability, `logprob` the mean a token; the two are trusted together only.
    """
    said = words_of(text)
    if not said:
        return "no words"
    if no_speech > settings.max_no_speech and logprob < settings.min_logprob:
        return "no speech"
    if len(said) > 3 + settings.max_words_per_s * audio_ms / 1000:
        return "too many words"
    return ""


class Steady:
    """Watches the drafts of one long turn: the television talks on, but nothing more is understood of it."""

    def __init__(self, settings: GuardSettings) -> None:
        self._settings = settings
        self._words = 0
        self._same = 0

    def draft(self, text: str, length_ms: float) -> bool:
        """A draft of the turn so far. True when the turn should end because its words stopped changing."""
        count = len(words_of(text))
        self._same = self._same + 1 if count <= self._words else 0
        self._words = max(self._words, count)
        return length_ms >= self._settings.steady_after_ms and self._same >= self._settings.steady_looks
