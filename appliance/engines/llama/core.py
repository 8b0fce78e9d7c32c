"""What happens on the engine's thread: sessions' KV, admission of turns to cells, and the step.

Owns the context and every seat. It knows no event loop: answers go into `outbox`, and whoever drives `step` delivers
them. All methods run on one thread.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from appliance.engines.llama.binding import MAX_SEQUENCES, Context, Floats, Model
from appliance.engines.llama.cells import Cells
from appliance.engines.llama.sampling import Sampler, probabilities
from appliance.engines.llama.scheduler import DRAFT, IDLE, URGENT, Limits, plan
from appliance.engines.llama.seat import Answered, Job, Seat, Turn, TurnFailed, common, finish_waiters
from appliance.engines.llama.settings import LlamaSettings
from appliance.engines.llama.stream import LlamaGeneration, TextOut
from appliance.engines.llama.template import CHATML, chat_format
from appliance.engines.llama.words import merge, split_end, spoken_end
from appliance.engines.ports import Message, Piece, Sampling
from appliance.errors import ApplianceError, EngineError, ModelFileError, NoRoomError, UsageError

PREFIX, SCRATCH, SUMMARY, FIRST = 0, 1, 2, 3  # sequences; sessions start at FIRST
_END_MARKS = (".", "?", "!", "\n", ".\n", "?\n", "!\n", "\n\n", ".\n\n", "?\n\n", "!\n\n")

Delivery = tuple[LlamaGeneration, Piece | None, str, ApplianceError | None]


class Core:
    """The one context and all who share it."""

    def __init__(self, path: Path, settings: LlamaSettings) -> None:
        self.settings = settings
        self.model = Model(path, settings.gpu_layers)
        self.outbox: list[Delivery] = []
        self.seats: dict[str, Seat] = {}
        self._arrivals = 0
        self._format()
        self._context()
        self._read_prefix()

    # -- start ---------------------------------------------------------------------------------------------

    def _format(self) -> None:
        s, model = self.settings, self.model
        template = CHATML if s.chat_format == "chatml" else model.chat_template()
        if s.chat_format not in ("", "chatml"):
            raise UsageError(f"unknown chat_format {s.chat_format!r}", 'use "" or "chatml"')
        if not template:
            raise ModelFileError(
                f"{model.path.name} has no chat template", 'choose a chat model, or set chat_format = "chatml"'
            )
        bos = model.special_text(model.bos)
        form = chat_format(template, s.system_prompt, bos=bos, eos=model.special_text(model.eos))
        head = form.head if not model.adds_bos or form.head.startswith(bos) else bos + form.head
        self.head = model.tokenize(head, special=True)
        self.middle = model.tokenize(form.middle, special=True)
        self.between = model.tokenize(form.between, special=True)
        # A SentencePiece vocabulary puts the space before words by itself.
        own_space = model.tokenize("a") == model.tokenize(" a")[-1:] or model.piece(model.tokenize("a")[0])[:1] == b" "
        self._lead = "" if own_space else form.lead
        marks = [tokens[0] for tokens in map(model.tokenize, _END_MARKS) if len(tokens) == 1]
        ends = [t for t in (model.eos, *self.between[:1]) if t >= 0 and model.ends(t)]
        self._turn_ends = sorted(set(marks + ends))

    def _context(self) -> None:
        s = self.settings
        prefix = len(self.head)
        room = self.model.context_train - prefix
        if room < 128:
            raise UsageError(
                f"the system prompt takes {prefix} of the model's {self.model.context_train} tokens",
                "shorten the system prompt",
            )
        sequences = s.sessions + FIRST
        if s.sessions < 1 or sequences > MAX_SEQUENCES:
            raise UsageError(f"{s.sessions} sessions cannot share one context", f"use 1 to {MAX_SEQUENCES - FIRST}")
        if s.batch_tokens <= 2 * sequences:
            raise UsageError(f"batches of {s.batch_tokens} tokens are too small for {s.sessions} sessions")
        share = min(s.share_tokens, room)
        total = s.context_tokens or prefix + s.sessions * share
        if total < prefix + min(share, 128):
            raise UsageError(f"{total} cells hold no session beside the system prompt's {prefix}")
        self.ctx = Context(self.model, s, cells=total, sequences=sequences)
        self.cells = Cells(self.ctx.cells, prefix, min(share, self.ctx.cells - prefix))
        self._free_seqs = list(range(FIRST, sequences))

    def _read_prefix(self) -> None:
        started = time.perf_counter()
        for start in range(0, len(self.head), self.ctx.batch.room):
            self.ctx.batch.clear()
            self.ctx.batch.add(PREFIX, start, self.head[start : start + self.ctx.batch.room])
            code = self.ctx.decode()
            if code:
                raise EngineError(f"llama.cpp could not read the system prompt (code {code})")
        took = time.perf_counter() - started
        self.prompt_tokens_per_s = max(1.0, len(self.head) / max(took, 1e-6))

    # -- commands ------------------------------------------------------------------------------------------

    def open(self, name: str, history: Sequence[Message]) -> None:
        if name in self.seats:
            raise EngineError(f"session {name} is open already")
        if len(self.seats) >= self.settings.max_open:
            raise NoRoomError(f"all {self.settings.max_open} places for sessions are taken", "try again later")
        seat = Seat(name, idle_since=time.monotonic())
        self.seats[name] = seat
        if not self._place(seat):
            del self.seats[name]
            raise NoRoomError("every session is in the middle of a turn", "try again when one has ended")
        for words, reply in _pairs(history):
            self._append(seat, words, reply, None)
        self._shrink(seat, 0)
        self._warm(seat)

    def anticipate(self, name: str, words: str, answer: Answered) -> None:
        seat = self._seat(name)
        if seat.job is not None and seat.job.generation is not None:
            answer(None)
            return
        job = self._compose(seat, words, "", answering=False)
        job.urgency = DRAFT
        job.waiters.append(answer)
        self._begin(seat, job)

    def generate(
        self, name: str, words: str, sampling: Sampling, urgent: bool, note: str, generation: LlamaGeneration
    ) -> None:
        seat = self._seat(name)
        job = self._compose(seat, words, note, answering=True)
        job.urgency = URGENT if urgent else DRAFT
        job.sampling, job.generation = sampling, generation
        job.out = TextOut(sampling.stop)
        try:
            job.sampler = Sampler(self.model, sampling)
        except ApplianceError as error:
            self.outbox.append((generation, None, "cancelled", error))
            return
        self._begin(seat, job)

    def settle(self, name: str, heard: str | None, reply: str | None) -> None:
        seat = self._seat(name)
        if seat.job is not None:
            self._end(seat, "cancelled")
        air, seat.air, seat.draft = seat.air, None, ""
        if heard is not None and heard.strip():
            if reply and reply.strip():
                self._append(seat, heard, reply, air)
                seat.open_words = ""
            else:
                seat.open_words = f"{seat.open_words} {heard.strip()}".strip()
        self._warm(seat)

    def close_session(self, name: str) -> None:
        seat = self.seats.pop(name, None)
        if seat is None:
            return
        if seat.job is not None:
            self._end(seat, "cancelled")
        self._unplace(seat)
        self.cells.forget(name)

    # -- turns and tokens ----------------------------------------------------------------------------------

    def _seat(self, name: str) -> Seat:
        seat = self.seats.get(name)
        if seat is None:
            raise EngineError(f"session {name} is not open")
        return seat

    def _compose(self, seat: Seat, words: str, note: str, *, answering: bool) -> Job:
        text = merge(seat.draft, words)
        tokens, stem = self._word_tokens(f"{seat.open_words} {text}".strip())
        base = seat.base()
        job = Job(base + tokens, IDLE, self._arrival(), words=text)
        job.probe = len(base) + stem if stem else 0
        job.words_end = job.note_end = len(job.want)
        if not answering:
            job.want = job.want[: job.probe] if job.probe else job.want
            return job
        if note.strip():
            job.want += self.model.tokenize(f"\n{note.strip()}")
            job.note_end = len(job.want)
        job.want += self.middle
        return job

    def _word_tokens(self, text: str) -> tuple[list[int], int]:
        """Tokens of a person's words, and how many of them reach to the end of the last word."""
        stem, tail = split_end(text)
        if not text:
            return [], 0
        stem_tokens = self.model.tokenize(self._lead + stem)
        if not tail:
            return stem_tokens, len(stem_tokens)
        whole = self.model.tokenize(self._lead + stem + tail)
        if whole[: len(stem_tokens)] != stem_tokens:
            whole = stem_tokens + self.model.tokenize(tail)
        return whole, len(stem_tokens)

    def _append(self, seat: Seat, heard: str, reply: str, air: Job | None) -> None:
        """Settle one exchange, keeping the tokens that lie in the KV where they say the same."""
        base = len(seat.base())
        words, text = heard.strip(), reply.strip()
        if air is not None and _letters(air.words) == _letters(words):
            tokens = air.want[base : air.words_end]
        else:
            tokens, _ = self._word_tokens(f"{seat.open_words} {words}".strip())
        if air is not None and air.note_end > air.words_end:
            self._cut(seat, air.words_end, air.note_end)
        tokens = tokens + self.middle + self._reply_tokens(text, air) + self.between
        seat.turns.append(Turn(f"{seat.open_words} {words}".strip(), text, tokens))

    def _reply_tokens(self, spoken: str, air: Job | None) -> list[int]:
        if air is None or not air.drawn:
            return self.model.tokenize(spoken)
        pieces = [self.model.piece(token) for token in air.drawn]
        generated = b"".join(pieces).decode("utf-8", "replace")
        end = spoken_end(generated, spoken)
        if end is None:
            return self.model.tokenize(spoken)
        limit, size, kept = len(generated[:end].encode()), 0, 0
        while kept < len(pieces) and size + len(pieces[kept]) <= limit:
            size += len(pieces[kept])
            kept += 1
        rest = generated[:end].encode()[size:].decode("utf-8", "replace")
        tail, own = split_end(spoken)[1], split_end(generated[:end])[1]
        rest += tail.removeprefix(own) if tail.startswith(own) else ""
        return air.drawn[:kept] + (self.model.tokenize(rest) if rest else [])

    def _arrival(self) -> int:
        self._arrivals += 1
        return self._arrivals

    # -- jobs ----------------------------------------------------------------------------------------------

    def _begin(self, seat: Seat, job: Job) -> None:
        old = seat.job
        if old is not None:
            if old.waiters and old.want[: old.probe] == job.want[: job.probe]:
                job.waiters += old.waiters
                old.waiters = []
            self._end(seat, "cancelled")
        seat.air = None
        seat.draft = job.words
        seat.job = job

    def _warm(self, seat: Seat) -> None:
        """Let idle time bring the KV to the settled turns, so that the next words are all that is new."""
        want = seat.base() + self._word_tokens(seat.open_words)[0]
        if seat.seq >= 0:
            self._trim(seat, common(seat.kv, want))
        seat.job = Job(want, IDLE, self._arrival()) if len(want) > len(seat.kv) else None
        seat.idle_since = time.monotonic()

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
        job.writing = False
        self.cells.release(seat.name)
        seat.idle_since = time.monotonic()

    def _admit(self, seat: Seat, job: Job) -> bool:
        """Give the job a sequence and its worst case in cells. False: not now."""
        longest = job.sampling.max_tokens + len(self.between) if job.sampling else 0
        if len(job.want) + longest > self.cells.share:
            if job.urgency == IDLE and job.generation is None:
                return self._drop_idle(seat)
            if not self._refit(seat, job, longest):
                raise TurnFailed(
                    NoRoomError(
                        f"a prompt of {len(job.want)} and an answer of {longest} tokens exceed the share of "
                        f"{self.cells.share}",
                        "shorten the answer (max_tokens) or give sessions a larger share",
                    )
                )
        if seat.seq < 0 and not self._place(seat):
            return False
        keep = common(seat.kv, job.want)
        self._trim(seat, min(keep, len(job.want) - 1) if job.generation else keep)
        while not self.cells.reserve(seat.name, len(job.want) + longest):
            if job.urgency == IDLE or not self._evict(seat):
                if not any(other.job and other.job.admitted for other in self.seats.values()):
                    raise TurnFailed(NoRoomError("no cells are left for this turn", "use fewer sessions at a time"))
                return False
        job.admitted = True
        self._known_opinion(seat, job)
        return True

    def _drop_idle(self, seat: Seat) -> bool:
        seat.job = None
        return False

    def _refit(self, seat: Seat, job: Job, longest: int) -> bool:
        """Drop oldest turns until the job fits; its token places move with them."""
        dropped = self._shrink(seat, len(job.want) - len(seat.base()) + longest)
        job.want = job.want[dropped:]
        job.probe = max(0, job.probe - dropped)
        job.words_end -= dropped
        job.note_end -= dropped
        return len(job.want) + longest <= self.cells.share

    def _shrink(self, seat: Seat, more: int) -> int:
        """Drop the oldest whole turns until `more` tokens fit behind the rest; returns the tokens dropped."""
        if len(seat.base()) + more <= self.cells.share:
            return 0
        # A little more than needed goes, so that not every turn has to drop one.
        goal = self.cells.share - more - self.cells.share // 8
        count = size = 0
        total = len(seat.base())
        while count < len(seat.turns) and total - size > goal:
            size += len(seat.turns[count].tokens)
            count += 1
        known = common(seat.kv, seat.base())
        if seat.seq >= 0 and known >= size:
            self._cut(seat, 0, size)
        del seat.turns[:count]
        return size

    def _known_opinion(self, seat: Seat, job: Job) -> None:
        if job.probe and len(seat.kv) >= job.probe:
            value = seat.opinion[1] if seat.opinion and seat.opinion[0] == job.probe else None
            if job.generation is not None:
                job.generation.turn_end = value
            finish_waiters(job, value)

    # -- KV ------------------------------------------------------------------------------------------------

    def _place(self, seat: Seat) -> bool:
        if not self._free_seqs and not self._evict(seat):
            return False
        seat.seq = self._free_seqs.pop()
        self._reset(seat)
        return True

    def _unplace(self, seat: Seat) -> None:
        if seat.seq < 0:
            return
        self.ctx.remove(seat.seq)
        self._free_seqs.append(seat.seq)
        seat.seq, seat.kv, seat.opinion = -1, [], None
        self.cells.use(seat.name, 0)

    def _evict(self, needy: Seat) -> bool:
        """Move the longest idle session out of the cells."""
        idle = [s for s in self.seats.values() if s is not needy and s.seq >= 0 and not s.busy]
        if not idle:
            return False
        victim = min(idle, key=lambda s: s.idle_since)
        victim.job = None
        self._unplace(victim)
        return True

    def _reset(self, seat: Seat) -> None:
        """Back to the shared head alone."""
        self.ctx.remove(seat.seq)
        self.ctx.share(PREFIX, seat.seq)
        seat.kv, seat.opinion = [], None
        self.cells.use(seat.name, 0)

    def _trim(self, seat: Seat, keep: int) -> None:
        """Keep the first `keep` private tokens; where the model cannot cut there safely, none."""
        if keep >= len(seat.kv):
            return
        at = len(self.head) + keep
        if not self.ctx.remove(seat.seq, at):
            self._reset(seat)
            return
        if self.model.window and self.ctx.span(seat.seq)[0] > max(0, at - self.model.window):
            self._reset(seat)  # part of the window before the cut has been recycled
            return
        del seat.kv[keep:]
        if seat.opinion is not None and seat.opinion[0] > keep:
            seat.opinion = None
        self.cells.use(seat.name, keep)

    def _cut(self, seat: Seat, start: int, end: int) -> None:
        """Take private tokens [start, end) out; what follows moves up where the model can shift positions."""
        end = min(end, len(seat.kv))
        if seat.seq < 0 or start >= end:
            return
        if end == len(seat.kv) or not self.ctx.can_shift:
            self._trim(seat, start)
            return
        head = len(self.head)
        self.ctx.remove(seat.seq, head + start, head + end)
        self.ctx.shift(seat.seq, head + end, -1, start - end)
        del seat.kv[start:end]
        if seat.opinion is not None:
            length, value = seat.opinion
            seat.opinion = (length + start - end, value) if length >= end else None
        self.cells.use(seat.name, len(seat.kv))

    # -- the step ------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Evaluate one batch. False when nothing could be done."""
        self._reap()
        seats = [seat for seat in self.seats.values() if seat.job is not None]
        for seat in seats:
            job = seat.job
            if job is not None and not job.admitted:
                try:
                    self._admit(seat, job)
                except TurnFailed as failed:
                    self._end(seat, "cancelled", failed.error)
        lanes = []
        for key, seat in enumerate(seats):
            if seat.job is None or not seat.job.admitted or seat.job.stalled_at is not None:
                continue
            if not seat.job.writing and len(seat.job.want) <= len(seat.kv):
                self._end(seat, "")
                continue
            lane = seat.lane(key, self.settings.first_clause_tokens)
            if lane is not None:
                lanes.append(lane)
        shares = plan(lanes, self._limits())
        if not shares:
            return False
        self._evaluate(seats, [(seats[share.key], share.tokens) for share in shares])
        return True

    def _limits(self) -> Limits:
        s = self.settings
        quick = max(16, int(self.prompt_tokens_per_s * s.step_target_ms / 1000))
        return Limits(
            batch=self.ctx.batch.room,
            rows=self.ctx.outputs,
            idle=min(s.prompt_idle_tokens, max(quick, 2 * quick)),
            busy=min(s.prompt_busy_tokens, quick),
            later_every=s.later_every,
        )

    def _evaluate(self, seats: list[Seat], work: list[tuple[Seat, int]]) -> None:
        batch = self.ctx.batch
        batch.clear()
        rows: list[tuple[Seat, int, int]] = []  # seat, row of the probe, row to draw from (-1: none)
        added: list[tuple[Seat, list[int]]] = []
        for seat, count in work:
            job = seat.job
            assert job is not None
            tokens = [job.next] if job.writing else job.want[len(seat.kv) : len(seat.kv) + count]
            first = batch.add(seat.seq, len(self.head) + len(seat.kv), tokens)
            end = len(seat.kv) + len(tokens)
            probe = draw = -1
            if not job.writing and len(seat.kv) < job.probe <= end:
                probe = batch.want(first + job.probe - len(seat.kv) - 1)
            if job.generation is not None and (job.writing or end == len(job.want)):
                draw = probe if probe >= 0 and job.probe == end else batch.want(batch.size - 1)
            rows.append((seat, probe, draw))
            added.append((seat, tokens))
        code = self.ctx.decode()
        if code != 0:
            self._failed(code, work)
            return
        moved = set()
        for seat, tokens in added:
            seat.kv.extend(tokens)
            seat.skipped = 0
            moved.add(seat.name)
            self.cells.use(seat.name, len(seat.kv))
            if seat.job is not None and not seat.job.writing:
                seat.job.evaluated += len(tokens)
        for seat in seats:
            if seat.name not in moved:
                seat.skipped += 1
        self._read_rows(rows)

    def _read_rows(self, rows: list[tuple[Seat, int, int]]) -> None:
        logits = self.ctx.logits() if self.ctx.batch.outputs else None
        now = time.monotonic()
        for seat, probe, draw in rows:
            job = seat.job
            if job is None:
                continue
            if probe >= 0 and logits is not None:
                value = probabilities(logits[probe], self._turn_ends)
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
        assert job.sampler is not None
        assert job.sampling is not None
        assert job.out is not None
        assert job.generation is not None
        generation = job.generation
        if not job.writing:
            generation.prompt_tokens = job.evaluated
            job.writing = True
        token = job.sampler.draw(row)
        if self.model.ends(token):
            text = job.out.add(b"", last=True)
            if text:
                self.outbox.append((generation, Piece(text, 0, now), "", None))
            self._end(seat, "stop")
            return
        job.drawn.append(token)
        job.next = token
        full = len(job.drawn) >= job.sampling.max_tokens
        text = job.out.add(self.model.piece(token), last=full)
        job.pieces += 1
        self.outbox.append((generation, Piece(text, 1, now), "", None))
        if job.out.stopped:
            self._end(seat, "stop")
        elif full:
            self._end(seat, "length")

    def _reap(self) -> None:
        """Cancelled answers end here, at the step boundary; unread ones pause, and end when nobody comes."""
        now = time.monotonic()
        for seat in self.seats.values():
            job = seat.job
            if job is None or job.generation is None:
                continue
            if job.generation.cancelled:
                self._end(seat, "cancelled")
            elif job.pieces - job.generation.read >= self.settings.unread_pieces:
                job.stalled_at = job.stalled_at or now
                if now - job.stalled_at >= self.settings.stall_s:
                    self._end(seat, "cancelled")
            else:
                job.stalled_at = None

    def _failed(self, code: int, work: list[tuple[Seat, int]]) -> None:
        if code == 1 and self._make_room(work):
            return
        error = EngineError(f"llama.cpp failed to evaluate a step (code {code})", "see `appliance doctor`")
        for seat, _ in work:
            self._reread(seat)
            self._end(seat, "cancelled", error)

    def _make_room(self, work: list[tuple[Seat, int]]) -> bool:
        """No slot was found although the ledger had room: park somebody idle, or let prompts wait."""
        if self._evict(work[0][0]):
            return True
        prompts = [seat for seat, _ in work if seat.job is not None and not seat.job.writing]
        if not prompts or len(prompts) == len(work):
            return False
        for seat in prompts:
            if seat.job is not None:
                seat.job = replace(seat.job, admitted=False)
                self.cells.release(seat.name)
        return True

    def _reread(self, seat: Seat) -> None:
        """After a failed step: believe what the context says it holds."""
        _, top = self.ctx.span(seat.seq)
        del seat.kv[max(0, top + 1 - len(self.head)) :]
        if not self.ctx.remove(seat.seq, len(self.head) + len(seat.kv)):
            self._reset(seat)
        seat.opinion = None
        self.cells.use(seat.name, len(seat.kv))

    def fail_all(self, error: ApplianceError) -> None:
        """End every job with `error` and start each session's KV afresh."""
        for seat in self.seats.values():
            self._end(seat, "cancelled", error)
            if seat.seq >= 0:
                self._reset(seat)

    def close(self) -> None:
        for seat in list(self.seats.values()):
            self.close_session(seat.name)
        self.ctx.close()
        self.model.close()


def _letters(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())


def _pairs(history: Sequence[Message]) -> list[tuple[str, str]]:
    """Messages as (words, reply), whatever their order: equal roles in a row are joined."""
    pairs: list[tuple[str, str]] = []
    for message in history:
        words, reply = pairs[-1] if pairs else ("", "")
        if message.role == "assistant":
            if not pairs:
                pairs.append(("", ""))
            pairs[-1] = (words, f"{reply} {message.text}".strip())
        elif pairs and not reply:
            pairs[-1] = (f"{words} {message.text}".strip(), "")
        else:
            pairs.append((message.text.strip(), ""))
    return pairs
