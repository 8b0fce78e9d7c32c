"""The wait: graded in the probability, bent by state and patience, right with any of its inputs missing."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.turns.combine import done_probability, fitted, logit, parse, sigmoid
from appliance.turns.completeness import TextLook, read
from appliance.turns.endpoint import Endpoint, EndpointSettings, Look
from appliance.turns.patience import Patience, PatienceSettings

SCORES = st.one_of(st.none(), st.floats(0, 1))
DONE, OPEN = read("What is the capital of France?"), read("I would like to order the")


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_surer_score_never_waits_longer(a: float, b: float) -> None:
    endpoint = Endpoint(EndpointSettings())
    low, high = sorted((a, b))
    assert endpoint.decide(Look(0, high)).wait_ms <= endpoint.decide(Look(0, low)).wait_ms


def test_the_wait_has_no_cliff() -> None:
    endpoint, settings = Endpoint(EndpointSettings()), EndpointSettings()
    waits = [endpoint.decide(Look(0, p / 1000)).wait_ms for p in range(1, 1000)]
    steps = [abs(a - b) for a, b in itertools.pairwise(waits)]
    assert max(steps) < 0.12 * (settings.most_ms - settings.least_ms)


@given(SCORES, st.sampled_from([None, DONE, OPEN]), SCORES, st.booleans(), st.booleans(), st.floats(0.5, 3))
def test_every_look_gets_a_wait_within_its_bounds(
    audio: float | None, text: TextLook | None, llm: float | None, yes_no: bool, dictation: bool, patience: float
) -> None:
    settings = EndpointSettings()
    endpoint = Endpoint(settings)
    look = Look(0, audio, text, llm, yes_no=yes_no, dictation=dictation, patience=patience)
    wait = endpoint.decide(look).wait_ms
    assert settings.least_ms <= wait <= settings.most_ms * settings.dictation_factor * patience + 1
    assert endpoint.decide(replace(look, silence_ms=wait)).end
    assert not endpoint.decide(replace(look, silence_ms=wait - 1)).end


def test_words_move_the_wait_both_ways() -> None:
    endpoint = Endpoint(EndpointSettings())
    heard = [endpoint.decide(Look(300, 0.7, text)).wait_ms for text in (DONE, None, OPEN)]
    assert heard[0] < heard[2]
    assert heard[1] < heard[2]


def test_a_sure_score_ends_a_question_within_a_quarter_second() -> None:
    assert Endpoint(EndpointSettings()).decide(Look(224, 0.95, voiced_ms=2000.0)).end


def test_a_bare_yes_after_a_question_ends_within_400_ms_whatever_it_sounds_like() -> None:
    text = read("Yes.", asked=True)
    for audio in (None, 0.3, 0.9):
        assert Endpoint(EndpointSettings()).decide(Look(400, audio, text, yes_no=True)).end


def test_a_short_question_waits_out_the_cap_only_where_the_model_speaks_against_it() -> None:
    settings = EndpointSettings()
    endpoint = Endpoint(settings)
    words = read("Who wrote Hamlet?")
    assert not words.unfinished
    assert endpoint.decide(Look(300, 0.1, words, voiced_ms=800.0)).wait_ms == settings.unopposed_ms
    assert endpoint.decide(Look(300, 0.1, words, 0.05, voiced_ms=800.0)).wait_ms == settings.unopposed_ms
    assert endpoint.decide(Look(300, 0.1, words, 0.001, voiced_ms=800.0)).wait_ms == settings.most_ms
    cut_short = read("Who wrote the")
    assert cut_short.unfinished
    assert endpoint.decide(Look(300, 0.1, cut_short, voiced_ms=800.0)).wait_ms == settings.most_ms


def test_dictation_gets_more_time_and_a_yes_no_question_less() -> None:
    endpoint = Endpoint(EndpointSettings())
    plain = endpoint.decide(Look(0, 0.5)).wait_ms
    assert endpoint.decide(Look(0, 0.5, dictation=True)).wait_ms > plain
    assert endpoint.decide(Look(0, 0.5, yes_no=True)).wait_ms < plain


def test_patience_is_a_setting() -> None:
    waits = [
        Endpoint(EndpointSettings(patience=p)).decide(Look(0, 0.5)).wait_ms for p in ("quick", "normal", "patient")
    ]
    assert waits == sorted(waits)
    assert len(set(waits)) == 3
    with pytest.raises(ValueError, match="quick, normal, patient"):
        EndpointSettings(patience="slow")


def test_the_reason_tells_a_score_from_the_cap() -> None:
    endpoint, settings = Endpoint(EndpointSettings()), EndpointSettings()
    assert endpoint.decide(Look(1000, 0.999)).reason == "score"
    assert endpoint.decide(Look(settings.most_ms, 0.0, OPEN)).reason == "silence"
    assert endpoint.decide(Look(10, 0.9)).reason == ""


def test_looks_come_about_every_100_ms_and_seldom_later() -> None:
    endpoint = Endpoint(EndpointSettings())
    assert endpoint.next_look_ms(96.0) == 196.0
    assert endpoint.next_look_ms(600.0) == 900.0


@given(st.floats(0, 1))
def test_sigmoid_undoes_logit(p: float) -> None:
    assert sigmoid(logit(p)) == pytest.approx(min(0.999, max(0.001, p)))


def test_the_fitted_weights_point_the_right_way() -> None:
    weights = fitted()
    assert weights.audio_slope > 0
    assert weights.llm_slope > 0
    by_name = dict(zip(TextLook.__dataclass_fields__, weights.text, strict=True))
    for against in ("open_end", "filler", "trailing", "groups"):
        assert by_name[against] < 0, against
    assert by_name["answer"] > 0
    assert weights.length_slope > 0
    assert done_probability(weights, 0.99, DONE, 0.5, 2000.0) > 0.75
    assert done_probability(weights, 0.05, OPEN, 0.001) < 0.3


def test_weights_that_miss_a_feature_are_refused() -> None:
    with pytest.raises(KeyError):
        parse("prior = 0.0\n[audio]\nbias = 0.0\nslope = 1.0\n[text]\nbias = 0.0\n[llm]\nbias = 0.0\nslope = 0.0\n")


def test_a_session_that_was_cut_off_becomes_patient_and_forgets_slowly() -> None:
    patience = Patience()
    patience.was_cut_off()
    raised = patience.factor
    assert raised == PatienceSettings().marked
    for _ in range(20):
        patience.turn_went_well()
    assert 1.0 <= patience.factor < 1.05
    assert patience.factor < raised


def test_going_on_at_once_counts_as_cut_off_and_much_later_does_not() -> None:
    patience = Patience()
    assert not patience.resumed(5_000)
    assert patience.factor == 1.0
    assert patience.resumed(300)
    for _ in range(50):
        patience.resumed(300)
    assert patience.factor == PatienceSettings().most


def test_a_turn_that_was_over_is_taken_back_by_words_that_break_off_and_not_by_plain_ones() -> None:
    endpoint = Endpoint(EndpointSettings())
    sounds_done = Look(200, 0.97, voiced_ms=1500.0)
    plain, broken_off = read("How do you make toast?"), read("How do you make the")
    assert endpoint.decide(sounds_done).end
    assert not endpoint.decide(replace(sounds_done, text=plain)).end
    assert endpoint.decide(replace(sounds_done, text=plain, over=True)).end
    assert not endpoint.decide(replace(sounds_done, text=broken_off, over=True)).end
    assert not endpoint.decide(replace(sounds_done, text=plain, llm_score=0.001, over=True)).end


def test_a_whole_answer_to_a_yes_no_question_does_not_wait_for_its_length() -> None:
    endpoint = Endpoint(EndpointSettings())

    def waits(words: str, *, yes_no: bool = True) -> float:
        look = Look(0, 0.9, read(words, asked=True), 0.0228, voiced_ms=320, yes_no=yes_no)
        return endpoint.decide(look).wait_ms

    assert waits("No.") <= EndpointSettings().answered_ms
    assert waits("No.", yes_no=False) > 2 * waits("No.")
    assert waits("No, but") > 2 * waits("No.")
    patient = Look(0, 0.9, read("No.", asked=True), 0.0228, voiced_ms=320, yes_no=True, patience=3.0)
    assert endpoint.decide(patient).wait_ms > waits("No.")
