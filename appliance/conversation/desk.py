"""What one session works with, gathered once, and how far it may go right now."""

from collections.abc import Callable
from dataclasses import dataclass, field

from appliance.audio.player import Player
from appliance.clock import Clock
from appliance.engines.ports import (
    ChatSession,
    EndOfTurn,
    LanguageModel,
    Sampling,
    Synthesizer,
    Transcriber,
    Vad,
)
from appliance.skills.skills import Skills
from appliance.speech.chunker import ChunkSettings
from appliance.telemetry.bus import Bus
from appliance.turns.bargein import BargeInSettings
from appliance.turns.endpoint import EndpointSettings
from appliance.turns.gate import GateSettings
from appliance.turns.guards import GuardSettings
from appliance.turns.patience import PatienceSettings


@dataclass(frozen=True, slots=True)
class SpeculationSettings:
    """Work begun before the turn is over. All of it is thrown away when speech resumes."""

    enabled: bool = True
    tries: int = 4  # pauses of one turn at which the LLM may start
    tokens_ahead: int = 24  # generated before the turn is over, at most
    min_done: float = 0.3  # the done-probability below which the prompt is evaluated but nothing is generated


@dataclass(frozen=True, slots=True)
class TalkSettings:
    """How one conversation listens and answers."""

    gate: GateSettings = field(default_factory=GateSettings)
    endpoint: EndpointSettings = field(default_factory=EndpointSettings)
    barge_in: BargeInSettings = field(default_factory=BargeInSettings)
    guards: GuardSettings = field(default_factory=GuardSettings)
    patience: PatienceSettings = field(default_factory=PatienceSettings)
    clauses: ChunkSettings = field(default_factory=ChunkSettings)
    answer: Sampling = field(default_factory=Sampling)
    speculation: SpeculationSettings = field(default_factory=SpeculationSettings)
    partial_every_s: float = 0.8  # of speech without a pause; 0: none
    sorry: str = "Sorry, something went wrong. Please ask again."


@dataclass(frozen=True, slots=True)
class Conduct:
    """What the degrade ladder allows at this moment; the first step is everything."""

    speculate: bool = True  # the LLM may start before the turn is over
    drafts: bool = True  # transcripts may be drafted in pauses
    partials: bool = True  # and while speech goes on
    max_tokens: int = 1_000_000
    small_asr: bool = False
    fallback_llm: bool = False


@dataclass(frozen=True, slots=True)
class Engines:
    vad: Vad
    end_of_turn: EndOfTurn
    transcriber: Transcriber
    llm: LanguageModel
    synthesizer: Synthesizer


@dataclass(frozen=True, slots=True)
class Desk:
    """Everything a turn of this session touches. Made by the conversation, read by its attempts."""

    session: str
    engines: Engines
    chat: ChatSession
    player: Player
    bus: Bus
    clock: Clock
    settings: TalkSettings
    conduct: Callable[[], Conduct]
    keep_language: bool = False  # none is configured: detected once, then kept for the session
    measured: bool = True  # latency means something: the input is paced in real time
    skills: Skills | None = None
    turn_began: Callable[[str], None] = lambda _: None  # with the session's name, for the limiter's books
    turn_ended: Callable[[str], None] = lambda _: None
    alone: Callable[[], bool] = lambda: True  # nobody is being answered: there is time for what nobody waits for
