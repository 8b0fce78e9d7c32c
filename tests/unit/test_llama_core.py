"""The engine's thread logic on toy models: real llama.cpp, random weights, no threads, step by step."""

from pathlib import Path
from typing import Any

import pytest
from llama_steps import SMALL, answer, as_dict, ask, consistent, drain, run

from appliance.engines.llama.core import Core
from appliance.engines.llama.settings import LlamaSettings
from appliance.engines.ports import Message
from appliance.errors import EngineError, ModelFileError, NoRoomError, UsageError
from tests.fakes.toy_gguf import write_toy, write_vocabulary_only


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
    core = Core(toy, LlamaSettings(**{**as_dict(SMALL), "unread_pieces": 4, "stall_s": 0.0}))
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
    core = Core(toy, LlamaSettings(**{**as_dict(SMALL), "unread_pieces": 4, "stall_s": 60.0}))
    core.open("a", [])
    stream = ask(core, "a", "hello", tokens=12)
    run(core)
    assert stream.paused
    assert core.next_wake_s() is not None
    stream.read = 1000
    run(core)
    assert drain(core)[id(stream)][1] in ("stop", "length")
    core.close()


def test_an_answer_that_is_halted_takes_no_step_until_its_next_piece_is_wanted(toy: Path) -> None:
    core = Core(toy, SMALL)
    core.open("a", [])
    stream = ask(core, "a", "hello", tokens=12)
    seen: list[str] = []
    stream.halt = lambda text: seen.append(text) is None and len(seen) == 3
    run(core)
    _, finish, _ = drain(core)[id(stream)]
    assert len(seen) == 3  # the third halted it, although everything has been read
    assert finish == ""
    assert core.next_wake_s() is not None
    stream.wanted = 3
    run(core)
    assert len(seen) == 3  # these are the pieces that it has
    stream.wanted = 4
    run(core)
    assert drain(core)[id(stream)][1] in ("stop", "length")
    core.close()


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


def test_a_model_without_a_chat_template_needs_one_named(tmp_path: Path) -> None:
    path = write_toy(tmp_path / "bare.gguf", layers=2, chat_template=None)
    with pytest.raises(ModelFileError, match="no chat template"):
        Core(path, SMALL)
    core = Core(path, LlamaSettings(**{**as_dict(SMALL), "chat_format": "chatml"}))
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
        Core(toy, LlamaSettings(**{**as_dict(SMALL), key: value}))
