"""What happens on the engine's thread: commands of the sessions, admission of turns to cells, and the step.

Owns the seats and their jobs. It knows no event loop: answers go into `outbox`, and whoever drives `step` delivers
them. All methods run on one thread.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from appliance.engines.llama.admission import Admission
from appliance.engines.llama.binding import Floats, Model
from appliance.engines.llama.gguf import read_geometry
from appliance.engines.llama.history import Summaries
from appliance.engines.llama.memory import Memory
from appliance.engines.llama.meter import Meter
from appliance.engines.llama.prompts import Prompts, pairs
from appliance.engines.llama.sampling import probabilities
from appliance.engines.llama.scheduler import DRAFT, IDLE, URGENT, Limits, plan
from appliance.engines.llama.seat import Answered, Job, Seat, TurnFailed, common, finish_waiters
from appliance.engines.llama.settings import LlamaSettings
from appliance.engines.llama.stream import LlamaGeneration
from appliance.engines.llama.writer import Writer
from appliance.engines.ports import Message, Piece, Sampling
from appliance.errors import ApplianceError, EngineError, NoRoomError
from appliance.events import LlmStats

Delivery = tuple[LlamaGeneration, Piece | None, str, ApplianceError | None]


class Core:
    """The one context and all who share it. `say` takes sentences an installer should read."""

    def __init__(self, path: Path, settings: LlamaSettings, say: Callable[[str], None] = lambda _: None) -> None:
        self.settings = settings
        self.geometry = read_geometry(path)  # refuses files that are no language model before anything native runs
        self.model = Model(path, settings.gpu_layers)
        self.prompts = Prompts(self.model, settings)
        self.memory = Memory(self.model, settings, self.prompts.head, say)
        self.summaries = Summaries(self.memory, self.prompts, settings)
        self.meter = Meter()
        self.outbox: list[Delivery] = []
        self.writer = Writer(self.model, self.prompts.stops, lambda g, piece: self.outbox.append((g, piece, "", None)))
        self.seats: dict[str, Seat] = {}
        self.admission = Admission(self.memory, self.prompts, self.summaries, self.seats, self._give_up)
        self._arrivals = 0

    # -- commands ------------------------------------------------------------------------------------------

    def open(self, name: str, history: Sequence[Message]) -> None:
        if name in self.seats:
            raise EngineError(f"session {name} is open already", "close it first")
        if len(self.seats) >= self.settings.max_open:
            raise NoRoomError(f"all {self.settings.max_open} places for sessions are taken", "try again later")
        seat = Seat(name, idle_since=time.monotonic())
        if not self.admission.place(seat):
            raise NoRoomError("every session is in the middle of a turn", "try again when one has ended")
        self.seats[name] = seat
        for words, reply in pairs(history):
            if reply:
                seat.turns.append(self.prompts.turn(seat, words, reply))
                seat.open_words = ""
            else:
                seat.open_words = words
        self._warm(seat)

    def anticipate(self, name: str, words: str, answer: Answered) -> None:
        seat = self._seat(name)
        if seat.job is not None and seat.job.generation is not None:
            answer(None)
            return
        job = self._job(seat, words, "", DRAFT, answering=False)
        job.waiters.append(answer)
        self._begin(seat, job)

    def generate(self, name: str, words: str, sampling: Sampling, note: str, generation: LlamaGeneration) -> None:
        seat = self._seat(name)
        job = self._job(seat, words, note, URGENT, answering=True)
        job.generation = generation
        running = seat.job if seat.job is not None and seat.job.drawn else None
        self.writer.begin(job, sampling, running or seat.tried)
        self._begin(seat, job)

    def settle(self, name: str, heard: str | None, reply: str | None) -> None:
        seat = self._seat(name)
        self._end(seat, "cancelled")
        air, seat.air, seat.tried, seat.draft = seat.air, None, None, ""
        if heard is not None and heard.strip():
            if reply and reply.strip():
                seat.turns.append(self.prompts.turn(seat, heard, reply, air))
                seat.open_words = ""
                if air is not None and air.note_end > air.words_end:
                    self.memory.cut(seat, air.words_end, air.note_end)
            else:
                seat.open_words = f"{seat.open_words} {heard.strip()}".strip()
        self._warm(seat)

    def close_session(self, name: str) -> None:
        seat = self.seats.pop(name, None)
        if seat is not None:
            self.summaries.release(seat, closing=True)
            self._end(seat, "cancelled")
            self.memory.forget(seat)

    # -- jobs ----------------------------------------------------------------------------------------------

    def _seat(self, name: str) -> Seat:
        seat = self.seats.get(name)
        if seat is None:
            raise EngineError(f"session {name} is not open", "open it first")
        return seat

    def _arrival(self) -> int:
        self._arrivals += 1
        return self._arrivals

    def _job(self, seat: Seat, words: str, note: str, urgency: int, *, answering: bool) -> Job:
        p = self.prompts.compose(seat, words, note, answering=answering)
        job = Job(p.tokens, urgency, self._arrival(), p.probe)
        job.words, job.words_end, job.note_end = p.words, p.words_end, p.note_end
        return job

    def _begin(self, seat: Seat, job: Job) -> None:
        old = seat.job
        if old is not None:
            if old.waiters and old.want[: old.probe] == job.want[: job.probe]:
                job.waiters += old.waiters
                old.waiters = []
            self._end(seat, "cancelled")
        seat.air, seat.draft, seat.job = None, job.words, job

    def _warm(self, seat: Seat) -> None:
        """Let idle time bring the KV to the settled turns, so that the next words are all that is new."""
        self.summaries.apply()
        self.admission.shrink(seat, 0)
        want = seat.base() + self.prompts.word_tokens(seat.open_words)[0]
        self.memory.trim(seat, common(seat.kv, want))
        seat.job = Job(want, IDLE, self._arrival()) if len(want) > len(seat.kv) else None
        seat.idle_since = time.monotonic()

    def _give_up(self, seat: Seat) -> None:
        if seat is self.summaries.seat:
            self.summaries.abandon()
        else:
            self._end(seat, "")

    def _end(self, seat: Seat, finish: str, error: ApplianceError | None = None) -> None:
        """The seat's job is over, whatever it was."""
        job, seat.job = seat.job, None
        if job is None:
            return
        finish_waiters(job, None)
        if job.sampler is not None:
            job.sampler.close()
        if job.generation is not None:
            self.outbox.append((job.generation, None, finish, error))
            seat.air = job
            seat.tried = job if job.drawn else seat.tried
        job.writing = False
        self.memory.cells.release(seat.name)
        seat.idle_since = time.monotonic()
        if job.done is not None and finish in ("stop", "length"):
            job.done()

    # -- the step ------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Evaluate one batch. False when nothing could be done."""
        started, cpu = time.perf_counter(), time.thread_time()
        self._reap()
        work = self._work()
        lanes = [lane for key, seat in enumerate(work) if (lane := seat.lane(key, self.settings.first_clause_tokens))]
        shares = plan(lanes, self._limits())
        if not shares:
            return self._idle()
        for seat in work:
            seat.skipped += 1
        tokens = self._evaluate([(work[share.key], share.tokens) for share in shares])
        self.meter.step(time.perf_counter() - started, time.thread_time() - cpu, tokens)
        return True

    def _work(self) -> list[Seat]:
        """The seats with a job that may run now."""
        ready = []
        for seat in (*self.seats.values(), self.summaries.seat):
            job = seat.job
            if job is None or job.stalled_at is not None:
                continue
            if not job.admitted:
                try:
                    if not self.admission.admit(seat, job):
                        continue
                except TurnFailed as failed:
                    self._end(seat, "cancelled", failed.error)
                    continue
                if job.recalled:
                    self._recall(seat, job)
                    if seat.job is None or job.stalled_at is not None:
                        continue
            if not job.writing and len(job.want) <= len(seat.kv):
                self._end(seat, "")
                continue
            ready.append(seat)
        return ready

    def _idle(self) -> bool:
        """Nothing to evaluate: put summaries in place, think of new ones, park who has been idle for long."""
        if self.summaries.apply():
            for seat in self.seats.values():
                if seat.resting and not seat.draft:
                    self._warm(seat)
            return True
        self.summaries.consider(list(self.seats.values()), self._arrival())
        if self.settings.park_after_s > 0:
            limit = time.monotonic() - self.settings.park_after_s
            for seat in self.seats.values():
                if seat.resting and seat.idle_since < limit:
                    self.admission.park(seat)
        return self.summaries.seat.job is not None

    def next_wake_s(self) -> float | None:
        """Seconds until something is due although nobody calls; None when nothing is."""
        now, s = time.monotonic(), self.settings
        due = [seat.job.stalled_at + s.stall_s for seat in self.seats.values() if seat.job and seat.job.stalled_at]
        if s.park_after_s > 0:
            due += [t.idle_since + s.park_after_s for t in self.seats.values() if t.resting]
        return max(0.01, min(due) - now) if due else None

    def _limits(self) -> Limits:
        s, batch = self.settings, self.memory.ctx.batch
        quick = max(16, int(self.memory.speeds.prompt_tokens_per_s * s.step_target_ms / 1000))
        return Limits(
            batch=batch.room,
            rows=batch.outputs_max,
            quiet=min(s.prompt_quiet_tokens, 2 * quick),
            busy=min(s.prompt_busy_tokens, quick),
            background=min(s.prompt_busy_tokens, quick),
            later_every=s.later_every,
        )

    def _evaluate(self, work: list[tuple[Seat, int]]) -> int:
        """Build the batch, decode it, take in the results. Returns the tokens evaluated."""
        batch, head = self.memory.ctx.batch, len(self.prompts.head)
        batch.clear()
        rows: list[tuple[Seat, int, int]] = []  # seat, row of the probe, row to draw from (-1: none)
        for seat, count in work:
            job, held = seat.job, len(seat.kv)
            assert job is not None
            tokens = [job.next] if job.writing else job.want[held : held + count]
            first, end = batch.add(seat.seq, head + held, tokens), held + len(tokens)
            probe = draw = -1
            if not job.writing and held < job.probe <= end:
                probe = batch.want(first + job.probe - held - 1)
            if job.sampling is not None and (job.writing or end == len(job.want)):
                draw = probe if probe >= 0 and job.probe == end else batch.want(batch.size - 1)
            rows.append((seat, probe, draw))
        started, cpu = time.perf_counter(), time.thread_time()
        code = self.memory.ctx.decode()
        logits = self.memory.ctx.logits() if code == 0 and batch.outputs else None
        took = time.perf_counter() - started
        self.meter.native(took, time.thread_time() - cpu)
        self.memory.speeds.learn(batch.size, took)
        if code != 0:
            self._failed(code, [seat for seat, _ in work])
            return 0
        for seat, count in work:
            job, held = seat.job, len(seat.kv)
            assert job is not None
            if job.writing:
                seat.kv.append(job.next)
            else:
                seat.kv.extend(job.want[held : held + count])
                job.evaluated += count
            seat.skipped = 0
            self.memory.use(seat)
        self._take_in(rows, logits)
        return batch.size

    def _take_in(self, rows: list[tuple[Seat, int, int]], logits: Floats | None) -> None:
        now = time.monotonic()
        for seat, probe, draw in rows:
            job = seat.job
            if job is None:
                continue
            if probe >= 0 and logits is not None:
                value = probabilities(logits[probe], self.prompts.turn_ends)
                seat.opinion = (job.probe, value)
                if job.generation is not None:
                    job.generation.turn_end = value
                finish_waiters(job, value)
            if draw >= 0 and logits is not None:
                try:
                    self._draw(seat, job, logits[draw], now)
                except ApplianceError as error:
                    self._end(seat, "cancelled", error)
            elif not job.writing and len(seat.kv) >= len(job.want):
                self._end(seat, "")

    def _draw(self, seat: Seat, job: Job, row: Floats, now: float) -> None:
        """One token of an answer."""
        if not job.writing:
            job.writing = True
            if job.generation is not None and not job.drawn:
                job.generation.prompt_tokens = job.evaluated
        if finish := self.writer.draw(job, row, now):
            self._end(seat, finish)

    def _recall(self, seat: Seat, job: Job) -> None:
        """What an earlier try at this prompt has drawn is said first; evaluating it again is quick or not needed."""
        now = time.monotonic()
        finish = self.writer.recall(job, now)
        self.memory.trim(seat, len(job.want) - 1)
        if finish:
            self._end(seat, finish)
        else:
            self._pause(job, now)

    def _reap(self) -> None:
        """Cancelled answers end here, at the step boundary; unread ones pause, and end when nobody comes."""
        now = time.monotonic()
        for seat in self.seats.values():
            job = seat.job
            if job is None or job.generation is None:
                continue
            if job.generation.cancelled:
                self._end(seat, "cancelled")
                continue
            self._pause(job, now)
            if job.stalled_at is not None and now - job.stalled_at >= self.settings.stall_s:
                self._end(seat, "cancelled")

    def _pause(self, job: Job, now: float) -> None:
        """Stall an answer whose client must read first, or go on with it."""
        if job.generation is None:
            return
        held = job.generation.paused = job.unread(self.settings.unread_pieces)
        # It may have been read in between, before it could know that it must wake us.
        held = held and job.unread(self.settings.unread_pieces)
        job.stalled_at = (job.stalled_at or now) if held else None

    # -- faults --------------------------------------------------------------------------------------------

    def _failed(self, code: int, seats: list[Seat]) -> None:
        if code == 1 and self._make_room(seats):
            return
        error = EngineError(f"llama.cpp failed to evaluate a step (code {code})", "see `appliance doctor`")
        for seat in seats:
            self.memory.reread(seat)
            if seat is self.summaries.seat:
                self.summaries.abandon()
            else:
                self._end(seat, "cancelled", error)

    def _make_room(self, seats: list[Seat]) -> bool:
        """No slot was found although the ledger had room: idle work, then idle sessions, then prompts give way."""
        if self.summaries.abandon() or self.admission.evict(seats[0]):
            return True
        prompts = [seat for seat in seats if seat.job is not None and not seat.job.writing]
        if not prompts or len(prompts) == len(seats):
            return False
        for seat in prompts:
            if seat.job is not None:
                seat.job.admitted = False
                self.memory.cells.release(seat.name)
        return True

    def fail_all(self, error: ApplianceError) -> None:
        """End every job with `error` and start each session's KV afresh."""
        self.summaries.abandon()
        for seat in self.seats.values():
            self._end(seat, "cancelled", error)
            if seat.seq >= 0:
                self.memory.reset(seat)

    # -- views ---------------------------------------------------------------------------------------------

    def stats(self) -> LlmStats:
        """A snapshot as of the last step."""
        jobs, cells = [seat.job for seat in self.seats.values() if seat.job and seat.busy], self.memory.cells
        return LlmStats(
            at=time.monotonic(),
            live=sum(job.admitted for job in jobs),
            waiting=sum(not job.admitted for job in jobs),
            cells_total=cells.total,
            cells_prefix=cells.prefix,
            cells_used=cells.used,
            cells_reserved=cells.reserved,
            cells_parked=self.memory.shelf.cells,
            step_ms=self.meter.step_ms,
            tokens_per_s=self.meter.tokens_per_s(),
            held=cells.holds(),
        )

    def close(self) -> None:
        self.summaries.abandon()
        for name in list(self.seats):
            self.close_session(name)
        self.memory.close()
        self.model.close()
