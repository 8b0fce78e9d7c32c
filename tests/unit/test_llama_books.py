"""The books of the cells: whatever is asked in whatever order, they agree with llama.cpp and end at zero."""

import contextlib
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from llama_steps import SMALL, Stream, as_dict, ask, consistent, drain, run, written

from appliance.engines.llama.core import Core
from appliance.engines.llama.seat import Seat
from appliance.engines.llama.settings import LlamaSettings
from appliance.engines.ports import Message, Sampling
from appliance.errors import EngineError

NAMES = st.sampled_from("abcd")
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
        with contextlib.suppress(EngineError):  # open already, or no room
            self.core.open(name, history)

    @precondition(lambda self: self.core.seats)
    @rule(data=st.data(), words=WORDS)
    def anticipate(self, data: st.DataObject, words: str) -> None:
        self.core.anticipate(data.draw(st.sampled_from(sorted(self.core.seats))), words, lambda _: None)

    @precondition(lambda self: self.core.seats)
    @rule(data=st.data(), words=WORDS, tokens=st.sampled_from([1, 6, 20, 300]), note=st.sampled_from(["", "Noon."]))
    def generate(self, data: st.DataObject, words: str, tokens: int, note: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.core.seats)))
        self.streams[name] = ask(self.core, name, words, tokens, note)

    @precondition(lambda self: self.core.seats)
    @rule(data=st.data(), count=st.integers(1, 4))
    def talk(self, data: st.DataObject, count: int) -> None:
        """Whole exchanges, as most of life is: histories grow, fill their share, are summed up."""
        name = data.draw(st.sampled_from(sorted(self.core.seats)))
        for _ in range(count):
            self.core.generate(name, "tell me something long", Sampling(max_tokens=15), "", Stream())  # type: ignore[arg-type]
            run(self.core)
            self.core.settle(name, "tell me something long", written(self.core, self.core.seats[name]) or "ok")
            drain(self.core)

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
        self.core.admission.evict(Seat(""))

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


def test_a_thousand_interleavings_leave_the_books_in_order(toy: Path) -> None:
    # Tight on purpose: two and a half shares of cells for three sequences and six sessions.
    tight = LlamaSettings(**{**as_dict(SMALL), "context_tokens": 768})
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
