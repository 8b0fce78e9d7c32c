"""Speech while an answer is on its way: an interruption, a backchannel, or noise?

Owns the two sensitivities (while thinking, while speaking) and the order of evidence: a stop word, words, speech
that goes on, or nothing. A transcriber makes words of any hum ("and I'm" of an "mm-hm" that goes on, "amen" of one
that is over), so that a short sound's words count only when it is over and they are likely. The caller ducks on
"duck", asks for a transcript when told to, and asks again with every block. Numbers and words in, verdict out; it
knows neither player nor transcriber.
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum

from appliance.turns.completeness import Lexicon, lexicon, words_of

_HUM = re.compile(r"[mhn]+(?:['-][mhn]+)*")  # "mm", "hm", and a hum spelled out: "M-H-M"


class Action(StrEnum):
    IGNORE = "ignore"  # not enough to disturb the answer
    DUCK = "duck"  # silence the answer, undecided
    INTERRUPT = "interrupt"
    RESUME = "resume"  # it was nothing: go on where the answer stopped


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How much speech it takes."""

    duck_after_ms: float  # voiced time before the answer is silenced
    min_probability: float  # mean speech probability of the voiced blocks
    min_words: int  # words other than backchannels that make an interruption
    speech_ms: float  # voiced time that makes one even without words, at the deadline


@dataclass(frozen=True, slots=True)
class BargeInSettings:
    thinking: Sensitivity = field(default_factory=lambda: Sensitivity(96.0, 0.5, 1, 450.0))
    speaking: Sensitivity = field(default_factory=lambda: Sensitivity(96.0, 0.6, 1, 550.0))
    alert_probability: float = 0.8  # two blocks of it silence an answer before it is sure that speech began; 1: never
    decide_within_ms: float = 700.0  # from the first voiced sample
    late_words_ms: float = 600.0  # past that, for a transcript that is under way on a slow or busy box
    settle_ms: float = 250.0  # silence after which no more words are expected
    transcribe_after_ms: float = 250.0  # voiced time worth a first transcript
    min_logprob: float = -0.7  # mean a token, of a short sound: in 4 voices 25 and 27 of 28 hums lie below, words above
    stop_words: tuple[str, ...] = ()  # besides those of the language


@dataclass(frozen=True, slots=True)
class Overlap:
    """Speech over an answer, as far as it is known. Times in ms of the sample clock."""

    speaking: bool  # the answer is sounding; False: it is still being thought of
    since_ms: float  # since the first voiced sample
    voiced_ms: float
    silence_ms: float  # 0 while it goes on
    probability: float = 1.0  # mean of its voiced blocks
    words: str | None = None  # the newest transcript of it; None: none yet
    logprob: float = 0.0  # of `words`, mean a token
    language: str = "en"
    pending: bool = False  # a newer transcript is under way


@dataclass(frozen=True, slots=True)
class Verdict:
    """`transcribe`: a transcript (again) would help to decide."""

    action: Action
    reason: str
    transcribe: bool = False

    @property
    def final(self) -> bool:
        return self.action in (Action.INTERRUPT, Action.RESUME)


class BargeIn:
    """Without state: ask with every block until the verdict is final."""

    def __init__(self, settings: BargeInSettings) -> None:
        self._settings = settings

    def decide(self, overlap: Overlap) -> Verdict:
        settings = self._settings
        limits = settings.speaking if overlap.speaking else settings.thinking
        lex = lexicon(overlap.language)
        said = words_of(overlap.words or "")
        if self._stops(said, lex):
            return Verdict(Action.INTERRUPT, "stop word")
        if len(_content(said, lex)) >= limits.min_words and self._believable(overlap, limits):
            return Verdict(Action.INTERRUPT, "words")
        quiet = overlap.silence_ms >= settings.settle_ms
        if overlap.words is not None and quiet and not overlap.pending:
            return Verdict(Action.RESUME, "backchannel" if said else "no words")
        if overlap.since_ms >= settings.decide_within_ms:
            return self._at_the_deadline(overlap, limits, said)
        if overlap.voiced_ms < limits.duck_after_ms or overlap.probability < limits.min_probability:
            return Verdict(Action.IGNORE, "too little")
        worth = overlap.voiced_ms >= settings.transcribe_after_ms or overlap.silence_ms > 0
        return Verdict(Action.DUCK, "undecided", transcribe=worth)

    def _stops(self, said: list[str], lex: Lexicon) -> bool:
        text = f" {' '.join(said)} "
        return any(f" {phrase} " in text for phrase in (*lex.stops, *self._settings.stop_words))

    def _believable(self, overlap: Overlap, limits: Sensitivity) -> bool:
        """Whether the words are likely, and those of the sound: it is over, or too long to be a hum."""
        over = overlap.silence_ms > 0 and not overlap.pending
        return overlap.logprob >= self._settings.min_logprob and (over or overlap.voiced_ms >= limits.speech_ms)

    def _at_the_deadline(self, overlap: Overlap, limits: Sensitivity, said: list[str]) -> Verdict:
        goes_on = overlap.silence_ms <= 0 and overlap.voiced_ms >= limits.speech_ms
        if goes_on and overlap.probability >= limits.min_probability:
            return Verdict(Action.INTERRUPT, "speech went on")
        late = overlap.since_ms - self._settings.decide_within_ms
        if overlap.pending and late < self._settings.late_words_ms:
            return Verdict(Action.DUCK, "words are coming")
        reason = "words came too late" if overlap.pending else "backchannel" if said else "no words"
        return Verdict(Action.RESUME, reason)


def is_backchannel(text: str, language: str = "en") -> bool:
    """Whether `text` is nothing but "mm-hm", "yeah", "okay" and the like, or a filler."""
    said = words_of(text)
    return bool(said) and not _content(said, lexicon(language))


def _content(said: list[str], lex: Lexicon) -> list[str]:
    """The words of `said` that are no backchannel and no filler, longest phrases first."""
    said = [word for word in said if not _HUM.fullmatch(word)]
    rest: list[str] = []
    i = 0
    while i < len(said):
        for size in (3, 2, 1):
            phrase = " ".join(said[i : i + size])
            if len(said) - i >= size and (phrase in lex.agrees or phrase in lex.filler):
                i += size
                break
        else:
            rest.append(said[i])
            i += 1
    return rest
