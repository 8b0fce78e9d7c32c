"""The arithmetic around one utterance: how wide a window it needs, where long audio is cut, what is no speech.

Pure: numbers and words in, decisions out. Knows nothing of whisper's vendor; the whisper engine applies it.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from appliance.engines.ports import RATE, Audio, Transcript

DOUBTED = "no speech"  # there are words, and they are hardly believed
REPEATED, ENDLESS = "repetition", "endless repetition"  # the second ran into the token bound
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_FRAME = RATE // 50  # 20 ms: the grain of level measurements


def levels(audio: Audio) -> Audio:
    """RMS of each whole 20 ms frame."""
    count = len(audio) // _FRAME
    frames = audio[: count * _FRAME].reshape(count, _FRAME)
    rms: Audio = np.sqrt(np.square(frames).mean(axis=1))
    return rms


def window_s(speech_s: float, *, least_s: float, pad_s: float, step_s: float, most_s: float) -> float:
    """Seconds of window for `speech_s`: max(least, speech + pad) rounded up to a step, at most `most_s`."""
    wanted = max(least_s, speech_s + pad_s)
    return min(most_s, float(np.ceil(wanted / step_s - 1e-9)) * step_s)


def cut(audio: Audio, *, most_s: float, search_s: float) -> Iterator[tuple[int, int]]:
    """Sample ranges of at most `most_s` that cover `audio`, each cut at the quietest 100 ms of its last `search_s`."""
    start, most, search = 0, int(most_s * RATE), int(search_s * RATE)
    while len(audio) - start > most:
        low = start + most - search
        rms = levels(audio[low : start + most])
        smooth = np.convolve(rms, np.ones(5, np.float32), mode="valid")
        # Among equally quiet places the last one wins, so that pieces stay long.
        quietest = len(smooth) - 1 - int(np.argmin(smooth[::-1]))
        end = low + (quietest + 2) * _FRAME + _FRAME // 2
        yield start, end
        start = end
    yield start, len(audio)


def wants_second_look(heard: Transcript, least_logprob: float, *, quick: bool) -> bool:
    """Whether a transcript should be made again, wider: it loops or, unless `quick`, is unsure or doubted."""
    unsure = heard.reason == DOUBTED or (not heard.reason and heard.logprob < least_logprob)
    return heard.reason in (REPEATED, ENDLESS) or (unsure and not quick)


def believed(heard: Transcript, again: Transcript) -> Transcript:
    """What to go by after a second look.

    A loop is never kept, but what repeats itself in both looks and comes to an end was said so: "no, no, no, no, no".
    Doubted words stand when they are heard again, without doubt; unsure ones give way to likelier ones.
    """
    if again.reason == REPEATED:
        again = replace(again, reason="")
    if heard.reason in (REPEATED, ENDLESS):
        return again
    better = words(again.text) == words(heard.text) if heard.reason == DOUBTED else again.logprob > heard.logprob
    return again if better and not again.reason else heard


def words(text: str) -> list[str]:
    """Lower-case words without punctuation."""
    return _WORD.findall(text.lower())


def once(text: str) -> str:
    """The phrase of which `text` is nothing but repetitions, two at least and the last one perhaps cut; else "".

    Without a comma behind it, which only tells that it was to be said again.
    """
    found = list(_WORD.finditer(text))
    said = [match[0].lower() for match in found]
    for size in range(1, len(said) // 2 + 1):
        *whole, last = (said[i % size] for i in range(len(said)))
        if said[:-1] == whole and last.startswith(said[-1]):
            return bare(text[: found[size].start()])
    return ""


def bare(text: str) -> str:
    """`text` without a comma or the like at its end."""
    return text.strip().rstrip(" ,;:-–—")


def repeats(text: str) -> bool:
    """Whether a decoder loop shows: a phrase said again at once, more often than people do.

    A single word five times in a row, two or three words three times, four words or more twice, or an end that
    takes up the beginning again by four words.
    """
    said = words(text)
    if any(said[-size:] == said[:size] for size in range(4, len(said) // 2 + 1)):
        return True
    for size in range(1, len(said) // 2 + 1):
        allowed = 5 if size == 1 else 3 if size <= 3 else 2
        run = 0
        for i in range(size, len(said)):
            run = run + 1 if said[i] == said[i - size] else 0
            if run >= size * (allowed - 1):
                return True
    return False
