"""Long conversations: older turns become a summary in idle time, before a session's share is full.

Owns when that happens, what is asked of the model, and how the answer takes the old turns' place. It never touches a
session that is in the middle of a turn. Where no idle time comes, `core` drops the oldest turns instead.
"""

from dataclasses import dataclass

from appliance.engines.llama.memory import SUMMARY, Memory
from appliance.engines.llama.prompts import Prompts
from appliance.engines.llama.scheduler import IDLE
from appliance.engines.llama.seat import Job, Seat, Turn, common
from appliance.engines.llama.settings import LlamaSettings
from appliance.engines.ports import Sampling

# Of several wordings tried on a 0.5B model, the one that kept names and places.
_REQUEST = "Repeat in short all I told you about me: names, places, plans."
_OPENING = "Remember what we said before: "
_REPLY = "I remember."


@dataclass(slots=True)
class _Work:
    seat: Seat
    turns: list[Turn]  # the oldest turns, which the summary replaces
    text: str = ""
    summary: Turn | None = None


class Summaries:
    """At most one summary at a time, on a sequence of its own that borrows the session's cells."""

    def __init__(self, memory: Memory, prompts: Prompts, settings: LlamaSettings) -> None:
        self._memory, self._prompts, self._settings = memory, prompts, settings
        self.seat = Seat("\0summary", SUMMARY)
        self._work: _Work | None = None
        self._tried: dict[str, Turn] = {}  # newest turn when a summary failed: not again before there is another
        self.made = 0
        self.compact_at = settings.compact_at  # part of the share from which older turns go; lower under pressure

    def consider(self, seats: list[Seat], arrival: int) -> None:
        """Begin with the fullest session that could use a summary, if none is under way."""
        if self._work is not None or not self._settings.summary_tokens:
            return
        limit = int(self.compact_at * self._memory.cells.share)
        full = [s for s in seats if s.resting and not s.draft and len(s.kv) > limit]
        for seat in sorted(full, key=lambda s: -len(s.kv)):
            turns = self._oldest(seat)
            if not turns:
                continue
            if self._tried.get(seat.name) is seat.turns[-1] or not self._pays(self._size(turns)):
                continue
            if seat.kv[: len(seat.base())] == seat.base():
                self._begin(_Work(seat, turns), arrival)
                return

    def release(self, seat: Seat, *, closing: bool = False) -> None:
        """The cells of `seat` are about to move: work that reads them stops. A finished summary waits."""
        work = self._work
        if work is not None and work.seat is seat and (closing or work.summary is None):
            self.abandon()
        if closing:
            self._tried.pop(seat.name, None)

    def abandon(self) -> bool:
        """Give up what is under way; whether there was anything."""
        had, job = self._work is not None, self.seat.job
        self.seat.job = None
        if job is not None and job.sampler is not None:
            job.sampler.close()
        if self._work is not None:
            self._memory.reset(self.seat)
            self._memory.cells.forget(self.seat.name)
            if self._work.seat.turns:
                self._tried[self._work.seat.name] = self._work.seat.turns[-1]
        self._work = None
        return had

    def apply(self) -> bool:
        """Put a finished summary in the old turns' place, unless its session is in the middle of a turn."""
        work = self._work
        if work is None or work.summary is None or self.seat.job is not None:
            return False
        seat, turns = work.seat, work.turns
        if seat.job is not None or seat.air is not None or seat.draft:
            return False
        if seat.turns[: len(turns)] != turns:
            self.abandon()
            return False
        size = self._size(turns)
        in_place = seat.seq >= 0 and common(seat.kv, seat.base()) >= size and self._memory.ctx.can_shift
        if in_place and self.seat.kv == work.summary.tokens:
            self._memory.graft(seat, size, self.seat)
        seat.turns[: len(turns)] = [work.summary]
        self.made += 1
        self.abandon()
        return True

    def _longest(self, size: int) -> int:
        """The longest summary of `size` tokens: a third of them, and never over the setting."""
        return min(self._settings.summary_tokens, size // 3)

    def _pays(self, size: int) -> bool:
        """Whether a summary, with what a turn of its own costs, is at most half of what it replaces."""
        return size >= 2 * (self._longest(size) + len(self._prompts.middle) + len(self._prompts.between) + 10)

    @staticmethod
    def _size(turns: list[Turn]) -> int:
        return sum(len(turn.tokens) for turn in turns)

    def _oldest(self, seat: Seat) -> list[Turn]:
        goal = int(self._settings.compact_to * self._memory.cells.share)
        total, count = len(seat.base()), 0
        while count < len(seat.turns) - 1 and total > goal:
            total -= len(seat.turns[count].tokens)
            count += 1
        return seat.turns[:count]

    def _begin(self, work: _Work, arrival: int) -> None:
        old = [token for turn in work.turns for token in turn.tokens]
        self._memory.reset(self.seat)
        if self._memory.exact:
            self._memory.borrow(self.seat, work.seat, len(old))
        want = old + self._prompts.word_tokens(_REQUEST)[0] + self._prompts.middle
        job = Job(want, IDLE, arrival)
        job.sampling = Sampling(max_tokens=self._longest(len(old)), temperature=0.2, repeat_penalty=1.1)
        job.sink = self._add
        job.done = self._written
        self._work, self.seat.job = work, job

    def _add(self, text: str) -> None:
        if self._work is not None:
            self._work.text += text

    def _written(self) -> None:
        """The summary's words are there: read them as a turn of their own, ready to be put in place."""
        work = self._work
        if work is None:
            return
        text = " ".join(work.text.split())
        self._memory.reset(self.seat)
        if not text:
            self.abandon()
            return
        work.summary = self._prompts.turn(Seat(""), _OPENING + text, _REPLY)
        self.seat.job = Job(work.summary.tokens, IDLE, 0)
