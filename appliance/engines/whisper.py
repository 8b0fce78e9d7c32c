"""Whisper on CTranslate2 with a window as short as the utterance, not the 30 s that stock pipelines encode.

Owns the CTranslate2 model and the guards that turn noise into an empty transcript with a reason. On a processor the
first transcript is decoded by `whisper_decoder`, which takes half the time; second looks and languages stay with
CTranslate2. Knows nothing of turns: a draft and a final differ only in priority.

It decodes without times first: two steps fewer, and a log-probability that tells words from noise more sharply.
In a short window the decoder then loops now and then; with times it hardly does, so what has looped is decoded again
with them. (54 recorded clips: the words 11 and 22 % sooner than with times throughout, tiny and base.)
"""

import json
import logging
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from appliance.engines import utterance
from appliance.engines.mel import FLOOR, HOP, Features, log_mel, mel_power
from appliance.engines.native import checked, require_file
from appliance.engines.ports import RATE, Audio, CancelToken, Priority, Transcript
from appliance.engines.splice import TAIL_S, Spliced, Splicer, States, hum
from appliance.engines.whisper_decoder import Decoder, Drawn, Memory
from appliance.engines.whisper_vocabulary import Vocabulary
from appliance.engines.worker import Worker
from appliance.errors import Cancelled, EngineError, MissingError, ModelFileError

_log = logging.getLogger(__name__)

WIDE_S = 30.0  # what whisper was trained on; the widest window there is
_TOKENS_MOST = 224  # half of the decoder's positions
_LEAST_SAMPLES = 1600  # 100 ms: less cannot hold a word, and the transform needs 201


# What whisper was taught to write over silence: endings of films. Believed only where speech was likely.
_PHANTOMS = re.compile(
    r"(thank(s| you)( so much| very much)?( for (watching|listening))?|you|bye|please subscribe|subtitles? by .*"
    r"|untertitel.*|vielen dank( fürs zuschauen)?|sous titr.*|merci d avoir regardé.*|gracias( por ver.*)?"
    r"|subtítulos.*|grazie( per la visione.*)?|sottotitoli.*)"
)


@dataclass(frozen=True, slots=True)
class WhisperSettings:
    """`language` "" means detected, among `languages` where that is not empty."""

    language: str = "en"
    languages: tuple[str, ...] = ()
    device: str = "cpu"
    compute_type: str = "int8"
    threads: int = 2
    beam_size: int = 1
    window_least_s: float = 6.0
    window_pad_s: float = 3.0  # silence after the speech; with less the decoder begins to loop
    window_step_s: float = 0.5
    encode_pad_s: float = 0.5  # of that silence, what is really encoded, see splice.py
    piece_s: float = 27.0  # longer audio is cut at quiet places
    tokens_least: int = 11  # of a transcript, times included; one that runs into the bound has begun to loop
    tokens_per_s: float = 6.0  # of audio, on top
    again_logprob: float = -0.6  # below it the piece is decoded again, wider and with a beam
    again_beam_size: int = 5
    again_pad_s: float = 7.0  # chosen on the clips of `bench asr`, where 5 made 8 word errors more and 9 as many
    doubt_most: float = 1.7  # no-speech probability minus mean log-probability: above it a second opinion is asked
    doubt_most_timed: float = 1.3  # the same of the second opinion, which is with times: above it, no words
    phantom_no_speech: float = 0.5  # above it a film's ending ("thank you for watching") is not believed
    words_per_s_most: float = 7.0
    level_least_dbfs: float = -60.0  # quieter than this at its loudest is not speech


@dataclass(frozen=True, slots=True)
class _Words:
    """What the caller knows of the words: how they are spelled, and which ones are likely to begin."""

    prompt: str = ""
    expected: str = ""


@dataclass(frozen=True, slots=True)
class _Encoded:
    """An utterance's states as CTranslate2 takes them, and as the own decoder does where it is to be used."""

    view: Any
    memory: Memory | None = None


class Whisper:
    """ports.Transcriber on a folder with model.bin, config.json, tokenizer.json and vocabulary.txt."""

    def __init__(self, folder: Path, settings: WhisperSettings, worker: Worker, aside: Worker | None = None) -> None:
        """`aside`: the thread of partial transcripts, so that no draft waits for one; None: `worker`'s."""
        for name in ("model.bin", "config.json", "tokenizer.json"):
            require_file(folder / name, "whisper")
        self.settings = settings
        self._worker = worker
        self._aside = aside or worker
        self._model = _load(folder, settings)
        self._bands = int(self._model.n_mels)
        self._splicer: Splicer | None = None
        self._tail: Memory | None = None  # the decoder's, of the splicer's tail
        self._vocabulary = Vocabulary(folder / "tokenizer.json", multilingual=bool(self._model.is_multilingual))
        self._decoder = _decoder(folder, settings, self._vocabulary)
        for language in filter(None, (settings.language, *settings.languages)):
            self._vocabulary.require(language)

    async def transcribe(
        self,
        audio: Audio,
        *,
        priority: int,
        cancel: CancelToken,
        language: str | None = None,
        prompt: str = "",
        expected: str = "",
        quick: bool = False,
    ) -> Transcript:
        samples = checked(audio, "whisper")
        worker = self._aside if priority >= Priority.PARTIAL else self._worker
        return await worker.call(
            lambda: self._transcribe(samples, language, _Words(prompt, expected), cancel, quick=quick),
            priority=priority,
            cancel=cancel,
        )

    def warm(self) -> None:
        """Encode and decode once in the smallest window, so that buffers are there. Blocks the caller."""
        noise = np.random.default_rng(0).normal(0, 0.01, RATE).astype(np.float32)
        language = self.settings.language or "en"
        self._worker.submit(lambda: self._decode(noise, language, _Words(), CancelToken())).result()

    def close(self) -> None:
        """Free the model's memory. The object is of no use afterwards."""
        try:
            self._worker.submit(self._model.unload_model).result()
        except (EngineError, Cancelled):  # the worker has stopped, so nobody else holds the model
            self._model.unload_model()

    def _transcribe(
        self, audio: Audio, language: str | None, given: "_Words", cancel: CancelToken, *, quick: bool
    ) -> Transcript:
        started = time.monotonic()
        known = self.settings.language if language is None else language
        pieces: list[Transcript] = []
        for begin, end in utterance.cut(audio, most_s=self.settings.piece_s, search_s=6.0):
            _go_on(cancel)
            piece = self._piece(audio[begin:end], known, given if not begin else _Words(given.prompt), cancel, quick)
            known = known or piece.language
            pieces.append(piece)
        return replace(_joined(pieces), took_ms=(time.monotonic() - started) * 1000)

    def _piece(self, audio: Audio, language: str, given: "_Words", cancel: CancelToken, quick: bool) -> Transcript:
        """One window's worth: guard, decode, and decode wider where it loops or, unless `quick`, is unsure."""
        quiet = self._too_quiet(audio)
        if quiet:
            return Transcript("", language or "en", no_speech=1.0, reason=quiet)
        heard = self._decode(audio, language, given, cancel)
        if utterance.wants_second_look(heard, self.settings.again_logprob, quick=quick):
            _go_on(cancel)
            again = self._decode(audio, heard.language, given, cancel, again=True)
            heard = utterance.believed(heard, replace(again, language_sure=heard.language_sure))
        return replace(heard, text="") if heard.reason else heard

    def _too_quiet(self, audio: Audio) -> str:
        if len(audio) < _LEAST_SAMPLES:
            return "too short"
        loudest = float(utterance.levels(audio).max())
        return "near silence" if loudest < 10 ** (self.settings.level_least_dbfs / 20) else ""

    def _decode(
        self, audio: Audio, language: str, given: "_Words", cancel: CancelToken, *, again: bool = False
    ) -> Transcript:
        settings, seconds = self.settings, len(audio) / RATE
        window = utterance.window_s(
            seconds,
            least_s=settings.window_least_s + (settings.again_pad_s - 1.0 if again else 0.0),
            pad_s=settings.again_pad_s if again else settings.window_pad_s,
            step_s=settings.window_step_s,
            most_s=WIDE_S,
        )
        inputs = self._features(audio, int(window * RATE) // HOP)
        encoded = self._encode(inputs, seconds, whole=again)
        _go_on(cancel)
        language, sure = (language, 1.0) if language else self._detect(encoded.view)
        timed = self._vocabulary.prompt(language, given.prompt)
        bound = min(_TOKENS_MOST, settings.tokens_least + int(settings.tokens_per_s * seconds))
        beam = settings.again_beam_size if again else settings.beam_size
        quickly = [*timed, self._vocabulary.no_times]
        if self._decoder is not None and encoded.memory is not None and beam == 1:
            drawn = self._decoder.greedy(
                encoded.memory,
                quickly,
                start=quickly.index(self._vocabulary.start),
                end=self._vocabulary.end,
                most=bound - 1,
                cancel=cancel,
                expected=self._vocabulary.words(given.expected),
            )
        else:
            drawn = self._generate(encoded.view, quickly, bound, beam)
        text, logprob = self._vocabulary.text(drawn.ids, before_s=seconds - 0.1), drawn.logprob
        no_speech = drawn.no_speech
        doubtful = no_speech - logprob > settings.doubt_most
        ran_out = len(drawn.ids) >= bound - 1
        if doubtful or ran_out or utterance.once(text) or utterance.repeats(text):
            _go_on(cancel)
            looped = utterance.once(text)
            drawn = self._generate(encoded.view, timed, bound, beam)
            logprob, text = drawn.logprob, self._vocabulary.text(drawn.ids, before_s=seconds - 0.1)
            if utterance.words(text) == utterance.words(looped):
                text = utterance.bare(text)  # the comma behind it led into the loop
            ran_out = len(drawn.ids) >= bound - 1
        if ran_out and no_speech <= settings.phantom_no_speech:
            text = utterance.once(text) or text  # somebody said "no", and the decoder found no end of it
        reason = self._guard(text, seconds, no_speech, ran_out=ran_out)
        if not reason and doubtful and no_speech - logprob > settings.doubt_most_timed:
            reason = utterance.DOUBTED
        return Transcript(text, language, no_speech, logprob, len(drawn.ids), reason=reason, language_sure=sure)

    def _encode(self, inputs: Features, seconds: float, *, whole: bool) -> "_Encoded":
        """`whole`: really of the silence behind the speech too, for a second look."""
        if whole or self.settings.device != "cpu":  # a GPU encodes it in less time than states take to be copied
            return _Encoded(self._model.encode(_view(inputs[None])))
        if self._splicer is None:
            tail = self._features(hum(), int(TAIL_S * RATE) // HOP)
            self._splicer = Splicer(self._states, tail, self.settings.encode_pad_s)
        spliced = self._splicer.spliced(inputs, seconds)
        return _Encoded(_view(self._splicer.states(spliced)), self._remembered(spliced))

    def _states(self, inputs: Features) -> States:
        return np.array(self._model.encode(_view(inputs[None])))

    def _remembered(self, spliced: Spliced) -> Memory | None:
        """What the decoder makes of the states; of the tail's, once."""
        if self._decoder is None or self._splicer is None:
            return None
        if self._tail is None:
            self._tail = self._decoder.memory(self._splicer.tail)
        own = self._decoder.memory(spliced.own)
        return own.then(self._tail, spliced.tail_from, spliced.tail_to) if spliced.tail_to else own

    def _generate(self, encoded: Any, tokens: list[int], bound: int, beam: int) -> Drawn:
        (result,) = self._model.generate(
            encoded,
            [tokens],
            beam_size=beam,
            max_length=2 * max(bound, len(tokens)),  # CTranslate2 ends at half of it
            return_scores=True,
            return_no_speech_prob=True,
        )
        ids = result.sequences_ids[0]
        # The end token counts in the sum of log-probabilities, not in the ids.
        return Drawn(ids, float(result.scores[0]) * len(ids) / (len(ids) + 1), float(result.no_speech_prob))

    def _guard(self, text: str, seconds: float, no_speech: float, *, ran_out: bool) -> str:
        """Why `text` is not what a person said, or ""."""
        settings = self.settings
        said = utterance.words(text)
        if not said:
            return "no words"
        if no_speech > settings.phantom_no_speech and _PHANTOMS.fullmatch(" ".join(said)):
            return "phantom"
        if utterance.repeats(text):
            return utterance.ENDLESS if ran_out else utterance.REPEATED
        if len(said) > 3 + settings.words_per_s_most * seconds:
            return "too many words"
        return ""

    def _features(self, audio: Audio, frames: int) -> Features:
        """Log-mel of `audio` and silence up to `frames`; only what is not silence is transformed."""
        tail = np.concatenate((audio, np.zeros(HOP * 3, np.float32)))[: frames * HOP]
        power = np.full((self._bands, frames), FLOOR, np.float32)
        real = mel_power(tail, self._bands)
        power[:, : real.shape[1]] = real
        return log_mel(power)

    def _detect(self, encoded: Any) -> tuple[str, float]:
        """The most probable language, among the configured ones where there are any, and its probability."""
        if not self._vocabulary.multilingual:
            return "en", 1.0
        (ranked,) = self._model.detect_language(encoded)
        allowed = self.settings.languages
        for token, probability in ranked:
            code = str(token)[2:-2]
            if not allowed or code in allowed:
                return code, float(probability)
        raise EngineError("whisper ranked none of the configured languages")


def _load(folder: Path, settings: WhisperSettings) -> Any:
    import ctranslate2

    if settings.device == "cuda" and not ctranslate2.get_cuda_device_count():
        raise MissingError(
            "whisper is to run on CUDA, but no CUDA device was found",
            hint="run `appliance doctor`, or set the recogniser's device to cpu",
        )
    try:
        json.loads((folder / "config.json").read_text())
        return ctranslate2.models.Whisper(
            str(folder),
            device=settings.device,
            compute_type=settings.compute_type,
            intra_threads=settings.threads,
            inter_threads=2 if settings.device == "cpu" else 1,  # a draft, and a partial beside it
        )
    except (RuntimeError, ValueError, OSError) as error:
        if settings.device == "cuda":
            raise MissingError(
                "whisper could not be put on the GPU", hint="run `appliance doctor`, or set its device to cpu"
            ) from error
        raise ModelFileError(f"{folder} holds no usable whisper model", hint="run `appliance models verify`") from error


def _decoder(folder: Path, settings: WhisperSettings, vocabulary: Vocabulary) -> Decoder | None:
    """None where the model has to do without, as on a GPU, or where its weights are rounded already."""
    if settings.device != "cpu":
        return None
    try:
        return Decoder(folder, threads=settings.threads, no_speech=vocabulary.no_speech)
    except (ValueError, KeyError, OSError, ModelFileError) as error:
        _log.warning("whisper decodes with CTranslate2 alone, which is slower: %s", error)
        return None


def _view(array: NDArray[np.float32]) -> Any:
    import ctranslate2

    return ctranslate2.StorageView.from_array(array)


def _go_on(cancel: CancelToken) -> None:
    if cancel.cancelled:
        raise Cancelled


def _joined(pieces: list[Transcript]) -> Transcript:
    """One transcript of many; a reason stands only when no piece had words."""
    if len(pieces) == 1:
        return pieces[0]
    spoken = [p for p in pieces if p.text]
    tokens = sum(p.tokens for p in spoken)
    return Transcript(
        " ".join(p.text for p in spoken),
        (spoken or pieces)[0].language,
        no_speech=min(p.no_speech for p in pieces),
        logprob=sum(p.logprob * p.tokens for p in spoken) / max(tokens, 1),
        tokens=tokens,
        reason="" if spoken else pieces[0].reason,
        language_sure=(spoken or pieces)[0].language_sure,
    )
