"""One turn under the lens: its timeline from the store, and a person's verdict on it.

It owns how a timeline reads. It asks the store through the `TurnReader` port, so turns of the past open too.
"""

import itertools
from collections.abc import Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Static

from appliance.errors import ApplianceError
from appliance.events import PARTS
from appliance.store.database import Span
from appliance.telemetry.spans import Budget, missed, value_of
from appliance.tui import draw
from appliance.tui.link import ScreenSettings, TurnReader
from appliance.tui.model import TurnRow

_WORDS = {"Transcribed", "ClauseReady"}


class DetailScreen(Screen[None]):
    """The timeline of `rows[index]`; left and right go to its neighbours."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q", "dismiss", "Back"),
        Binding("left,p", "step(-1)", "Earlier", key_display="←"),
        Binding("right,n", "step(1)", "Later", key_display="→"),
        Binding("c", "mark('cut off')", "Was cut off"),
        Binding("s", "mark('too slow')", "Was too slow"),
        Binding("u", "mark('')", "Unmark"),
        Binding("w", "hide_words", "Words"),
    ]

    def __init__(
        self, rows: Sequence[TurnRow], index: int, reader: TurnReader, settings: ScreenSettings, hide_words: bool
    ) -> None:
        super().__init__()
        self._rows, self._index = list(rows), index
        self._reader, self._settings, self._hide = reader, settings, hide_words
        self._spans: Sequence[Span] = ()
        self._trouble = ""

    def compose(self) -> ComposeResult:
        yield Static(id="detail-head")
        yield Static(id="turn")
        with VerticalScroll(id="timeline"):
            yield Static(id="spans")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one("#timeline").focus()
        self._load()

    def on_resize(self) -> None:
        self._draw()

    @property
    def row(self) -> TurnRow:
        return self._rows[self._index]

    def action_step(self, by: int) -> None:
        index = max(0, min(len(self._rows) - 1, self._index + by))
        if index != self._index:
            self._index = index
            self._load()

    def action_hide_words(self) -> None:
        self._hide = not self._hide
        self._draw()

    def action_mark(self, mark: str) -> None:
        self.run_worker(self._mark(mark), exclusive=True, group="mark")

    async def _mark(self, mark: str) -> None:
        row = self.row
        try:
            done = await self._reader.mark(row.record, mark)
        except ApplianceError as error:
            self.notify(error.message, severity="error")
            return
        if done:
            row.mark = mark
            self._draw()
        else:
            self.notify("this turn is not in the store", severity="warning")

    def _load(self) -> None:
        self._spans, self._trouble = (), ""
        self._draw()
        self.run_worker(self._fetch(self.row), exclusive=True, group="timeline")

    async def _fetch(self, row: TurnRow) -> None:
        try:
            spans = await self._reader.timeline(row.record)
        except ApplianceError as error:
            spans, self._trouble = (), error.message
        if row is self.row:
            self._spans = spans
            self._trouble = self._trouble or ("" if spans else "the store has no timeline of this turn")
            self._draw()

    def _draw(self) -> None:
        if not self.is_mounted:
            return
        record = self.row.record
        width = max(40, self.size.width - 2)
        mark = f"   marked: {self.row.mark}" if self.row.mark else ""
        where = f"   {self._index + 1} of {len(self._rows)}"
        head = draw.text(
            (f"turn {record.turn}", "bold $primary"),
            (f"  {record.session}  {record.started[:19].replace('T', ' ')}{where}", draw.FAINT),
            (mark, draw.OVER),
        )
        self.query_one("#detail-head", Static).update(head)
        turn = turn_rows(self.row, self._settings.budget, width, self._hide)
        self.query_one("#turn", Static).update(draw.lines(turn))
        rows = timeline_rows(self._spans, width - 2, self._hide)
        if self._trouble:
            rows = [draw.text((self._trouble, draw.FAINT))]
        self.query_one("#spans", Static).update(draw.lines(rows))


def turn_rows(row: TurnRow, budget: Budget, width: int, hide: bool) -> list[Content]:
    """The turn's bar and figures, its words, and what it missed."""
    record = row.record
    out = []
    if record.ms is not None:
        full = draw.scale_of([row], budget)
        out.append(draw.text(*draw.bar(record.ms, budget, width, full, record.speculation.saved_ms)))
        figures: list[draw.Piece] = []
        for part in PARTS:
            value = value_of(record.ms, part)
            over = value - budget.of(part) > 0.5
            style = draw.OVER if over else f"$part-{part}"
            figures.append((f"{'▲' if over else ''}{part} {value:.0f}", style))
            figures.append((f" / {budget.of(part):.0f}   ", draw.FAINT))
        out += [draw.text(*figures, (f"in all {record.ms.voice_to_voice:.0f} ms", "bold"))]
    out.append(draw.miss_line(record, missed(record, budget)))
    facts = _facts(row)
    out.append(draw.text(("   ".join(facts), draw.FAINT)))
    heard, reply = record.heard, record.reply
    spoken, rest = draw.split_heard(reply, record.spoken)
    if hide:
        heard, spoken, rest = draw.hidden(heard), draw.hidden(reply), ""
    out.append(draw.text((" heard ", draw.FAINT), heard))
    out.append(draw.text(("answer ", draw.FAINT), (spoken, "bold underline"), " " if spoken and rest else "", rest))
    return out


def _facts(row: TurnRow) -> list[str]:
    record = row.record
    said = [f"ended by {record.end_reason}"] if record.end_reason else []
    if record.skill:
        said.append(f"answered by {record.skill}")
    if record.ttft_ms is not None:
        said.append(f"first token {record.ttft_ms:.0f} ms")
    if record.tokens_per_s is not None:
        said.append(f"{record.tokens} tokens, {record.tokens_per_s:.0f} a second")
    if record.speculation.tries:
        ledger = record.speculation
        stood = f"stood, saved {ledger.saved_ms:.0f} ms" if ledger.held else "did not stand"
        said.append(f"early work {stood}, {ledger.wasted_tokens} tokens wasted")
    if record.barge_in_ms is not None:
        said.append(f"silent {record.barge_in_ms:.0f} ms after being interrupted")
    if record.starvation_ms:
        said.append(f"player dry {record.starvation_ms:.0f} ms")
    if record.queue_wait_ms:
        said.append(f"waited {record.queue_wait_ms:.0f} ms")
    return said


def timeline_rows(spans: Sequence[Span], width: int, hide: bool) -> list[Content]:
    """One line a decision, in order; the level curves in front. Looks that found nothing new are left out."""
    out: list[Content] = []
    seen: tuple[object, ...] = ()
    for span in spans:
        before, seen = seen, _evidence(span) if span.kind == "EndpointLooked" else ()
        if seen and seen == before:
            continue
        if span.kind == "Levels":
            out = [*_level_rows(span.data, width), draw.text(""), *out]
        else:
            name, said, strong = describe_span(span, hide)
            at = (f"{span.at_ms:7.0f} ms  ", draw.FAINT)
            out.append(draw.text(at, (f"{name:<16}", "bold" if strong else ""), f" {said}"))
    return out


def _evidence(look: Span) -> tuple[object, ...]:
    """What a look rests on, as it is shown."""
    keys = ("audio_score", "text_score", "llm_score", "done_probability")
    return tuple(None if look.data.get(key) is None else round(look.data[key], 1) for key in keys)


def _level_rows(data: dict[str, Any], width: int) -> list[Content]:
    """Speech probability and level over the whole turn, squeezed into one line each."""
    columns = max(10, width - 14)
    speech = squeeze(data.get("speech", []), columns)
    level = squeeze(data.get("input_dbfs", []), columns)
    first, last = (data["at_ms"][0], data["at_ms"][-1]) if data.get("at_ms") else (0, 0)
    return [
        draw.text(("      speech  ", draw.FAINT), (draw.curve(speech, len(speech), 0, 1), "$part-asr")),
        draw.text(("       level  ", draw.FAINT), (draw.curve(level, len(level), -60, 0), "$part-endpoint")),
        draw.text((f"              {first:.0f} to {last:.0f} ms from the first speech sample", draw.FAINT)),
    ]


def squeeze(values: Sequence[float], columns: int) -> list[float]:
    """At most `columns` values, each the largest of its stretch, so that no short sound is lost."""
    if len(values) <= columns:
        return list(values)
    edges = [round(i * len(values) / columns) for i in range(columns + 1)]
    return [max(values[a:b]) for a, b in itertools.pairwise(edges)]


def describe_span(span: Span, hide: bool) -> tuple[str, str, bool]:  # noqa: PLR0911, PLR0912  one flat case a kind
    """Name, sentence, and whether it is one of the turn's milestones."""
    d = span.data
    words = str(d.get("text", ""))
    said = draw.hidden(words) if hide else f"“{words}”"

    def ms(key: str) -> str:
        return f"{d.get(key) or 0:.0f} ms"

    match span.kind:
        case "SpeechStarted":
            return "speech", "first sample", True
        case "SpeechPaused":
            return "pause", "last sample before it", False
        case "SpeechResumed":
            return "speech again", "early work thrown away", False
        case "EndpointLooked":
            scores = [(k, d.get(f"{k}_score")) for k in ("audio", "text", "llm")]
            known = ", ".join(f"{k} {v:.2f}" for k, v in scores if v is not None)
            done = f"done {d.get('done_probability') or 0:.2f}" + (f" ({known})" if known else "")
            return "look", f"{done}; after {ms('silence_ms')} of silence, ends at {ms('wait_ms')}", False
        case "Transcribed":
            return f"{d.get('kind', '')} transcript", f"{said} in {ms('took_ms')}", d.get("kind") == "final"
        case "TurnEnded":
            return "turn over", f"by {d.get('reason', '')}", True
        case "FirstToken":
            return "first token", f"after {ms('ttft_ms')}, {d.get('prompt_tokens', 0)} prompt tokens", False
        case "ClauseReady":
            return f"clause {d.get('index', 0)}", f"{said}, {d.get('tokens', 0)} tokens", False
        case "ClauseSynthesized":
            return f"audio {d.get('index', 0)}", f"{ms('audio_ms')} of speech in {ms('took_ms')}", False
        case "PlaybackStarted":
            return "audible", "first sample at the sink", True
        case "BargeIn":
            silence = "" if d.get("to_silence_ms") is None else f", silent after {ms('to_silence_ms')}"
            return "barge-in", f"{d.get('action', '')}{silence}", True
        case "AdmissionDecided":
            return "admission", f"{d.get('decision', '')} {d.get('reason', '')}".rstrip(), False
        case kind:
            return kind, ", ".join(f"{k} {v}" for k, v in d.items() if v not in (None, "")), False
