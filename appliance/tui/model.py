"""What the screen shows, as plain state that events change. No Textual, no drawing, no clock.

It owns what of the events is worth keeping for the eye: the state of each session, the last turns, the last
snapshots of capacity, and a short log that holds no one's words.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from appliance.events import (
    AdmissionDecided,
    BargeIn,
    CapacitySnapshot,
    ClauseReady,
    ClauseSynthesized,
    DeviceChanged,
    EndpointLooked,
    Event,
    FirstToken,
    Heard,
    LadderMoved,
    LatencyParts,
    Level,
    LlmStats,
    Notice,
    SessionClosed,
    SessionOpened,
    SpeechPaused,
    SpeechResumed,
    SpeechStarted,
    State,
    StateChanged,
    Transcribed,
    TurnDropped,
    TurnEnded,
    TurnFinished,
    TurnRecord,
)
from appliance.store.database import StoredTurn

CURVE = 60  # points of a live curve
TURNS = 200
LOG = 200

# The regions of the screen; an event says which of them it changes.
HEAD, NOW, TURNS_REGION, CAPACITY, EVENTS = "head", "now", "turns", "capacity", "events"


def _curve() -> deque[float]:
    return deque(maxlen=CURVE)


@dataclass(slots=True)
class SessionView:
    """One live session."""

    name: str
    station: str = "default"
    opened_at: float = 0.0
    state: State = State.LISTENING
    since: float = 0.0
    turn: int = 0
    input_dbfs: deque[float] = field(default_factory=_curve)
    output_dbfs: deque[float] = field(default_factory=_curve)
    speech: deque[float] = field(default_factory=_curve)
    done: deque[float] = field(default_factory=_curve)
    look: EndpointLooked | None = None
    heard: str = ""
    heard_kind: str = ""  # partial, draft, final
    clauses: dict[int, str] = field(default_factory=dict)
    spoken: str = ""
    wait_s: float = 0.0

    @property
    def reply(self) -> str:
        return " ".join(self.clauses[i].strip() for i in sorted(self.clauses))

    def new_turn(self, turn: int) -> None:
        self.turn = turn or self.turn
        self.heard, self.heard_kind, self.spoken, self.look = "", "", "", None
        self.clauses.clear()
        self.done.clear()


@dataclass(slots=True)
class TurnRow:
    """One finished turn. `live`: it happened while this screen watched, so it counts in the percentiles."""

    record: TurnRecord
    live: bool
    mark: str = ""

    @property
    def key(self) -> tuple[str, int, str]:
        return (self.record.session, self.record.turn, self.record.started)


@dataclass(frozen=True, slots=True)
class LogLine:
    """`sign` says the kind by shape: · for facts, ! for warnings, ✗ for errors."""

    at: float
    sign: str
    text: str


class ScreenModel:
    """Feed it events with `take`; `changed` collects the regions to draw anew, until `settle`."""

    def __init__(self) -> None:
        self.sessions: dict[str, SessionView] = {}
        self.focus = ""
        self.turns: deque[TurnRow] = deque(maxlen=TURNS)
        self.capacity: CapacitySnapshot | None = None
        self.llm: LlmStats | None = None
        self.ladder: LadderMoved | None = None
        self.log: deque[LogLine] = deque(maxlen=LOG)
        self.refused = 0
        self.changed: set[str] = set()

    # Reading

    @property
    def focused(self) -> SessionView | None:
        return self.sessions.get(self.focus)

    def timed(self) -> list[LatencyParts]:
        """The latency parts of the turns that count."""
        return [row.record.ms for row in self.turns if row.live and row.record.ms is not None]

    def next_session(self) -> None:
        names = list(self.sessions)
        if names:
            at = names.index(self.focus) if self.focus in names else -1
            self.focus = names[(at + 1) % len(names)]
            self.changed |= {HEAD, NOW, CAPACITY}

    def settle(self) -> set[str]:
        changed, self.changed = self.changed, set()
        return changed

    # Writing

    def add_stored(self, turns: Iterable[StoredTurn]) -> None:
        """Put turns of the past in front of those seen live."""
        seen = {(row.record.turn, row.record.started) for row in self.turns}
        old = [TurnRow(t.record, False, t.mark) for t in turns if (t.record.turn, t.record.started) not in seen]
        self.turns = deque([*old, *self.turns], maxlen=TURNS)
        self.changed.add(TURNS_REGION)

    def reset(self) -> None:
        """A new connection: what holds is sent again. Turns already seen stay, as turns of the past."""
        self.sessions.clear()
        self.focus, self.capacity, self.llm, self.ladder = "", None, None, None
        for row in self.turns:
            row.live = False
        self.log.clear()
        self.changed |= {HEAD, NOW, CAPACITY, TURNS_REGION, EVENTS}

    def _add(self, record: TurnRecord) -> None:
        again = [row for row in self.turns if (row.record.turn, row.record.started) == (record.turn, record.started)]
        for row in again:
            self.turns.remove(row)
        self.turns.append(TurnRow(record, True, again[0].mark if again else ""))
        self.changed |= {TURNS_REGION, HEAD}

    def take(self, event: Event) -> None:
        line = describe(event)
        if line is not None:
            self.log.append(line)
            self.changed.add(EVENTS)
        match event:
            case TurnFinished(record=record):
                self._add(record)
            case CapacitySnapshot():
                self.capacity = event
                self.changed |= {CAPACITY, HEAD}
            case LlmStats():
                self.llm = event
                self.changed.add(CAPACITY)
            case LadderMoved():
                self.ladder = event
                self.changed.add(CAPACITY)
            case SessionClosed():
                self._close(event.session)
            case AdmissionDecided() if not event.session or event.decision == "refused":
                self.refused += event.decision == "refused"
                self.changed.add(CAPACITY)
            case _ if event.session:
                self._follow(self._session(event), event)
            case _:
                pass

    def _session(self, event: Event) -> SessionView:
        view = self.sessions.get(event.session)
        if view is None:
            view = self.sessions[event.session] = SessionView(event.session, opened_at=event.at, since=event.at)
            self.changed |= {HEAD, CAPACITY}
            if self.focus not in self.sessions:
                self.focus = event.session
        return view

    def _close(self, session: str) -> None:
        self.sessions.pop(session, None)
        if self.focus == session:
            self.focus = next(iter(self.sessions), "")
        self.changed |= {HEAD, NOW, CAPACITY}

    def _follow(self, view: SessionView, event: Event) -> None:  # noqa: PLR0912  one flat case an event kind
        match event:
            case Level():
                view.input_dbfs.append(event.input_dbfs)
                view.output_dbfs.append(event.output_dbfs)
                view.speech.append(event.speech)
            case SessionOpened(station=station):
                view.station, view.opened_at = station, event.at
            case StateChanged(state=state):
                view.state, view.since = state, event.at
                self.changed |= {HEAD, CAPACITY}
            case SpeechStarted():
                view.new_turn(event.turn)
                self.changed.add(CAPACITY)
            case SpeechResumed():
                view.clauses.clear()
            case EndpointLooked():
                view.look = event
                view.done.append(event.done_probability)
            case Transcribed(kind=kind, text=text):
                view.heard, view.heard_kind = text, kind
            case ClauseReady(index=index, text=text):
                if index == 0:
                    view.clauses.clear()
                view.clauses[index] = text
            case Heard(spoken=spoken):
                view.spoken = spoken
            case TurnDropped():
                view.new_turn(event.turn)
            case AdmissionDecided(wait_s=wait, decision=decision):
                view.wait_s = wait
                if decision == "queued":
                    view.state, view.since = State.WAITING, event.at
                self.changed.add(CAPACITY)
            case _:
                return
        if event.session == self.focus:
            self.changed.add(NOW)


def describe(event: Event) -> LogLine | None:  # noqa: PLR0911, PLR0912  one flat case an event kind
    """The log's line for an event, without anyone's words; None for kinds that come too often to log."""

    def say(text: str, sign: str = "·") -> LogLine:
        who = f"{event.session}" + (f" #{event.turn}" if event.turn else "") if event.session else ""
        return LogLine(event.at, sign, f"{who}  {text}" if who else text)

    match event:
        case SessionOpened(station=station):
            return say(f"opened at {station}")
        case SessionClosed(reason=reason):
            return say(f"closed{_because(reason)}")
        case SpeechPaused():
            return say("pause")
        case SpeechResumed():
            return say("speech went on; early work thrown away")
        case TurnEnded(reason=reason):
            return say(f"turn over{_because(reason)}")
        case TurnDropped(reason=reason):
            return say(f"not answered{_because(reason)}")
        case Transcribed(kind=kind, took_ms=took, audio_ms=audio) if kind != "partial":
            return say(f"{kind} transcript in {took:.0f} ms of {audio / 1000:.1f} s")
        case FirstToken(ttft_ms=ttft, prompt_tokens=tokens):
            return say(f"first token after {ttft:.0f} ms, {tokens} prompt tokens")
        case ClauseSynthesized(index=0, took_ms=took, audio_ms=audio):
            return say(f"first clause spoken in {took:.0f} ms, {audio / 1000:.1f} s long")
        case BargeIn(action=action, to_silence_ms=silence):
            return say(f"barge-in: {action}" + ("" if silence is None else f", silent after {silence:.0f} ms"))
        case AdmissionDecided(decision=decision, reason=reason, wait_s=wait):
            expected = f", about {wait:.0f} s to wait" if wait else ""
            return say(f"{decision}{_because(reason)}{expected}", "·" if decision == "admitted" else "!")
        case LadderMoved(level=level, name=name, reason=reason):
            return say(f"ladder level {level}, {name}{_because(reason)}", "!" if level else "·")
        case DeviceChanged(role=role, name=name, status=status, detail=detail):
            sign = "!" if status in ("lost", "silent", "clipping", "waiting") else "·"
            return say(f"{role} {name}: {status}{_because(detail)}", sign)
        case Notice(level=level, message=message, hint=hint):
            sign = {"error": "✗", "warning": "!"}.get(level, "·")
            return say(message + (f" (hint: {hint})" if hint else ""), sign)
        case TurnFinished(record=record):
            if record.ms is None:
                return say("answered")
            cut = ", interrupted" if record.interrupted else ""
            return say(f"answered, {record.ms.voice_to_voice:.0f} ms voice to voice{cut}")
        case _:
            return None


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""
