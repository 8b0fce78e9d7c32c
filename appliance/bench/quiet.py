"""What must not become a turn, and what must: ten minutes of silence, noise and music, and twenty short commands.

Owns the sounds (from seeds) and the judging: a turn is what the gate opens, the level guard lets through and the
transcriber finds words in. Engines are ports.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from appliance.bench.corpus import LEAD_S, VOICES, Speak, Turn, pink
from appliance.engines.ports import BLOCK, RATE, Audio, CancelToken, Priority, Transcriber, Vad
from appliance.turns.completeness import words_of
from appliance.turns.gate import Gate, GateSettings, Resume, Silence, SpeechStart, last_voiced
from appliance.turns.guards import GuardSettings, measure, worth_transcribing

COMMANDS = (
    "Stop.", "Yes.", "No.", "Next.", "Pause.", "Louder.", "Help.", "Cancel.", "Lights off.", "Go on.",
    "Stop.", "Yes.", "No.", "Okay.", "Quiet.", "Wait.", "Again.", "Hello.", "Thanks.", "Enough.",
)  # fmt: skip
COMMAND_VOICES = ("joe", "joe-low", "joe-high", "af_heart", "am_michael")
END_MS = 800.0  # silence that ends a candidate here; the policy may only be quicker


@dataclass(frozen=True, slots=True)
class Candidate:
    """What the gate took for speech. `text` is empty when a guard or the transcriber said no; `reason` says which."""

    at_s: float
    text: str
    reason: str


def quiet(seconds_each: float = 50.0, seed: int = 8) -> Iterator[tuple[str, Audio]]:
    """Twelve sounds without a word in them."""
    rng = np.random.default_rng(seed)
    n = int(seconds_each * RATE)
    t = np.arange(n) / RATE
    yield "digital silence", np.zeros(n, np.float32)
    yield "room", pink(n, rng) * np.float32(10 ** (-65 / 20))
    yield "fan", pink(n, rng) * np.float32(10 ** (-35 / 20))
    yield "loud noise", pink(n, rng) * np.float32(10 ** (-20 / 20))
    yield "white noise", (rng.normal(size=n) * 10 ** (-30 / 20)).astype(np.float32)
    yield "mains hum", (0.03 * np.sin(2 * np.pi * 50 * t) + 0.01 * np.sin(2 * np.pi * 150 * t)).astype(np.float32)
    yield "knocks", _bursts(n, rng, rate_hz=0.7, decay_s=0.04) + pink(n, rng) * np.float32(0.002)
    yield "keyboard", _bursts(n, rng, rate_hz=7.0, decay_s=0.008) * np.float32(0.3) + pink(n, rng) * np.float32(0.001)
    yield "swelling wind", pink(n, rng) * (0.05 * (1 + np.sin(2 * np.pi * 0.3 * t))).astype(np.float32)
    yield "piano-like music", _music(n, rng, attack_s=0.004, partials=6)
    yield "organ-like music", _music(n, rng, attack_s=0.08, partials=10)
    yield "music with drums", _music(n, rng, attack_s=0.01, partials=8) + _bursts(n, rng, rate_hz=4.0, decay_s=0.03)


def commands(speak: Speak) -> Iterator[tuple[str, Audio]]:
    """Each command as the first sound after the start, with no more than 60 ms before it; 250 to 600 ms long."""
    for i, text in enumerate(COMMANDS):
        speaker, _ = VOICES[COMMAND_VOICES[i % len(COMMAND_VOICES)]]
        audio, _ = speak(speaker, text)
        end = last_voiced(audio)
        begin = len(audio) - last_voiced(audio[::-1])
        rng = np.random.default_rng(i)
        sound = np.concatenate((np.zeros(RATE * 60 // 1000, np.float32), audio[begin:end], np.zeros(RATE, np.float32)))
        yield text, sound + pink(len(sound), rng) * np.float32(0.001)


def short_answers(speak: Speak) -> Iterator[Turn]:
    """A bare "yes" and a bare "no", each by five voices, as answers to a question."""
    for voice in COMMAND_VOICES:
        for text in ("Yes.", "No."):
            audio, _ = speak(VOICES[voice][0], text)
            lead, end = int(LEAD_S * RATE), last_voiced(audio)
            begin = len(audio) - last_voiced(audio[::-1])
            sound = np.concatenate((np.zeros(lead, np.float32), audio[begin:end], np.zeros(2 * RATE, np.float32)))
            sound += pink(len(sound), np.random.default_rng(lead)) * np.float32(0.001)
            yield Turn(f"{text}-{voice}", "answer", False, "report", "en", sound, lead + end - begin, asked=True)


async def heard(audio: Audio, vad: Vad, transcriber: Transcriber) -> list[Candidate]:
    """What becomes of `audio`: every opening of the gate, with its words or the guard that refused it."""
    gate, found = Gate(GateSettings()), []
    start, take_from, voiced = -1, 0, 0
    for position in range(0, len(audio) - BLOCK + 1, BLOCK):
        probability = await vad.probability("quiet", audio[position : position + BLOCK])
        voiced += probability >= GateSettings().stop_probability
        over = False
        for event in gate.feed(probability, position):
            match event:
                case SpeechStart():
                    start, take_from, voiced = event.first_sample, event.take_from, 3
                case Silence() if event.ms >= END_MS:
                    over = True
                case Resume():
                    pass
        if over or (gate.in_turn and position + 2 * BLOCK > len(audio)):
            gate.end_turn()
            found.append(await _judged(audio[take_from : position + BLOCK], start, voiced, transcriber))
    vad.forget("quiet")
    return found


async def _judged(audio: Audio, start: int, voiced_blocks: int, transcriber: Transcriber) -> Candidate:
    at = start / RATE
    reason = worth_transcribing(measure(audio, voiced_blocks * BLOCK * 1000 / RATE), GuardSettings())
    if reason:
        return Candidate(at, "", reason)
    found = await transcriber.transcribe(audio, priority=Priority.FINAL, cancel=CancelToken(), language="en")
    if words_of(found.text):
        return Candidate(at, found.text, "")
    return Candidate(at, "", found.reason or "no words")


def _bursts(n: int, rng: np.random.Generator, *, rate_hz: float, decay_s: float) -> Audio:
    out = np.zeros(n, np.float32)
    size = int(decay_s * 6 * RATE)
    shape = np.exp(-np.arange(size) / (decay_s * RATE))
    for at in rng.integers(0, max(1, n - size), int(n / RATE * rate_hz)):
        out[at : at + size] += (rng.normal(size=size) * shape * rng.uniform(0.05, 0.3)).astype(np.float32)
    return out


def _music(n: int, rng: np.random.Generator, *, attack_s: float, partials: int) -> Audio:
    """Chords over a bass, two a second, with harmonics and decay."""
    out = np.zeros(n, np.float32)
    beat = RATE // 2
    scale = (0, 2, 4, 5, 7, 9, 11, 12, 14, 16)
    t = np.arange(2 * beat) / RATE
    envelope = np.minimum(1, t / attack_s) * np.exp(-t * 2.2)
    for at in range(0, n - 2 * beat, beat):
        for degree in (*rng.choice(scale, 3), -12):
            f = 220.0 * 2 ** (degree / 12)
            tone = sum(np.sin(2 * np.pi * f * k * t + rng.uniform(0, 6)) / k**1.3 for k in range(1, partials))
            out[at : at + 2 * beat] += (0.04 * envelope * tone).astype(np.float32)
    return out
