"""Sessions that last: parked and brought back, summed up, and trimmed on every kind of memory."""

from pathlib import Path

import pytest
from llama_steps import SMALL, answer, as_dict, ask, consistent, drain, run, valid_form, written

from appliance.engines.llama.core import Core
from appliance.engines.llama.settings import LlamaSettings
from appliance.engines.ports import Message
from appliance.errors import NoRoomError
from tests.fakes.toy_gguf import write_toy


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
    how = {**as_dict(SMALL), "park_ram_bytes": 0, "park_dir": str(tmp_path)}
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


@pytest.mark.parametrize("architecture", ["gemma3", "lfm2", "mamba", "qwen3", "deepseek2"])
def test_trimming_is_safe_for_every_kind_of_memory(tmp_path: Path, architecture: str) -> None:
    """After an interruption, the next answer is the one a fresh session with the same history gives."""
    how = {**as_dict(SMALL), "share_tokens": 512, "summary_tokens": 0}
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
    how = {**as_dict(SMALL), "share_tokens": 300, "system_prompt": "Be brief. " * 40}
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
