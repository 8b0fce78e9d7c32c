"""What words say: completeness in five languages, backchannels, stop words, guards."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.engines.ports import RATE
from appliance.turns.bargein import Action, BargeIn, BargeInSettings, Overlap, is_backchannel
from appliance.turns.completeness import FEATURES, LANGUAGES, TextLook, lexicon, read
from appliance.turns.guards import GuardSettings, Steady, is_words, measure, worth_transcribing

BROKEN_OFF = [
    ("en", "set a timer for", "open_end"),
    ("en", "I went to the", "open_end"),
    ("en", "because", "open_end"),
    ("en", "what is the capital of", "open_end"),
    ("en", "I would like, um", "filler"),
    ("en", "remind me", "begun"),
    ("en", "If it rains tomorrow", "begun"),
    ("en", "If the light is on", "begun"),
    ("en", "and then she...", "trailing"),
    ("en", "when somebody knocks,", "trailing"),
    ("en", "what I want,", "begun"),
    ("en", "my number is five five five", "groups"),
    ("en", "the code is 4 8", "groups"),
    ("en", "it's spelled S M", "groups"),
    ("en", "eggs, milk, bread", "listing"),
    ("en", "the flight to Montreal, Montreal", "searching"),
    ("en", "could you put the put the", "searching"),
    ("en", "can you tell me, um?", "filler"),
    ("en", "it was like", "filler"),
    ("en", "how much?", "begun"),
    ("en", "the", "few"),
    ("de", "Stell einen Wecker für", "open_end"),
    ("de", "Ich möchte einen Tisch für morgen und", "open_end"),
    ("de", "Wie wird das Wetter, ähm", "filler"),
    ("de", "Wenn es morgen regnet", "begun"),
    ("de", "meine Nummer ist null sieben", "groups"),
    ("es", "pon un temporizador de", "open_end"),
    ("es", "quiero reservar una mesa para", "open_end"),
    ("es", "mi número es cinco cinco", "groups"),
    ("fr", "mets un minuteur pour", "open_end"),
    ("fr", "je voudrais réserver une table et", "open_end"),
    ("fr", "mon numéro c'est zéro six", "groups"),
    ("it", "imposta un timer per", "open_end"),
    ("it", "vorrei prenotare un tavolo e", "open_end"),
    ("it", "il mio numero è tre tre", "groups"),
]
COMPLETE = [
    ("en", "What is the capital of France?"),
    ("en", "What is it for?"),
    ("en", "Set a timer for ten minutes."),
    ("en", "What's two plus three?"),
    ("en", "I need eggs, flour and sugar."),
    ("en", "I need eggs, milk, flour and sugar."),
    ("en", "yes"),
    ("en", "stop"),
    ("en", "stop, stop, stop"),
    ("en", "What does hocus pocus mean?"),
    ("en", "Where's my phone?"),
    ("en", "Turn the lights on."),
    ("en", "Sure, why not?"),
    ("en", "What do you need?"),
    ("en", "What is it like?"),
    ("en", "who wrote Hamlet,"),
    ("en", "Yes, it is."),
    ("en", "Tell me more."),
    ("en", "It was 1999."),
    ("en", "I'd like a sandwich, a juice, and a receipt, please."),
    ("de", "Ich weiß es nicht."),
    ("es", "Creo que no."),
    ("fr", "Baisse le son."),
    ("en", "Because I was late. I took a taxi."),
    ("en", "The door, er, is open."),
    ("de", "Schalte das Licht ein."),
    ("de", "Was ist das?"),
    ("de", "Wie spät ist es?"),
    ("de", "Mach das Licht aus."),
    ("de", "Mach bitte das Fenster zu."),
    ("de", "ja bitte"),
    ("es", "¿Qué hora es?"),
    ("es", "Apaga la luz."),
    ("fr", "Quelle heure est-il ?"),
    ("fr", "Éteins la lumière."),
    ("it", "Che ore sono?"),
    ("it", "Spegni la luce."),
]
AGAINST = FEATURES[: FEATURES.index("few") + 1]


@pytest.mark.parametrize(("language", "text", "feature"), BROKEN_OFF)
def test_what_is_broken_off_shows(language: str, text: str, feature: str) -> None:
    assert getattr(read(text, language), feature) > 0


@pytest.mark.parametrize(("language", "text"), COMPLETE)
def test_what_is_complete_shows_no_sign_of_more(language: str, text: str) -> None:
    look = read(text, language)
    assert {name: getattr(look, name) for name in AGAINST if getattr(look, name)} == {}


def test_short_answers_count_after_a_question_only() -> None:
    assert read("The second one", asked=True).reply == 1
    assert read("The second one", asked=False).reply == 0
    assert read("No.", asked=True).answer == 1


def test_dictation_holds_on_to_any_number() -> None:
    assert read("twenty", dictating=True).groups == 1
    assert read("twenty", dictating=False).groups == 0


def test_an_unknown_language_still_reads_punctuation() -> None:
    look = read("Mitä kuuluu?", "fi")
    assert (look.question, look.open_end) == (1.0, 0.0)


@given(st.text(max_size=80), st.sampled_from([*LANGUAGES, "xx"]), st.booleans(), st.booleans())
def test_features_are_within_0_and_1_for_any_text(text: str, language: str, asked: bool, dictating: bool) -> None:
    assert all(0 <= v <= 1 for v in read(text, language, asked=asked, dictating=dictating).values())


def test_no_words_say_nothing() -> None:
    assert read("") == read("...") == TextLook()


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_every_role(language: str) -> None:
    lex = lexicon(language)
    for role in lex.__dataclass_fields__:
        if (role, language) == ("closed", "it"):
            continue  # none is known to be needed
        words = getattr(lex, role)
        assert len(words) >= 5, (language, role)
        assert all(w == w.lower() for w in words)


@pytest.mark.parametrize(
    ("language", "text"),
    [("en", "mm-hm"), ("en", "Yeah, okay."), ("en", "Uh-huh, I see."), ("de", "Mhm, genau."), ("es", "Sí, claro."),
     ("fr", "D'accord."), ("it", "Sì, certo.")],
)  # fmt: skip
def test_backchannels(language: str, text: str) -> None:
    assert is_backchannel(text, language)


@pytest.mark.parametrize("text", ["Yeah but what about Sunday?", "No.", "", "Okay, and tomorrow"])
def test_what_is_no_backchannel(text: str) -> None:
    assert not is_backchannel(text)


def overlap(**changes: object) -> Overlap:
    values = {"speaking": True, "since_ms": 320.0, "voiced_ms": 300.0, "silence_ms": 0.0} | changes
    return Overlap(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "action"),
    [
        ({"voiced_ms": 40.0}, Action.IGNORE),
        ({}, Action.DUCK),
        ({"words": "Stop!"}, Action.INTERRUPT),
        ({"words": "What about Sunday"}, Action.DUCK),
        ({"words": "What about Sunday", "voiced_ms": 560.0}, Action.INTERRUPT),
        ({"words": "On Sunday?", "silence_ms": 128.0, "logprob": -0.7}, Action.INTERRUPT),
        ({"words": "On Sunday?", "silence_ms": 128.0, "logprob": -0.7, "pending": True}, Action.DUCK),
        ({"words": "and I'm on", "logprob": -1.0}, Action.DUCK),
        ({"words": "N-M-M.", "silence_ms": 260.0}, Action.RESUME),
        ({"words": "Anamham.", "silence_ms": 260.0, "logprob": -1.1}, Action.RESUME),
        ({"words": "mm-hm"}, Action.DUCK),
        ({"words": "mm-hm", "silence_ms": 260.0}, Action.RESUME),
        ({"words": "", "silence_ms": 260.0}, Action.RESUME),
        ({"since_ms": 700.0, "silence_ms": 200.0}, Action.RESUME),
        ({"since_ms": 700.0, "voiced_ms": 690.0}, Action.INTERRUPT),
        ({"since_ms": 700.0, "voiced_ms": 690.0, "probability": 0.4}, Action.RESUME),
    ],
)
def test_interruption_backchannel_or_noise(changes: dict[str, object], action: Action) -> None:
    assert BargeIn(BargeInSettings()).decide(overlap(**changes)).action is action


@given(
    st.booleans(), st.floats(700, 5000), st.floats(0, 5000), st.floats(0, 5000), st.floats(0, 1),
    st.one_of(st.none(), st.sampled_from(["", "mm-hm", "what about", "stop"])),
)  # fmt: skip
def test_after_700_ms_the_verdict_is_final(
    speaking: bool, since: float, voiced: float, silence: float, probability: float, words: str | None
) -> None:
    verdict = BargeIn(BargeInSettings()).decide(Overlap(speaking, since, voiced, silence, probability, words))
    assert verdict.final


def test_thinking_and_speaking_have_their_own_sensitivity() -> None:
    barge_in = BargeIn(BargeInSettings())
    goes_on = {"since_ms": 700.0, "voiced_ms": 500.0}
    assert barge_in.decide(overlap(speaking=False, **goes_on)).action is Action.INTERRUPT
    assert barge_in.decide(overlap(speaking=True, **goes_on)).action is Action.RESUME


def test_silence_and_steady_noise_are_not_worth_a_transcript() -> None:
    settings, rng = GuardSettings(), np.random.default_rng(0)
    noise = rng.normal(0, 0.05, RATE).astype(np.float32)
    speech = noise * np.repeat([0.02, 1, 0.3, 1, 0.02], RATE // 5).astype(np.float32)
    assert worth_transcribing(measure(noise * 1e-4, 500.0), settings) == "near silence"
    assert worth_transcribing(measure(noise, 500.0), settings) == "steady noise"
    assert worth_transcribing(measure(speech, 64.0), settings) == "too short"
    assert worth_transcribing(measure(speech, 500.0), settings) == ""
    assert worth_transcribing(measure(np.zeros(0, np.float32), 0.0), settings) == "near silence"


def test_transcripts_that_cannot_be_words() -> None:
    settings = GuardSettings()

    def verdict(text: str, no_speech: float = 0.0, logprob: float = -0.2, ms: float = 1000.0) -> str:
        return is_words(text, no_speech=no_speech, logprob=logprob, audio_ms=ms, settings=settings)

    assert verdict("What time is it?") == ""
    assert verdict(" ... ") == "no words"
    assert verdict("Thank you for watching.", no_speech=0.9, logprob=-1.5) == "no speech"
    assert verdict("Thank you.", no_speech=0.9, logprob=-0.1) == ""
    assert verdict(" ".join(["word"] * 30)) == "too many words"


def test_a_turn_whose_words_stop_changing_ends() -> None:
    steady = Steady(GuardSettings(steady_looks=3, steady_after_ms=5_000))
    assert not any(steady.draft("one two three", ms) for ms in (1_000, 2_000, 3_000, 4_000))
    assert steady.draft("one two three", 6_000)
    assert not steady.draft("one two three four", 7_000)
