"""The engine's thread logic on toy models: real llama.cpp, random weights, no threads, step by step."""

import contextlib
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
            self.core.generate(name, "tell me something long", Sampling(max_tokens=15), True, "", Stream())  # type: ignore[arg-type]
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


def written(core: Core, seat: Seat) -> str:
    job = seat.job or seat.air
    return b"".join(core.model.piece(t) for t in job.drawn).decode("utf-8", "replace") if job else ""


def test_a_thousand_interleavings_leave_the_books_in_order(toy: Path) -> None:
    # Tight on purpose: two and a half shares of cells for three sequences and six sessions.
    tight = LlamaSettings(**{**_as_dict(SMALL), "context_tokens": 768})
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


# -- one thing at a time -----------------------------------------------------------------------------------------


def answer(core: Core, name: str, words: str, tokens: int = 8, **how: Any) -> str:
    stream = ask(core, name, words, tokens, **how)
    run(core)
    text, finish, error = drain(core)[id(stream)]
    assert error is None, error
    assert finish in ("stop", "length")
    return text


def test_sessions_do_not_see_each_other(core: Core) -> None:
    core.open("alone", [])
    expected = answer(core, "alone", "what is it?")
    core.close_session("alone")
    core.open("a", [])
    core.open("b", [Message("user", "a secret word"), Message("assistant", "kept")])
    mine, other = ask(core, "a", "what is it?"), ask(core, "b", "and that?")
    run(core)
    got = drain(core)
    # Greedy text of random weights may flip where two logits are nearly equal; the first tokens do not.
    assert got[id(mine)][0][:3] == expected[:3]
    assert got[id(other)][1]
    assert core.seats["a"].kv[: len(core.seats["a"].kv)] != core.seats["b"].kv
    consistent(core)


def test_a_new_session_pays_for_its_own_words_only(core: Core) -> None:
    core.open("a", [])
    words = core.prompts.word_tokens("hello there")[0]
    stream = ask(core, "a", "hello there")
    run(core)
    assert stream.prompt_tokens == len(words) + len(core.prompts.middle)
    assert core.memory.cells.prefix == len(core.prompts.head)


def test_an_anticipated_turn_costs_the_closing_tokens_only(core: Core) -> None:
    core.open("a", [])
    heard: list[float | None] = []
    core.anticipate("a", "what time", heard.append)
    core.anticipate("a", "what time is it", heard.append)
    run(core)
    assert heard[0] is None  # superseded
    assert heard[1] is not None
    assert 0 <= heard[1] <= 1
    stream = ask(core, "a", "What time is it?")
    run(core)
    assert stream.turn_end == heard[1]
    assert stream.prompt_tokens == 1 + len(core.prompts.middle)  # the question mark and the template


def test_other_words_leave_nothing_of_the_draft(core: Core) -> None:
    core.open("a", [])
    core.anticipate("a", "turn on", lambda _: None)
    run(core)
    core.settle("a", None, None)
    run(core)
    fresh = answer(core, "a", "turn off")
    core.open("b", [])
    assert answer(core, "b", "turn off") == fresh


def test_an_interrupted_answer_is_cut_to_what_was_heard(core: Core) -> None:
    core.open("a", [])
    said = answer(core, "a", "hello", tokens=20)
    seat = core.seats["a"]
    heard = said[:5]
    before = seat.kv[:]
    core.settle("a", "hello", heard)
    run(core)
    turn = seat.turns[0]
    assert turn.reply == heard.strip()
    assert b"".join(map(core.model.piece, turn.tokens)).decode("utf-8", "replace").rstrip().endswith("user")
    words = len(core.prompts.word_tokens("hello")[0]) + len(core.prompts.middle)
    assert seat.kv[:words] == before[:words]
    assert seat.kv == turn.tokens
    consistent(core)


def test_a_settled_turn_is_all_read_before_the_next_words_come(core: Core) -> None:
    core.open("a", [])
    core.settle("a", "hello", answer(core, "a", "hello"))
    run(core)
    stream = ask(core, "a", "again")
    run(core)
    assert stream.prompt_tokens == len(core.prompts.word_tokens("again")[0]) + len(core.prompts.middle)


def test_a_note_is_never_stored(core: Core) -> None:
    core.open("a", [])
    core.settle("a", "when", answer(core, "a", "when", note="It is noon."))
    run(core)
    text = b"".join(map(core.model.piece, core.seats["a"].kv)).decode("utf-8", "replace")
    assert "noon" not in text
    assert core.seats["a"].kv == core.seats["a"].base()
    consistent(core)


def test_unanswered_words_are_continued_by_the_next(core: Core) -> None:
    core.open("a", [])
    core.settle("a", "well", None)
    core.settle("a", "hello", answer(core, "a", "hello"))
    (turn,) = core.seats["a"].turns
    assert turn.words == "well hello"


def test_cancel_frees_the_promise_within_one_step(core: Core) -> None:
    core.open("a", [])
    stream = ask(core, "a", "hello", tokens=100)
    for _ in range(3):
        core.step()
    assert core.memory.cells.reserved > 50
    stream.cancelled = True
    core.step()
    assert core.memory.cells.reserved == 0
    assert drain(core)[id(stream)][1] == "cancelled"


def test_close_during_prefill_frees_everything(core: Core) -> None:
    core.open("a", [])
    stream = ask(core, "a", "word " * 30, tokens=10)
    core.step()
    assert core.seats["a"].kv
    core.close_session("a")
    assert drain(core)[id(stream)][1] == "cancelled"
    consistent(core)
    assert core.memory.cells.used == 0


def test_a_reader_that_stops_is_paused_and_then_cancelled(toy: Path) -> None:
    core = Core(toy, LlamaSettings(**{**_as_dict(SMALL), "unread_pieces": 4, "stall_s": 0.0}))
    core.open("a", [])
    core.open("b", [])
    stuck, fine = ask(core, "a", "hello", tokens=60), ask(core, "b", "hello", tokens=12)
    for _ in range(60):
        core.step()
        news, core.outbox = core.outbox, []
        for stream, piece, finish, _ in news:
            target = stuck if stream is stuck else fine
            target.pieces.append(finish if piece is None else "piece")
            fine.read += piece is not None and stream is fine
    assert stuck.pieces == ["piece"] * 4 + ["cancelled"]
    assert fine.pieces[-1] in ("stop", "length")
    core.close()


def test_reading_on_wakes_a_paused_answer(toy: Path) -> None:
    core = Core(toy, LlamaSettings(**{**_as_dict(SMALL), "unread_pieces": 4, "stall_s": 60.0}))
    core.open("a", [])
    stream = ask(core, "a", "hello", tokens=12)
    run(core)
    assert stream.paused
    assert core.next_wake_s() is not None
    stream.read = 1000
    run(core)
    assert drain(core)[id(stream)][1] in ("stop", "length")
    core.close()


def test_more_sessions_than_sequences_park_the_longest_idle(core: Core) -> None:
    for name in "abcd":
        core.open(name, [])
        core.settle(name, "hello", answer(core, name, "hello"))
        run(core)
    assert core.seats["a"].seq < 0
    assert core.stats().cells_parked > 0
    kept = core.seats["a"].base()
    stream = ask(core, "a", "again")
    run(core)
    assert stream.prompt_tokens == len(core.prompts.word_tokens("again")[0]) + len(core.prompts.middle)
    assert core.seats["a"].kv[: len(kept)] == kept
    consistent(core)
    for name in "ef":
        core.open(name, [])
    with pytest.raises(NoRoomError):
        core.open("g", [])


def test_a_restored_session_answers_as_if_it_had_stayed(core: Core) -> None:
    core.open("a", [Message("user", "hello"), Message("assistant", "good day")])
    run(core)
    stayed = answer(core, "a", "what is it?")
    core.settle("a", None, None)
    run(core)
    core.admission.park(core.seats["a"])
    assert core.seats["a"].kv == []
    assert answer(core, "a", "what is it?") == stayed


@pytest.mark.parametrize("fault", ["deleted", "damaged"])
def test_a_lost_parked_file_is_computed_again(toy: Path, tmp_path: Path, fault: str) -> None:
    said: list[str] = []
    how = {**_as_dict(SMALL), "park_ram_bytes": 0, "park_dir": str(tmp_path)}
    core = Core(toy, LlamaSettings(**how), said.append)
    core.open("a", [Message("user", "hello"), Message("assistant", "good day")])
    run(core)
    expected = answer(core, "a", "what is it?")
    core.settle("a", None, None)
    core.admission.park(core.seats["a"])
    (file,) = tmp_path.glob("*.kv")
    if fault == "deleted":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-7])
    assert answer(core, "a", "what is it?") == expected
    assert len(said) == 1
    core.close()
    assert list(tmp_path.iterdir()) == []


def test_long_conversations_keep_their_form_without_idle_time(core: Core) -> None:
    core.open("a", [])
    costs = []
    for i in range(200):
        stream = ask(core, "a", f"say {i}", tokens=10)
        while core.seats["a"].job is not None and core.seats["a"].job.generation is not None:
            core.step()
        drain(core)
        costs.append(stream.prompt_tokens)
        core.settle("a", f"say {i}", written(core, core.seats["a"]) or "ok")
        consistent(core)
    valid_form(core, core.seats["a"])
    assert max(costs[20:]) <= 2 * max(costs[1:10])  # dropping old turns moves the rest, nothing is read again


def test_long_conversations_are_summed_up_in_idle_time(core: Core) -> None:
    core.open("a", [])
    for i in range(60):
        said = answer(core, "a", f"say {i}", tokens=10)
        core.settle("a", f"say {i}", said or "ok")
        run(core)
        consistent(core)
    assert core.summaries.made > 3
    assert core.seats["a"].turns[0].words.startswith("Remember what we said before:")
    valid_form(core, core.seats["a"])


def valid_form(core: Core, seat: Seat) -> None:
    """The head is in its place, and person and appliance take turns."""
    ends = core.prompts.between[0]
    opens = next(t for t in core.prompts.between if core.model.is_control(t) and t != ends)
    base = seat.base()
    marks = [t for t in base if t in (opens, ends)]
    assert marks == [ends, opens] * (2 * len(seat.turns))
    assert core.memory.ctx.span(seat.seq)[0] == 0
    assert len(base) <= core.memory.cells.share


def test_a_prompt_over_the_share_is_an_error_and_the_session_lives(core: Core) -> None:
    core.open("a", [Message("user", "x " * 20), Message("assistant", "y " * 20)])
    stream = ask(core, "a", "word " * 80)
    run(core)
    error = drain(core)[id(stream)][2]
    assert isinstance(error, NoRoomError)
    core.settle("a", None, None)
    answer(core, "a", "hello")


def test_code_1_parks_an_idle_session_and_ends_no_answer(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    core.open("idle", [Message("user", "hello"), Message("assistant", "good day")])
    run(core)
    core.open("a", [])
    stream = ask(core, "a", "hello", tokens=6)
    core.step()
    real, codes = core.memory.ctx.decode, iter([1])
    monkeypatch.setattr(core.memory.ctx, "decode", lambda: next(codes, None) or real())
    run(core)
    assert drain(core)[id(stream)][1] in ("stop", "length")
    assert core.seats["idle"].seq < 0
    consistent(core)


def test_a_failed_step_ends_its_turns_only(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    core.open("a", [])
    stream = ask(core, "a", "hello", tokens=6)
    core.step()
    real, codes = core.memory.ctx.decode, iter([-3])
    monkeypatch.setattr(core.memory.ctx, "decode", lambda: next(codes, None) or real())
    run(core)
    assert isinstance(drain(core)[id(stream)][2], EngineError)
    consistent(core)
    core.settle("a", None, None)
    answer(core, "a", "hello")


# -- other kinds of memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ["gemma3", "lfm2", "mamba", "qwen3", "deepseek2"])
def test_trimming_is_safe_for_every_kind_of_memory(tmp_path: Path, architecture: str) -> None:
    """After an interruption, the next answer is the one a fresh session with the same history gives."""
    how = {**_as_dict(SMALL), "share_tokens": 512, "summary_tokens": 0}
    core = Core(write_toy(tmp_path / "toy.gguf", architecture, layers=6, window=32), LlamaSettings(**how))
    core.open("a", [])
    said = answer(core, "a", "tell me a long story", tokens=60)
    core.settle("a", "tell me a long story", said[:6])
    run(core)
    seat = core.seats["a"]
    assert seat.kv == seat.base()
    got = answer(core, "a", "and then?", tokens=6)
    core.open("b", [])
    core.seats["b"].turns = list(seat.turns)
    fresh = answer(core, "b", "and then?", tokens=6)
    assert got[:2] == fresh[:2]
    core.close_session("a")
    core.close_session("b")
    assert core.memory.cells.used == 0
    core.close()


@pytest.mark.parametrize("architecture", ["gemma3", "lfm2"])
def test_long_conversations_on_windowed_and_hybrid_models(tmp_path: Path, architecture: str) -> None:
    how = {**_as_dict(SMALL), "share_tokens": 300, "system_prompt": "Be brief. " * 40}
    core = Core(write_toy(tmp_path / "toy.gguf", architecture, layers=6, window=32), LlamaSettings(**how))
    for name in "bc":
        core.open(name, [])
        answer(core, name, "hello", tokens=200)  # fills windows; fails where it does not end well
    core.open("a", [])
    for i in range(30):
        core.settle("a", f"say {i}", answer(core, "a", f"say {i}", tokens=12) or "ok")
        run(core)
        assert core.seats["a"].kv == core.seats["a"].base()
    assert core.summaries.made > 0
    core.close()


# -- files that are no chat models ---------------------------------------------------------------------------------


def test_a_model_without_a_chat_template_needs_one_named(tmp_path: Path) -> None:
    path = write_toy(tmp_path / "bare.gguf", layers=2, chat_template=None)
    with pytest.raises(ModelFileError, match="no chat template"):
        Core(path, SMALL)
    core = Core(path, LlamaSettings(**{**_as_dict(SMALL), "chat_format": "chatml"}))
    core.open("a", [])
    answer(core, "a", "hello")
    core.close()


def test_files_that_cannot_talk_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="no model file"):
        Core(tmp_path / "none.gguf", SMALL)
    (tmp_path / "text.gguf").write_text("no model")
    with pytest.raises(ModelFileError, match="not a GGUF file"):
        Core(tmp_path / "text.gguf", SMALL)
    with pytest.raises(ModelFileError, match="vocabulary"):
        Core(write_vocabulary_only(tmp_path / "vocabulary.gguf"), SMALL)


@pytest.mark.parametrize(
    ("key", "value"),
    [("sessions", 0), ("sessions", 300), ("batch_tokens", 4), ("context_tokens", 20), ("chat_format", "alpaca")],
)
def test_settings_that_hold_no_session_are_refused(toy: Path, key: str, value: Any) -> None:
    with pytest.raises(UsageError):
        Core(toy, LlamaSettings(**{**_as_dict(SMALL), key: value}))
