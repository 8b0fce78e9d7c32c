"""One session as the engine's thread sees it: settled turns, tokens in the KV, and the work it wants.

Plain state and pure list arithmetic; it calls nothing native. Token lists are private: positions after the shared
head. A settled turn's tokens are words + middle + reply + between, so turns can be dropped whole.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from appliance.engines.llama.sampling import Sampler
from appliance.engines.llama.scheduler import IDLE, Lane
from appliance.engines.llama.stream import LlamaGeneration, TextOut
from appliance.engines.ports import Sampling
from appliance.errors import ApplianceError

Answered = Callable[[float | None], None]


@dataclass(slots=True)
class Turn:
    words: str
    reply: str
    tokens: list[int]


@dataclass(slots=True)
class Job:
    """What a seat wants now: `want` in the KV; then, with a generation, an answer.

    `probe` is the number of tokens of `want` up to the person's last word, 0 where nobody asks for the end of turn.
    `next` is the token drawn last, not yet evaluated.
    """

    want: list[int]
    urgency: int
    arrival: int
    probe: int = 0
    words: str = ""  # as in `want`, without the note
    words_end: int = 0  # tokens of `want` up to the end of the words
    note_end: int = 0
    waiters: list[Answered] = field(default_factory=list)
    generation: LlamaGeneration | None = None
    sampling: Sampling | None = None
    sampler: Sampler | None = None
    out: TextOut | None = None
    sink: Callable[[str], None] | None = None  # takes the text of an answer that nobody streams
    done: Callable[[], None] | None = None  # called when an idle job came to its natural end
    answer_at: int = 0  # tokens of `want` up to where the answer begins; behind them those of an earlier try
    recalled: list[int] = field(default_factory=list)  # the end of `want`, not yet said anew
    drawn: list[int] = field(default_factory=list)
    pieces: int = 0
    next: int = -1
    writing: bool = False
    admitted: bool = False
    halted: bool = False  # until the piece behind the last one is wanted
    stalled_at: float | None = None
    evaluated: int = 0

    def unread(self, most: int) -> bool:
        """Whether the client must first read, or ask for what follows the piece that halted the answer."""
        client = self.generation
        if client is None:
            return False
        return self.pieces - client.read >= most or (self.halted and client.wanted <= self.pieces)


@dataclass(slots=True)
class Seat:
    name: str
    seq: int = -1  # -1: parked or not yet placed
    kv: list[int] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    open_words: str = ""  # settled words that nobody answered; the next words continue them
    job: Job | None = None
    air: Job | None = None  # the last answer given, until settled
    tried: Job | None = None  # the last answer of which something was drawn, until settled
    opinion: tuple[int, float] | None = None  # (tokens in the KV up to the last word, end-of-turn mass)
    draft: str = ""  # wording that lies in the KV for the turn in the air
    idle_since: float = 0.0
    skipped: int = 0
    borrowed: int = 0  # leading private tokens whose cells belong to another seat

    def base(self) -> list[int]:
        """Tokens of all settled turns."""
        return [token for turn in self.turns for token in turn.tokens]

    @property
    def busy(self) -> bool:
        return self.job is not None and (self.job.urgency != IDLE or self.job.sampling is not None)

    @property
    def resting(self) -> bool:
        """In the cells, with nothing to do and no turn in the air."""
        return self.job is None and self.air is None and self.seq >= 0

    def lane(self, key: int, first_clause: int) -> Lane | None:
        job = self.job
        if job is None:
            return None
        if job.writing:
            return Lane(key, 0, job.urgency, job.arrival, 1, len(job.drawn) <= first_clause, self.skipped)
        missing = len(job.want) - len(self.kv)
        rows = 2 if job.probe > len(self.kv) else 1
        return Lane(key, missing, job.urgency, job.arrival, rows) if missing > 0 else None


def common(a: list[int], b: list[int]) -> int:
    """Length of the common prefix."""
    n = min(len(a), len(b))
    if a[:n] == b[:n]:
        return n
    low, high = 0, n
    while low < high:
        middle = (low + high + 1) // 2
        if a[:middle] == b[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def finish_waiters(job: Job, value: float | None) -> None:
    waiters, job.waiters = job.waiters, []
    for answer in waiters:
        answer(value)


class TurnFailed(Exception):
    """Ends one answer with an error; the engine goes on."""

    def __init__(self, error: ApplianceError) -> None:
        super().__init__(error.message)
        self.error = error
