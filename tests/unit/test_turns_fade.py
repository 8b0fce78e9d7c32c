"""A pause that the level shows before the speech probability has fallen."""

from hypothesis import given
from hypothesis import strategies as st

from appliance.engines.ports import BLOCK
from appliance.turns.gate import Gate, GateEvent, GateSettings, Pause, Resume, Silence, SpeechStart

VOICE, QUIET = -25.0, -60.0


def feed(blocks: list[tuple[float, float | None]]) -> list[tuple[int, GateEvent]]:
    """(block, event) of a gate fed with (probability, dBFS)."""
    gate = Gate(GateSettings())
    return [(i, e) for i, (p, db) in enumerate(blocks) for e in gate.feed(p, i * BLOCK, db)]


def kinds(found: list[tuple[int, GateEvent]], kind: type) -> list[int]:
    return [i for i, event in found if isinstance(event, kind)]


def test_the_pause_is_found_as_soon_as_the_voice_is_gone() -> None:
    lagging = [(0.95, VOICE)] * 6 + [(0.9, QUIET), (0.7, QUIET), (0.5, QUIET), (0.2, QUIET), (0.1, QUIET)]
    with_levels = feed(lagging)
    assert kinds(with_levels, Pause) == [6]
    assert [e.ms for _, e in with_levels if isinstance(e, Silence)] == [32.0, 64.0, 96.0, 128.0, 160.0]
    assert kinds(feed([(p, None) for p, _ in lagging]), Pause) == [9]


def test_a_quiet_sound_of_which_the_model_stays_sure_is_no_pause() -> None:
    assert kinds(feed([(0.95, VOICE)] * 6 + [(0.95, QUIET)] * 6), Pause) == []


def test_a_stop_within_a_word_resumes_when_the_voice_is_back() -> None:
    found = feed([(0.95, VOICE)] * 6 + [(0.85, QUIET)] + [(0.95, VOICE)] * 4)
    assert kinds(found, Pause) == [6]
    assert [(i, e.first_sample) for i, e in found if isinstance(e, Resume)] == [(8, 7 * BLOCK)]


def test_a_voice_that_went_on_quietly_was_no_pause() -> None:
    found = feed([(0.95, VOICE)] * 6 + [(0.8, VOICE - 22)] * 8)
    assert kinds(found, Pause) == [6]
    assert [(i, e.first_sample) for i, e in found if isinstance(e, Resume)] == [(10, 6 * BLOCK)]


def test_someone_who_speaks_lower_from_now_on_is_followed() -> None:
    found = feed([(0.95, VOICE)] * 4 + [(0.95, VOICE - 19)] * 60 + [(0.9, VOICE - 22)] + [(0.95, VOICE - 19)] * 2)
    assert kinds(found, Pause) == []


def test_the_tail_of_a_turn_that_ended_in_a_fade_begins_no_other() -> None:
    gate = Gate(GateSettings())
    blocks = [(0.95, VOICE)] * 6 + [(0.9, QUIET)]
    for i, (probability, level) in enumerate(blocks):
        gate.feed(probability, i * BLOCK, level)
    gate.end_turn()
    tail = [gate.feed(p, (7 + i) * BLOCK, QUIET) for i, p in enumerate([0.8, 0.7, 0.6, 0.6, 0.2, 0.0])]
    assert not any(tail)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(-120, 0)), max_size=200))
def test_whatever_comes_pauses_and_resumptions_alternate_and_silence_only_grows(
    blocks: list[tuple[float, float | None]],
) -> None:
    paused, silence = False, 0.0
    for _, event in feed(blocks):
        match event:
            case SpeechStart():
                paused = False
            case Pause():
                assert not paused
                paused, silence = True, 0.0
            case Silence():
                assert paused
                assert event.ms > silence
                silence = event.ms
            case Resume():
                assert paused
                paused = False
