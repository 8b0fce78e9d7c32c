"""Draws: order of the filters, seeds, grammars and schemas over a toy vocabulary."""

import json
from collections.abc import Iterator

import numpy as np
import pytest

from appliance.engines.llama.binding import Model
from appliance.engines.llama.sampling import Sampler, probabilities
from appliance.engines.llama.stream import TextOut
from appliance.engines.ports import Sampling
from appliance.errors import UsageError
from tests.fakes.toy_gguf import write_toy


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    made = Model(write_toy(tmp_path_factory.mktemp("toy") / "toy.gguf", layers=1))
    yield made
    made.close()


def row(model: Model, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, model.vocabulary).astype(np.float32)


def test_temperature_zero_takes_the_best(model: Model) -> None:
    sampler = Sampler(model, Sampling(temperature=0, repeat_penalty=1))
    for seed in range(20):
        logits = row(model, seed)
        assert sampler.draw(logits.copy()) == int(logits.argmax())


def test_the_same_seed_draws_the_same_and_another_differs(model: Model) -> None:
    def draws(seed: int) -> list[int]:
        sampler = Sampler(model, Sampling(temperature=1.0, seed=seed))
        return [sampler.draw(row(model, i)) for i in range(40)]

    assert draws(1) == draws(1)
    assert draws(1) != draws(2)


def test_min_p_keeps_only_tokens_near_the_best(model: Model) -> None:
    sampler = Sampler(model, Sampling(temperature=2.0, min_p=0.2, top_p=1.0, repeat_penalty=1))
    for seed in range(200):
        logits = row(model, seed)
        token = sampler.draw(logits.copy())
        assert logits[token] >= logits.max() + np.log(0.2)


def test_top_p_keeps_the_smallest_set_of_that_mass(model: Model) -> None:
    logits = np.full(model.vocabulary, -50, np.float32)
    logits[[10, 11, 12]] = np.log([0.6, 0.3, 0.1]).astype(np.float32)
    sampler = Sampler(model, Sampling(temperature=1.0, min_p=0.0, top_p=0.8, repeat_penalty=1))
    drawn = [sampler.draw(logits.copy()) for _ in range(300)]
    assert set(drawn) == {10, 11}
    assert 0.55 < drawn.count(10) / 300 < 0.78  # 0.6 of 0.9


def test_repetition_costs(model: Model) -> None:
    logits = np.zeros(model.vocabulary, np.float32)
    logits[5], logits[6] = 2.0, 1.9
    sampler = Sampler(model, Sampling(temperature=0, repeat_penalty=1.5))
    assert [sampler.draw(logits.copy()) for _ in range(2)] == [5, 6]


@pytest.mark.parametrize(
    "wrong",
    [
        Sampling(max_tokens=0),
        Sampling(temperature=-1),
        Sampling(temperature=float("nan")),
        Sampling(top_p=0),
        Sampling(min_p=2),
        Sampling(repeat_penalty=0),
        Sampling(grammar="root ::= ("),
        Sampling(grammar="other ::= [a-z]"),
        Sampling(json_schema="{not json"),
        Sampling(json_schema='{"type": "nonsense"}'),
        Sampling(json_schema='{"$ref": "#/nowhere"}'),
    ],
)
def test_what_cannot_be_drawn_is_an_error(model: Model, wrong: Sampling) -> None:
    with pytest.raises(UsageError):
        Sampler(model, wrong)


def test_a_grammar_holds_whatever_the_logits_say(model: Model) -> None:
    sampler = Sampler(model, Sampling(temperature=1.0, grammar='root ::= "yes" | "no"', seed=3))
    text = b""
    for seed in range(10):
        token = sampler.draw(row(model, seed))
        if model.ends(token):
            break
        text += model.piece(token)
    assert text in (b"yes", b"no")
    sampler.close()


def test_a_schema_yields_json_of_its_shape(model: Model) -> None:
    schema = {
        "type": "object",
        "properties": {"on": {"type": "boolean"}, "room": {"enum": ["kitchen", "hall"]}},
        "required": ["on", "room"],
        "additionalProperties": False,
    }
    sampler = Sampler(model, Sampling(temperature=1.0, json_schema=json.dumps(schema), repeat_penalty=1))
    # A toy writes spaces for ever where a grammar lets it; a slight push towards closing marks ends that.
    push = np.zeros(model.vocabulary, np.float32)
    push[[model.tokenize(mark)[-1] for mark in '"}:,']] = 8
    text = b""
    for seed in range(400):
        token = sampler.draw(row(model, seed) + push)
        if model.ends(token):
            break
        text += model.piece(token)
    value = json.loads(text)
    assert isinstance(value["on"], bool)
    assert value["room"] in ("kitchen", "hall")


def test_the_masked_row_is_only_built_on_rejection(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = Sampler(model, Sampling(temperature=0, grammar='root ::= "a" [a-z]*', repeat_penalty=1))
    grammar = sampler._grammar
    assert grammar is not None
    calls: list[int] = []
    real = grammar.masked
    monkeypatch.setattr(grammar, "masked", lambda logits: calls.append(1) or real(logits))
    liked = np.zeros(model.vocabulary, np.float32)
    liked[model.tokenize("a")[-1]] = 9
    sampler.draw(liked.copy())
    sampler.draw(liked.copy())
    assert len(calls) <= 1  # "a" may come with a space in front from this vocabulary
    disliked = np.zeros(model.vocabulary, np.float32)
    disliked[model.tokenize("7")[-1]] = 9
    before = len(calls)
    sampler.draw(disliked)
    assert len(calls) == before + 1


def test_probabilities_are_a_share_of_all() -> None:
    logits = np.log(np.array([0.1, 0.2, 0.3, 0.4], np.float32))
    assert probabilities(logits, [1, 3]) == pytest.approx(0.6)


def test_characters_come_whole() -> None:
    out = TextOut(())
    data = "naïve 👍".encode()
    pieces = [out.add(bytes([b])) for b in data] + [out.add(b"", last=True)]
    assert "".join(pieces) == "naïve 👍"
    assert all("\ufffd" not in piece for piece in pieces)


def test_stop_strings_never_show_even_in_parts() -> None:
    out = TextOut(("\nUser:",))
    shown = [out.add(c.encode()) for c in "Well.\nUs and\nUser: hi"]
    assert "".join(shown) == "Well.\nUs and"
    assert out.stopped


def test_what_only_began_like_a_stop_string_is_shown_at_the_end() -> None:
    out = TextOut(("END",))
    assert out.add(b"the EN") == "the "
    assert out.add(b"", last=True) == "EN"
