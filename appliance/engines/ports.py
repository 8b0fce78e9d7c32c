"""The seams between the conversation and the engines: small Protocols, no vendor in sight.

All audio is mono float32 in -1..1; what comes from a microphone or file is at 16,000 Hz, what a
synthesizer returns is at its own `sample_rate`. Coroutines may be called from the event loop only; the
native work behind them runs on the engine's own thread (see `appliance.engines.worker`).
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Audio = NDArray[np.float32]
RATE = 16_000  # samples a second of everything heard
BLOCK = 512  # samples in one VAD block: 32 ms


class CancelToken:
    """A flag that workers poll between native calls. Once set it stays set. Safe from any thread."""

    __slots__ = ("_set",)

    def __init__(self) -> None:
        self._set = False

    def cancel(self) -> None:
        self._set = True

    @property
    def cancelled(self) -> bool:
        return self._set


class Priority:
    """Order of work inside one worker; lower runs first. What the ear waits for goes first."""

    FINAL = 0  # a final transcript, a first clause
    DRAFT = 10
    LATER = 20  # later clauses; ties are broken by deadline
    PARTIAL = 30
    IDLE = 40


class Vad(Protocol):
    """Speech probability. State is kept a session."""

    async def probability(self, session: str, block: Audio) -> float:
        """Probability 0..1 that `block` (512 samples, 16 kHz, following the session's last one) is speech."""
        ...

    def forget(self, session: str) -> None:
        """Drop the session's state. Unknown sessions are ignored."""
        ...


class EndOfTurn(Protocol):
    """The acoustic opinion on whether a person is done."""

    async def score(self, audio: Audio, cancel: CancelToken) -> float:
        """Probability 0..1 that the turn in `audio` (16 kHz, ends in the pause; the last 8 s count) is complete."""
        ...


@dataclass(frozen=True, slots=True)
class Word:
    """One word and where it lies, in seconds from the start of the audio."""

    text: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Transcript:
    """What was said. `text` is empty when a guard found no words; `reason` then says which guard."""

    text: str
    language: str
    no_speech: float = 0.0  # probability 0..1
    logprob: float = 0.0  # mean log-probability a token
    tokens: int = 0
    took_ms: float = 0.0
    reason: str = ""
    language_sure: float = 1.0  # probability of `language`; 1 where it was given


class Transcriber(Protocol):
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
        """Transcribe one utterance (16 kHz, any length; longer than one window is cut at quiet places).

        `language` None means: as configured (fixed, limited to a list, or detected). `prompt` biases spelling.
        `expected`: words of an earlier transcript of the beginning of `audio`; right or wrong, they can only save time.
        `quick`: the first opinion will do, however unsure; half a word would be pondered longest.
        Raises Cancelled when `cancel` was set first.
        """
        ...


@dataclass(frozen=True, slots=True)
class Message:
    role: str  # "user" or "assistant"; the system prompt belongs to the engine
    text: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """How one answer is drawn."""

    max_tokens: int = 160
    temperature: float = 0.0
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.1
    seed: int = 0
    stop: tuple[str, ...] = ()
    json_schema: str | None = None
    grammar: str | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """Some text and how many tokens it took. Text may be empty while a multi-byte character is incomplete."""

    text: str
    tokens: int
    at: float  # monotonic seconds


class Generation(Protocol):
    """One answer being written. Iterate once; the iterator ends after the last piece or a cancel."""

    prompt_tokens: int  # newly evaluated for this answer; set before the first piece
    recalled: int  # of the answer's tokens, those an earlier try at the same words had drawn; likewise
    finish: str  # "", then "stop", "length" or "cancelled"
    turn_end: float | None  # the model's own probability mass that the user's words are complete

    def __aiter__(self) -> AsyncIterator[Piece]: ...

    def cancel(self) -> None:
        """Stop at the next step boundary. Idempotent, never blocks."""
        ...


# Asked with the text of each piece, on the engine's own thread, so it must be quick: True pauses the answer until its
# next piece is wanted.
Halt = Callable[[str], bool]


class ChatSession(Protocol):
    """One conversation's place in the language model: settled turns, and at most one turn in the air.

    The engine keeps the tokens of settled turns in the KV cache and evaluates only what is new. Until
    `settle`, `generate` and `anticipate` may be called again with other words: the KV is trimmed to the common
    prefix and nothing of the earlier words remains. With the same words an answer goes on where it was dropped.
    """

    async def anticipate(self, words: str) -> float | None:
        """Evaluate `words` as the beginning of the person's turn, at low priority, generating nothing.

        Returns the model's probability mass (0..1) that the turn is complete after these words, or None
        where it was not computed (no room, superseded).
        """
        ...

    def generate(self, words: str, sampling: Sampling, *, note: str = "", halt: Halt | None = None) -> Generation:
        """Answer `words`. Cancels a generation of this session that is still running.

        `note` is put behind the words for this answer only (changing facts such as the time; never stored).
        `halt` frees the processor for what has to be done with a piece: see `Halt`.
        """
        ...

    async def settle(self, heard: str | None, reply: str | None = None) -> None:
        """End the turn in the air. `heard` (the words as answered) and `reply` (as really spoken) join the
        history and the KV is cut to the last token of `reply`; `reply` None or "" means nothing was said.
        `heard` None rolls the whole turn back.
        """
        ...

    async def close(self) -> None:
        """Free everything. Idempotent."""
        ...


class LanguageModel(Protocol):
    async def open(self, session: str, history: Sequence[Message] = ()) -> ChatSession:
        """A place for `session`. Raises NoRoomError when no share of cells is left."""
        ...


@dataclass(frozen=True, slots=True)
class Spoken:
    """A piece of synthesised audio of one clause."""

    audio: Audio
    sample_rate: int
    text: str  # the whole clause on its first piece, "" on later ones
    words: tuple[Word, ...] = field(default=())  # timing within the clause where the engine can, else empty
    last: bool = True  # no more pieces of this clause follow
    estimated: bool = False  # `words` were placed in proportion to their letters, not by the model


class Synthesizer(Protocol):
    sample_rate: int

    def synthesize(self, text: str, *, priority: int, deadline: float, cancel: CancelToken) -> AsyncIterator[Spoken]:
        """Speak one clause. `deadline`: the instant the player would run dry; earlier goes first among equals.

        Empty or unpronounceable text yields nothing. Raises Cancelled when `cancel` was set first.
        """
        ...
