"""A try that was dropped and comes again with the same words: what it had drawn is said at once."""

from pathlib import Path

import pytest
from llama_steps import SMALL, Stream, answer, ask, consistent, drain, run

from appliance.engines.llama.core import Core

GREEDY = {"temperature": 0.0}
CHANCE = {"temperature": 1.0, "seed": 7, "repeat_penalty": 1.3}


def dropped(core: Core, words: str = "what is it?", drawn: int = 5, tokens: int = 12, **how: object) -> str:
    """A try of `drawn` tokens at `words`, cancelled. What it wrote."""
    stream = ask(core, "a", words, tokens, **how)
    for _ in range(50):
        job = core.seats["a"].job
        if job is not None and len(job.drawn) >= drawn:
            break
        core.step()
    stream.cancelled = True
    core.step()
    text, finish, _ = drain(core)[id(stream)]
    assert finish == "cancelled"
    return text


def says_at_once(core: Core, stream: Stream) -> str:
    """Its text after a single step."""
    core.step()
    consistent(core)
    return drain(core).get(id(stream), ("", "", None))[0]


@pytest.mark.parametrize("how", [GREEDY, CHANCE])
def test_the_same_words_again_go_on_where_the_try_was_dropped(core: Core, how: dict[str, float]) -> None:
    core.open("a", [])
    whole = answer(core, "a", "what is it?", tokens=12, **how)
    core.settle("a", None, None)
    run(core)
    begun = dropped(core, **how)
    read = len(core.seats["a"].kv)
    stream = ask(core, "a", "what is it?", 12, **how)
    soon = says_at_once(core, stream)
    assert soon.startswith(begun)
    assert stream.recalled == 5
    assert len(core.seats["a"].kv) == read + 1  # the last of the tokens drawn; nothing was read again
    run(core)
    assert soon + drain(core)[id(stream)][0] == whole
    core.settle("a", "what is it?", whole)
    run(core)
    consistent(core)


def test_a_try_at_the_very_end_of_its_answer_is_said_whole(core: Core) -> None:
    core.open("a", [])
    whole = answer(core, "a", "what is it?", tokens=4)
    again = ask(core, "a", "what is it?", tokens=4)
    run(core)
    assert drain(core)[id(again)] == (whole, "length", None)
    assert core.memory.cells.reserved == 0


def test_it_is_remembered_although_its_cells_were_given_up(core: Core) -> None:
    core.open("a", [])
    begun = dropped(core)
    core.anticipate("a", "what is it", lambda _: None)  # as while speech seemed to go on
    run(core)
    stream = ask(core, "a", "what is it?", 12)
    assert says_at_once(core, stream).startswith(begun)
    stream.cancelled = True
    core.step()
    drain(core)
    core.admission.park(core.seats["a"])
    assert core.seats["a"].kv == []
    stream = ask(core, "a", "what is it?", 12)
    assert says_at_once(core, stream).startswith(begun)
    run(core)


def test_a_client_that_halts_it_gets_no_more_than_it_wants(toy: Path) -> None:
    core = Core(toy, SMALL)
    core.open("a", [])
    whole = answer(core, "a", "what is it?", 12, **CHANCE)
    core.settle("a", None, None)
    dropped(core, **CHANCE)
    stream = ask(core, "a", "what is it?", 12, **CHANCE)
    seen: list[str] = []
    stream.halt = lambda text: seen.append(text) is None and len(seen) == 2
    run(core)
    drain(core)
    assert len(seen) == stream.recalled == 2
    assert stream.paused
    consistent(core)
    stream.wanted = 3
    run(core)
    assert drain(core)[id(stream)][1] in ("stop", "length")
    assert "".join(seen) == whole  # what was forgotten is drawn again
    consistent(core)
    core.close()


@pytest.mark.parametrize(
    ("words", "how"),
    [
        ("what is this?", GREEDY),
        ("what is it?", {"seed": 8}),
        ("what is it?", {"grammar": "root ::= [a-z ]+"}),
    ],
)
def test_what_is_not_the_same_begins_anew(core: Core, words: str, how: dict[str, object]) -> None:
    core.open("a", [])
    dropped(core)
    stream = ask(core, "a", words, 12, **how)
    run(core)
    assert stream.recalled == 0
    consistent(core)


def test_a_settled_turn_is_not_remembered(core: Core) -> None:
    core.open("a", [])
    dropped(core)
    core.settle("a", None, None)
    stream = ask(core, "a", "what is it?", 12)
    run(core)
    assert stream.recalled == 0


def test_the_opinion_comes_with_the_first_of_the_old_tokens(core: Core) -> None:
    core.open("a", [])
    first = ask(core, "a", "what is it?", 12)
    while first.turn_end is None:
        core.step()
    core.step()
    first.cancelled = True
    core.step()
    again = ask(core, "a", "what is it?", 12)
    assert again.turn_end == first.turn_end
    run(core)
    assert again.turn_end == first.turn_end
