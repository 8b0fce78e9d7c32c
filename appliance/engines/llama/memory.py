"""Sessions' KV in the one context: placing, trimming, cutting, parking, and the ledger that goes with it.

Owns sequences and cells. It does not know turns or prompts: a seat's `kv` lists the private tokens that lie behind
the shared head, and everything here keeps that list true.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from appliance.engines.llama.binding import MAX_SEQUENCES, PARTIAL_ONLY, Context, Model
from appliance.engines.llama.cells import Cells
from appliance.engines.llama.park import Parked, Shelf
from appliance.engines.llama.seat import Seat
from appliance.engines.llama.settings import LlamaSettings
from appliance.errors import EngineError, UsageError

PREFIX, SCRATCH, SUMMARY, FIRST = 0, 1, 2, 3  # sequences; sessions have FIRST and above
_TRIAL_TOKENS = 64
_TRIAL_STEP = 12  # tokens from which on a step says something about reading speed


@dataclass(slots=True)
class Speeds:
    """Measured at start on this machine; reading prompts also while running, as other engines take their share."""

    prompt_tokens_per_s: float = 1.0
    step_ms: float = 0.0
    restore_bytes_per_s: float = 1.0
    state_bytes_per_token: float = 0.0

    def learn(self, tokens: int, seconds: float) -> None:
        """Take a step of `tokens` into account, if it was mostly a prompt."""
        if tokens >= _TRIAL_STEP and seconds > 0:
            self.prompt_tokens_per_s += 0.2 * (tokens / seconds - self.prompt_tokens_per_s)


class Memory:
    """The context, shared. Raises UsageError when the settings leave no room for a session."""

    def __init__(self, model: Model, settings: LlamaSettings, head: list[int], say: Callable[[str], None]) -> None:
        self.model, self.head, self._say = model, head, say
        prefix, s = len(head), settings
        room = model.context_train - prefix
        if room < 128:
            raise UsageError(
                f"the system prompt takes {prefix} of the model's {model.context_train} tokens",
                "shorten the system prompt",
            )
        sequences = s.sessions + FIRST
        if s.sessions < 1 or sequences > MAX_SEQUENCES:
            raise UsageError(f"{s.sessions} sessions cannot share one context", f"use 1 to {MAX_SEQUENCES - FIRST}")
        if s.batch_tokens < 2 * sequences:
            raise UsageError(
                f"batches of {s.batch_tokens} tokens are too small for {s.sessions} sessions", "raise batch_tokens"
            )
        share = min(s.share_tokens, room)
        if share < s.share_tokens:
            say(f"a session's share is {share} tokens: the model reads no more than {model.context_train}")
        total = s.context_tokens or prefix + s.sessions * share
        if total < prefix + min(share, 128):
            raise UsageError(
                f"{total} cells hold no session beside the system prompt's {prefix}", "raise context_tokens"
            )
        self.ctx = Context(model, s, cells=total, sequences=sequences)
        self.cells = Cells(self.ctx.cells, prefix, min(share, self.ctx.cells - prefix))
        self.exact = not model.window and not model.recurrent
        self.speeds = Speeds()
        self._free = list(range(FIRST, sequences))
        self._read_head()
        self._warm_up()
        self.shelf = Shelf(_key(model, settings, head), s.park_ram_bytes, s.park_disk_bytes, s.park_dir, say)

    # -- start ---------------------------------------------------------------------------------------------

    def _read_head(self) -> None:
        self._read(PREFIX)
        if not self.model.window:
            return
        # What lies before the window is masked for good, but shared with all it would never be recycled.
        self.ctx.load(PREFIX, self.ctx.save(PREFIX, PARTIAL_ONLY), PARTIAL_ONLY)
        if self.ctx.span(PREFIX)[1] != len(self.head) - 1:
            self.ctx.remove(PREFIX)
            self._read(PREFIX)

    def _read(self, seq: int) -> None:
        for start in range(0, len(self.head), self.ctx.batch.room):
            self._decode(seq, start, self.head[start : start + self.ctx.batch.room])

    def _decode(self, seq: int, start: int, tokens: list[int]) -> None:
        self.ctx.batch.clear()
        self.ctx.batch.add(seq, start, tokens)
        code = self.ctx.decode()
        if code:
            raise EngineError(f"llama.cpp could not read the system prompt (code {code})", "see `appliance doctor`")

    def _warm_up(self) -> None:
        """Touch every weight and measure: reading a prompt, one step, saving and restoring."""
        count = min(_TRIAL_TOKENS, self.ctx.batch.room, (self.ctx.cells - len(self.head)) // 2 - 8)
        tokens = [self.head[i % len(self.head)] for i in range(count)]
        self._decode(SCRATCH, 0, tokens)
        started = time.perf_counter()
        self._decode(SCRATCH, count, tokens[: count // 2])
        read = time.perf_counter()
        for i in range(3):
            self._decode(SCRATCH, count + count // 2 + i, tokens[:1])
        stepped = time.perf_counter()
        state = self.ctx.save(SCRATCH)
        saved = time.perf_counter()
        self.ctx.load(SCRATCH, state)
        loaded = time.perf_counter()
        self.ctx.remove(SCRATCH)
        self.speeds = Speeds(
            prompt_tokens_per_s=(count // 2) / max(read - started, 1e-6),
            step_ms=(stepped - read) / 3 * 1000,
            restore_bytes_per_s=len(state) / max(loaded - saved, 1e-6),
            state_bytes_per_token=len(state) / (count + count // 2 + 3),
        )

    def time_head_ms(self) -> float:
        """How long reading the shared head takes again, in ms: what sharing saves each new session."""
        started = time.perf_counter()
        self._read(SCRATCH)
        self.ctx.remove(SCRATCH)
        return (time.perf_counter() - started) * 1000

    # -- places --------------------------------------------------------------------------------------------

    def place(self, seat: Seat) -> bool:
        """Give `seat` a sequence: the shared head, and what was parked of it. False when none is free."""
        if not self._free:
            return False
        seat.seq = self._free.pop()
        self.reset(seat)
        parked = self.shelf.take(seat.name) if self.exact else None
        if parked is not None and self.cells.reserve(seat.name, len(parked.tokens)):
            if self.ctx.load(SCRATCH, parked.state):
                self.ctx.share(SCRATCH, seat.seq)
                seat.kv = parked.tokens
            else:
                self._say("a parked session's state does not fit; its context is computed again")
            self.ctx.remove(SCRATCH)
            self.cells.release(seat.name)
            self.use(seat)
        return True

    def unplace(self, seat: Seat, *, keep: bool) -> None:
        """Take `seat` out of the cells; with `keep` its private part is parked where that pays."""
        if seat.seq < 0:
            return
        if keep and self._worth_parking(seat):
            # A copy of the private part alone, so that the shared head is not saved with every session.
            self.ctx.share(seat.seq, SCRATCH, len(self.head), -1)
            state = self.ctx.save(SCRATCH)
            self.ctx.remove(SCRATCH)
            self.shelf.put(seat.name, Parked(list(seat.kv), state))
        self.ctx.remove(seat.seq)
        self._free.append(seat.seq)
        seat.seq, seat.kv, seat.opinion = -1, [], None
        self.cells.release(seat.name)
        self.use(seat)

    def _worth_parking(self, seat: Seat) -> bool:
        # Windowed and recurrent states cannot be cut from their head, and a shift is only applied by the next step.
        if not seat.kv or not self.exact or self.ctx.shift_pending:
            return False
        restore = self.speeds.state_bytes_per_token / self.speeds.restore_bytes_per_s
        return restore < 1 / self.speeds.prompt_tokens_per_s

    def forget(self, seat: Seat) -> None:
        self.unplace(seat, keep=False)
        self.shelf.drop(seat.name)
        self.cells.forget(seat.name)

    def use(self, seat: Seat) -> None:
        self.cells.use(seat.name, len(seat.kv) - seat.borrowed)

    # -- edits ---------------------------------------------------------------------------------------------

    def reset(self, seat: Seat) -> None:
        """Back to the shared head alone."""
        self.ctx.remove(seat.seq)
        self.ctx.share(PREFIX, seat.seq)
        seat.kv, seat.opinion, seat.borrowed = [], None, 0
        self.use(seat)

    def trim(self, seat: Seat, keep: int) -> None:
        """Keep the first `keep` private tokens; where the model cannot cut there safely, none."""
        if seat.seq < 0 or keep >= len(seat.kv):
            return
        at = len(self.head) + keep
        if not self.ctx.remove(seat.seq, at):
            self.reset(seat)  # recurrent state knows no way back
            return
        if self.model.window and self.ctx.span(seat.seq)[0] > max(0, at - self.model.window):
            self.reset(seat)  # part of the window before the cut has been recycled
            return
        del seat.kv[keep:]
        seat.borrowed = min(seat.borrowed, keep)
        if seat.opinion is not None and seat.opinion[0] > keep:
            seat.opinion = None
        self.use(seat)

    def cut(self, seat: Seat, start: int, end: int) -> None:
        """Take private tokens [start, end) out; what follows moves up where the model can shift positions."""
        end = min(end, len(seat.kv))
        if seat.seq < 0 or start >= end:
            return
        if end == len(seat.kv) or not self.ctx.can_shift or seat.borrowed:
            self.trim(seat, start)
            return
        head = len(self.head)
        self.ctx.remove(seat.seq, head + start, head + end)
        self.ctx.shift(seat.seq, head + end, -1, start - end)
        del seat.kv[start:end]
        if seat.opinion is not None:
            length, value = seat.opinion
            seat.opinion = (length + start - end, value) if length >= end else None
        self.use(seat)

    def graft(self, seat: Seat, size: int, donor: Seat) -> None:
        """Replace the first `size` private tokens of `seat` by all of `donor`'s, which then is reset."""
        head, new = len(self.head), len(donor.kv)
        self.ctx.remove(seat.seq, head, head + size)
        if new != size and size < len(seat.kv):
            self.ctx.shift(seat.seq, head + size, -1, new - size)
        self.ctx.share(donor.seq, seat.seq, head, head + new)
        seat.kv[:size] = donor.kv
        seat.opinion = None
        self.reset(donor)
        self.use(seat)

    def borrow(self, seat: Seat, source: Seat, count: int) -> None:
        """Let `seat` (a reset one) read the first `count` private tokens of `source`: no copy, no cells.

        Exact memories only: cells of a window that two sequences share are never recycled.
        """
        head = len(self.head)
        self.ctx.share(source.seq, seat.seq, head, head + count)
        seat.kv, seat.borrowed = source.kv[:count], count
        self.use(seat)

    def reread(self, seat: Seat) -> None:
        """After a failed step: believe what the context says it holds."""
        top = self.ctx.span(seat.seq)[1]
        known = len(self.head) + len(seat.kv)
        if top + 1 < known or not self.ctx.remove(seat.seq, known):
            self.reset(seat)
        seat.opinion = None
        self.use(seat)

    def close(self) -> None:
        self.shelf.close()
        self.ctx.close()


def _key(model: Model, settings: LlamaSettings, head: list[int]) -> str:
    """What a saved state depends on. The model's own hash comes from the settings or, on disk only, is computed."""
    digest = settings.model_sha256
    if not digest and settings.park_dir:
        with model.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    text = hashlib.sha256(repr(head).encode()).hexdigest()[:16]
    return f"{digest or model.path.name}|{settings.kv_type}|{settings.flash_attention}|{text}"
