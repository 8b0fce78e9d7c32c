"""Who gets a place and cells: turns start with their worst case reserved, idle sessions make room.

Owns the order in which room is found: old turns of the session itself, then idle sessions, then idle work. It never
takes cells from a turn that is running. It knows the ledger through `Memory` and evaluates nothing.
"""

from collections.abc import Callable

from appliance.engines.llama.history import Summaries
from appliance.engines.llama.memory import Memory
from appliance.engines.llama.prompts import Prompts
from appliance.engines.llama.scheduler import IDLE
from appliance.engines.llama.seat import Job, Seat, TurnFailed, common, finish_waiters
from appliance.errors import NoRoomError


class Admission:
    """`give_up` is called with a seat whose idle work found no room: it can be done when it is needed."""

    def __init__(
        self,
        memory: Memory,
        prompts: Prompts,
        summaries: Summaries,
        seats: dict[str, Seat],
        give_up: Callable[[Seat], None],
    ) -> None:
        self._memory, self._prompts, self._summaries = memory, prompts, summaries
        self._seats, self._give_up = seats, give_up

    def admit(self, seat: Seat, job: Job) -> bool:
        """Give the job a sequence and its worst case in cells. False: not now. Raises TurnFailed: never."""
        cells, patient = self._memory.cells, job.urgency == IDLE
        longest = job.sampling.max_tokens - len(job.recalled) + len(self._prompts.between) if job.sampling else 0
        if len(job.want) - seat.borrowed + longest > cells.share and not patient:
            self._refit(seat, job, longest)
        need = len(job.want) - seat.borrowed + longest
        if need > cells.share:
            if patient:
                self._give_up(seat)
                return False
            raise TurnFailed(
                NoRoomError(
                    f"a prompt of {len(job.want)} and an answer of {longest} tokens exceed the share of {cells.share}",
                    "shorten the answer (max_tokens) or give sessions a larger share",
                )
            )
        if seat.seq < 0 and (patient or not self.place(seat)):
            return False
        keep = common(seat.kv, job.want)
        self._memory.trim(seat, min(keep, len(job.want) - 1) if job.sampling else keep)
        while not cells.reserve(seat.name, need):
            if patient:
                self._give_up(seat)
                return False
            if not self.evict(seat) and not self._summaries.abandon():
                if not any(other.job and other.job.admitted for other in self._seats.values()):
                    raise TurnFailed(NoRoomError("no cells are left for this turn", "let fewer people speak at a time"))
                return False
        job.admitted = True
        if job.probe and len(seat.kv) >= job.probe:
            value = seat.opinion[1] if seat.opinion and seat.opinion[0] == job.probe else None
            if job.generation is not None:
                job.generation.turn_end = value
            finish_waiters(job, value)
        return True

    def _refit(self, seat: Seat, job: Job, longest: int) -> None:
        """Drop oldest turns until the job fits; its places move with them."""
        dropped = self.shrink(seat, len(job.want) - len(seat.base()) + longest)
        job.want = job.want[dropped:]
        job.probe = max(0, job.probe - dropped)
        job.words_end -= dropped
        job.answer_at -= dropped
        job.note_end -= dropped

    def shrink(self, seat: Seat, more: int) -> int:
        """Drop the oldest whole turns until `more` tokens fit behind the rest; returns the tokens dropped."""
        share, total = self._memory.cells.share, len(seat.base())
        if total + more <= share:
            return 0
        # A little more than needed goes, so that not every turn has to drop one.
        goal = share - more - share // 8
        count = size = 0
        while count < len(seat.turns) and total - size > goal:
            size += len(seat.turns[count].tokens)
            count += 1
        self._summaries.release(seat)
        if common(seat.kv, seat.base()) >= size:
            self._memory.cut(seat, 0, size)
        del seat.turns[:count]
        return size

    def place(self, seat: Seat) -> bool:
        """Give `seat` a sequence, if need be an idle session's. False when all are in the middle of a turn."""
        return self._memory.place(seat) or (self.evict(seat) and self._memory.place(seat))

    def evict(self, needy: Seat) -> bool:
        """Park the longest idle session; one whose answer is being spoken only when there is no other."""
        idle = [s for s in self._seats.values() if s is not needy and s.seq >= 0 and not s.busy]
        if not idle:
            return False
        self.park(min(idle, key=lambda s: (s.air is not None, s.idle_since)))
        return True

    def park(self, seat: Seat) -> None:
        """Take an idle session out of the cells."""
        self._summaries.release(seat)
        seat.job = None
        self._memory.unplace(seat, keep=True)
