"""What the tests of the engine's thread share: sessions driven step by step, and what must hold after each."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from appliance.engines.llama.core import Core
from appliance.engines.llama.memory import FIRST, PREFIX
from appliance.engines.llama.seat import Seat
from appliance.engines.llama.settings import LlamaSettings
from appliance.engines.ports import Sampling

SMALL = LlamaSettings(
    system_prompt="Be brief.",
    sessions=3,
    share_tokens=256,
    batch_tokens=64,
    ubatch_tokens=64,
    threads=1,
    threads_batch=1,
    summary_tokens=8,
    max_open=6,
    park_after_s=0.0,
)


@dataclass
class Stream:
    """What the thread sees of an answer's client."""

    prompt_tokens: int = 0
    recalled: int = 0
    turn_end: float | None = None
    cancelled: bool = False
    paused: bool = False
    read: int = 0
    wanted: int = 0
    halt: Callable[[str], bool] | None = None
    pieces: list[str] = field(default_factory=list)


def run(core: Core, most: int = 2000) -> None:
    """Step until there is nothing to do."""
    for _ in range(most):
        if not core.step():
            return
    raise AssertionError("the engine never came to rest")


def drain(core: Core) -> dict[int, tuple[str, str, Any]]:
    """What each stream received since the last call: text, finish, error."""
    news, core.outbox = core.outbox, []
    out: dict[int, tuple[str, str, Any]] = {}
    for stream, piece, finish, error in news:
        text, ended, fault = out.get(id(stream), ("", "", None))
        if piece is not None:
            stream.read += 1  # type: ignore[misc]  # a stand-in for the client
            text += piece.text
        else:
            ended, fault = finish, error
        out[id(stream)] = (text, ended, fault)
    return out


def ask(core: Core, name: str, words: str, tokens: int = 8, note: str = "", **how: Any) -> Stream:
    stream = Stream()
    core.generate(name, words, Sampling(max_tokens=tokens, **how), note, stream)  # type: ignore[arg-type]
    return stream


def consistent(core: Core) -> None:
    """The ledger, the lists and llama.cpp agree."""
    memory, head = core.memory, len(core.prompts.head)
    assert memory.ctx.span(PREFIX)[1] == head - 1
    seats = list(core.seats.values())
    placed = [seat for seat in seats if seat.seq >= 0]
    assert len({seat.seq for seat in placed}) == len(placed)
    for seat in placed:
        assert memory.ctx.span(seat.seq)[1] == head + len(seat.kv) - 1, seat.name
        assert memory.cells.held(seat.name) <= memory.cells.share
    free = set(range(FIRST, memory.ctx.sequences)) - {seat.seq for seat in placed}
    assert all(memory.ctx.span(seq) == (-1, -1) for seq in free)
    extra = core.summaries.seat
    used = sum(len(seat.kv) for seat in placed) + len(extra.kv) - extra.borrowed
    cells = memory.cells
    assert cells.used == used
    assert cells.free >= 0
    assert cells.used + cells.reserved + cells.free + cells.prefix == cells.total
    for seat in seats:
        assert seat.seq >= 0 or not seat.kv


def written(core: Core, seat: Seat) -> str:
    job = seat.job or seat.air
    return b"".join(core.model.piece(t) for t in job.drawn).decode("utf-8", "replace") if job else ""


def as_dict(value: LlamaSettings) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def answer(core: Core, name: str, words: str, tokens: int = 8, **how: Any) -> str:
    stream = ask(core, name, words, tokens, **how)
    run(core)
    text, finish, error = drain(core)[id(stream)]
    assert error is None, error
    assert finish in ("stop", "length")
    return text


def valid_form(core: Core, seat: Seat) -> None:
    """The head is in its place, and person and appliance take turns."""
    ends = core.prompts.between[0]
    opens = next(t for t in core.prompts.between if core.model.is_control(t) and t != ends)
    base = seat.base()
    marks = [t for t in base if t in (opens, ends)]
    assert marks == [ends, opens] * (2 * len(seat.turns))
    assert core.memory.ctx.span(seat.seq)[0] == 0
    assert len(base) <= core.memory.cells.share
