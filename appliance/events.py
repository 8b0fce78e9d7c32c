"""What happened, as frozen facts. The bus carries them; screen, metrics and store read them.

Every event names its session and, where there is one, its turn (1, 2, … within the session). `at` is an
instant on the appliance's monotonic clock, in seconds. Fields that hold a person's words are only those
named `text`, `heard`, `reply` and `spoken`; nothing else may carry words, so that logs can leave them out.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

PARTS = ("endpoint", "asr", "llm", "tts", "output")


@dataclass(frozen=True, slots=True)
class LatencyParts:
    """One turn's critical path in ms. The five parts add up to `voice_to_voice` exactly.

    endpoint: last speech sample to the turn being over by the policy (it is closed when it can be answered);
    asr: to the final transcript;
    llm: to the first clause; tts: to its first audio chunk; output: to the first audible sample.
    """

    endpoint: float
    asr: float
    llm: float
    tts: float
    output: float

    @property
    def voice_to_voice(self) -> float:
        return self.endpoint + self.asr + self.llm + self.tts + self.output

    def as_dict(self) -> dict[str, float]:
        """The five parts and `voice_to_voice`, rounded to 0.1 ms such that they still add up."""
        parts = {name: round(getattr(self, name), 1) for name in PARTS}
        return {**parts, "voice_to_voice": round(sum(parts.values()), 1)}


@dataclass(frozen=True, slots=True)
class Speculation:
    """The ledger of one turn: work begun before the turn was over."""

    tries: int = 0
    held: bool = False  # the work begun early was the work that was played
    wasted_tokens: int = 0
    spoken_tokens: int = 0
    saved_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """One finished turn, as the store keeps it and `converse --json` prints it."""

    session: str
    turn: int
    started: str  # wall clock, ISO 8601 with offset
    heard: str
    reply: str
    spoken: str  # what really left the speaker, cut at a word
    interrupted: bool
    ms: LatencyParts | None  # None where time was not measured (--fast) or nothing was said
    language: str = "en"
    end_reason: str = ""  # why the turn was declared over: score, silence, cap, end-of-input
    tokens: int = 0
    ttft_ms: float | None = None  # transcript handed to the LLM -> first token
    tokens_per_s: float | None = None
    starvation_ms: float = 0.0  # player dry after its first sample, no jitter buffer counted
    barge_in_ms: float | None = None  # interrupting speech -> silence at the sink
    queue_wait_ms: float = 0.0
    speculation: Speculation = field(default_factory=Speculation)
    skill: str = ""  # the skill that answered without the LLM, if one did
    station: str = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base of all events. `coalesce` marks kinds of which only the newest per session matters."""

    coalesce: ClassVar[bool] = False
    at: float
    session: str = ""
    turn: int = 0


class State(StrEnum):
    """What a session is doing."""

    WAITING = "waiting"  # for a device, a wake word or admission
    LISTENING = "listening"
    HEARING = "hearing"  # speech is coming in
    PAUSE = "pause"
    THINKING = "thinking"
    SPEAKING = "speaking"
    INTERRUPTED = "interrupted"
    MUTED = "muted"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpened(Event):
    station: str = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionClosed(Event):
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChanged(Event):
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Level(Event):
    """Once per 32 ms block at most: input level and speech probability. Newest wins."""

    coalesce: ClassVar[bool] = True
    input_dbfs: float
    speech: float
    output_dbfs: float = -120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechStarted(Event):
    """`at` is the instant of the first speech sample, not of its detection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechPaused(Event):
    """`at` is the instant of the last speech sample before the pause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechResumed(Event):
    """Speech went on before the turn was over; work begun at the pause is thrown away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointLooked(Event):
    """One look at whether the person is done. Scores are probabilities 0..1, None when not available."""

    silence_ms: float
    audio_score: float | None
    text_score: float | None
    llm_score: float | None
    done_probability: float
    wait_ms: float  # the silence after which the policy would end the turn, as of this look


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcribed(Event):
    """A partial, draft or final transcript."""

    kind: str  # "partial", "draft", "final"
    text: str
    language: str
    audio_ms: float
    took_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded(Event):
    """The turn was declared over at `at`."""

    last_speech_at: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDropped(Event):
    """What was heard held no words, or was not meant for the appliance; nothing will be answered."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstToken(Event):
    ttft_ms: float
    prompt_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClauseReady(Event):
    index: int
    text: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClauseSynthesized(Event):
    index: int
    audio_ms: float
    took_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybackStarted(Event):
    """`at` is the instant of the first audible sample at the sink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard(Event):
    """Playback progress: how much of the answer has been heard. Newest wins."""

    coalesce: ClassVar[bool] = True
    spoken: str
    played_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BargeIn(Event):
    """Speech during an answer. `action`: duck, resume (backchannel or noise), interrupt."""

    action: str
    to_silence_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFinished(Event):
    record: TurnRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionDecided(Event):
    decision: str  # admitted, queued, refused
    reason: str = ""
    position: int = 0
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderMoved(Event):
    level: int
    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceChanged(Event):
    station: str
    role: str  # input, output
    name: str
    status: str  # open, lost, waiting, silent, clipping, half-duplex, full-duplex
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(Event):
    """Something an installer should know. Never a person's words."""

    level: str  # info, warning, error
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmStats(Event):
    """A snapshot of the llama engine, a few times a second. Cells are KV cells (one token each).

    `held`: each session that holds any with its private cells, those promised to its running turn among them.
    """

    coalesce: ClassVar[bool] = True
    live: int
    waiting: int
    cells_total: int
    cells_prefix: int
    cells_used: int
    cells_reserved: int
    cells_parked: int
    step_ms: float
    tokens_per_s: float
    held: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacitySnapshot(Event):
    """The limiter's view. `sum_lines` is the printed arithmetic behind `cap`."""

    coalesce: ClassVar[bool] = True
    cap: int
    limited_by: str
    sessions: int
    queued: int
    refused: int
    ladder_level: int
    ladder_name: str
    loop_lag_ms: float
    sum_lines: tuple[str, ...] = ()
