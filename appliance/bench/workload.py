"""What the turns of a load ask for, read off the events: the duty cycles that a prediction starts from.

It owns the way from events to a `TurnProfile`. Lengths, tokens and pauses are the workload's; how long anything
took is not looked at, except the start of the draft and the wait of the end-of-turn policy, which are settings.
"""

from collections import defaultdict
from collections.abc import AsyncIterable, Iterable
from dataclasses import dataclass, field, replace
from statistics import fmean, median, pstdev

from appliance import events
from appliance.capacity.predict import TurnProfile
from appliance.clock import ms

_JITTER = 0.1  # coefficient of variation of the time that the same work takes
_ASKED = (
    events.Transcribed,
    events.TurnEnded,
    events.FirstToken,
    events.ClauseReady,
    events.ClauseSynthesized,
    events.PlaybackStarted,
    events.TurnFinished,
)


async def gather(listened: AsyncIterable[events.Event]) -> list[events.Event]:
    """The events that `profile` reads, until there are no more."""
    return [event async for event in listened if isinstance(event, _ASKED)]


@dataclass(slots=True)
class _Turn:
    drafts: list[events.Transcribed] = field(default_factory=list)
    ended: events.TurnEnded | None = None
    first_token: events.FirstToken | None = None
    clause: events.ClauseReady | None = None
    sound: events.ClauseSynthesized | None = None
    playing: float | None = None
    finished: events.TurnFinished | None = None


def profile(heard: Iterable[events.Event]) -> TurnProfile:
    """The mean turn among `heard`; the default where not one was finished."""
    whole = _whole(heard)
    return _mean(whole) if whole else TurnProfile()


def profiles(heard: Iterable[events.Event]) -> list[TurnProfile]:
    """Every finished turn among `heard` by itself."""
    return [replace(_mean({key: turn}), spread=_JITTER) for key, turn in _whole(heard).items()]


def _whole(heard: Iterable[events.Event]) -> dict[tuple[str, int], _Turn]:
    """The turns of which every stage was seen."""
    turns: dict[tuple[str, int], _Turn] = defaultdict(_Turn)
    for event in heard:
        turn = turns[event.session, event.turn]
        match event:
            case events.Transcribed():
                turn.drafts.append(event)
            case events.TurnEnded():
                turn.ended = event
            case events.FirstToken():
                turn.first_token = event
            case events.ClauseReady(index=0):
                turn.clause = event
            case events.ClauseSynthesized(index=0):
                turn.sound = event
            case events.PlaybackStarted():
                turn.playing = event.at
            case events.TurnFinished():
                turn.finished = event
    return {key: t for key, t in turns.items() if t.finished and t.ended and t.drafts and t.sound and t.playing}


def _mean(turns: dict[tuple[str, int], _Turn]) -> TurnProfile:
    each = list(turns.values())
    speech = [t.drafts[-1].audio_ms / 1000 for t in each]
    return TurnProfile(
        speech_s=fmean(speech),
        answer_s=fmean(t.finished.at - t.playing for t in each if t.finished and t.playing),
        pause_s=_pause_s(turns, fmean(speech)),
        prompt_tokens=round(fmean(t.first_token.prompt_tokens if t.first_token else 0 for t in each)),
        answer_tokens=max(1, round(fmean(t.finished.record.tokens for t in each if t.finished))),
        first_clause_tokens=max(1, round(fmean(t.clause.tokens for t in each if t.clause))),
        first_clause_s=fmean(t.sound.audio_ms for t in each if t.sound) / 1000,
        asr_runs=fmean(len(t.drafts) for t in each),
        held=fmean(t.drafts[-1].at - t.drafts[-1].took_ms / 1000 < t.ended.at for t in each if t.ended),
        draft_after_ms=median(_begun_ms(t) for t in each),
        endpoint_ms=median(ms(t.ended.last_speech_at, t.ended.at) for t in each if t.ended),
        output_ms=fmean(t.finished.record.ms.output for t in each if t.finished and t.finished.record.ms),
        spread=pstdev(speech) / fmean(speech),
    )


def _begun_ms(turn: _Turn) -> float:
    """From the last speech to the start of the transcript that stood."""
    draft = turn.drafts[-1]
    return ms(turn.ended.last_speech_at, draft.at) - draft.took_ms if turn.ended else 0.0


def _pause_s(turns: dict[tuple[str, int], _Turn], speech_s: float) -> float:
    """From the end of an answer to the next question, whose speech is not counted."""
    gaps = []
    for (session, number), turn in turns.items():
        after = turns.get((session, number + 1))
        if after is not None and after.ended is not None and turn.finished is not None:
            gaps.append(after.ended.last_speech_at - turn.finished.at - speech_s)
    return max(0.0, fmean(gaps)) if gaps else TurnProfile().pause_s
