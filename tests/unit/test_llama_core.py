"""The engine's thread logic on toy models: real llama.cpp, random weights, no threads, step by step."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from appliance.engines.llama.core import Core
from appliance.engines.llama.memory import FIRST, PREFIX
from appliance.engines.llama.seat import Seat
from appliance.engines.llama.settings import LlamaSettings
from appliance.engines.ports import Message, Sampling
from appliance.errors import EngineError, ModelFileError, NoRoomError, UsageError
from tests.fakes.toy_gguf import write_toy, write_vocabulary_only

SMALL = LlamaSettings(
    system_prompt="Be brief.",
    sessions=3,
    share_tokens=160,
    batch_tokens=64,
    ubatch_tokens=64,
    threads=1,
    threads_batch=1,
    summary_tokens=12,
    max_open=6,
    park_after_s=0.0,
)


@dataclass
class Stream:
    """What the thread sees of an answer's client."""

    prompt_tokens: int = 0
    turn_end: float | None = None
    cancelled: bool = False
    paused: bool = False
    read: int = 0
    pieces: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy(tmp_path_factory.mktemp("toy") / "llama.gguf", layers=2)


@pytest.fixture
def core(toy: Path) -> Iterator[Core]:
    made = Core(toy, SMALL)
    yield made
    made.close()


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
    core.generate(name, words, Sampling(max_tokens=tokens, **how), True, note, stream)  # type: ignore[arg-type]
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


# -- the machine -------------------------------------------------------------------------------------------------


NAMES = st.sampled_from("abcdef")
WORDS = st.sampled_from(["hi", "what is it", "What is it?", "and then there was one more thing", "no"])


class Sessions(RuleBasedStateMachine):
    """Any order of open, append, generate, cancel, trim, park and close leaves the books in order."""

    shared: Core  # one context for all runs: loading it is what takes time

    def __init__(self) -> None:
        super().__init__()
        self.core = type(self).shared
        for name in list(self.core.seats):  # what a failed run left behind
            self.core.close_session(name)
        drain(self.core)
        self.streams: dict[str, Stream] = {}

    def has(self, name: str) -> bool:
        return name in self.core.seats

    @rule(name=NAMES, turns=st.integers(0, 3))
    def open(self, name: str, turns: int) -> None:
        history = [Message(role, "some words") for _ in range(turns) for role in ("user", "assistant")]
        try:
            self.core.open(name, history)
        except (EngineError, NoRoomError):
            pass

    @precondition(lambda self: self.core.seats)
    @rule(data=st.data(), words=WORDS)
    def anticipate(self, data: st.DataObject, words: str) -> None:
        self.core.anticipate(data.draw(st.sampled_from(sorted(self.core.seats))), words, lambda _: None)

    @precondition(lambda self: self.core.seats)
    @rule(data=st.data(), words=WORDS, tokens=st.sampled_from([1, 6, 20, 150]), note=st.sampled_from(["", "Noon."]))
    def generate(self, data: st.DataObject, words: str, tokens: int, note: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.core.seats)))
        self.streams[name] = ask(self.core, name, words, tokens, note)

    @rule(count=st.integers(1, 12))
    def step(self, count: int) -> None:
        for _ in range(count):
            self.core.step()
        drain(self.core)

    @precondition(lambda self: self.streams)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.streams)))
        self.streams[name].cancelled = True

    @precondition(lambda self: self.core.seats)
    @rule(data=st.data(), words=WORDS, part=st.sampled_from([None, "", "all", "half", "other"]))
    def settle(self, data: st.DataObject, words: str, part: str | None) -> None:
        name = data.draw(st.sampled_from(sorted(self.core.seats)))
        seat = self.core.seats[name]
        said = written(self.core, seat)
        reply = {"all": said, "half": said[: len(said) // 2], "other": "quite other words"}.get(part or "", part)
        self.core.settle(name, None if part is None else words, reply)

    @precondition(lambda self: self.core.seats)
    @rule()
    def park(self) -> None:
        self.core._evict(Seat(""))  # noqa: SLF001  what a lack of room does

    @precondition(lambda self: self.core.seats)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.core.seats)))
        self.core.close_session(name)
        self.streams.pop(name, None)

    @invariant()
    def books(self) -> None:
        consistent(self.core)

    def teardown(self) -> None:
        run(self.core)
        drain(self.core)
        for name in list(self.core.seats):
            self.core.close_session(name)
        drain(self.core)
        consistent(self.core)
        cells = self.core.memory.cells
        assert cells.used == cells.reserved == 0
        assert cells.free == cells.total - cells.prefix
        assert self.core.memory.shelf.cells == 0


def written(core: Core, seat: Seat) -> str:
    job = seat.job or seat.air
    return b"".join(core.model.piece(t) for t in job.drawn).decode("utf-8", "replace") if job else ""


def test_a_thousand_interleavings_leave_the_books_in_order(toy: Path) -> None:
    # Tight on purpose: two and a half shares of cells for three sequences and six sessions.
    tight = LlamaSettings(**{**_as_dict(SMALL), "context_tokens": 512})
    Sessions.shared = Core(toy, tight)
    try:
        run_state_machine_as_test(
            Sessions,
            settings=settings(
                max_examples=1000,
                stateful_step_count=12,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                database=None,
            ),
        )
    finally:
        Sessions.shared.close()


def _as_dict(value: LlamaSettings) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}
