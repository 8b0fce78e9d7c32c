"""How the model looks: pure functions from numbers to styled text of a given width.

It owns every glyph. Whatever colour says, a shape or a word says too: parts have textures, what is over its
budget carries ▲, states have their own signs. Styles name theme variables, so every theme and NO_COLOR work.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from textual.content import Content

from appliance.events import PARTS, CapacitySnapshot, LatencyParts, LlmStats, State, TurnRecord
from appliance.telemetry.spans import (
    KEYS,
    TEXTURE,
    TOTAL,
    Budget,
    percentiles,
    share_in_budget,
    value_of,
)
from appliance.tui.model import LogLine, SessionView, TurnRow

Piece: TypeAlias = tuple[str, str]
FAINT = "$faint"
OVER = "bold $over"
WIDE = 64  # columns of the waterfall from which it has room for remarks
EARLY = "▚"  # endpoint time during which later work already ran
SIGNS = {
    State.WAITING: "○",
    State.LISTENING: "◌",
    State.HEARING: "●",
    State.PAUSE: "◐",
    State.THINKING: "◇",
    State.SPEAKING: "►",
    State.INTERRUPTED: "■",
    State.MUTED: "⊘",
}
STATE_STYLE = {
    State.HEARING: "bold $part-endpoint",
    State.PAUSE: "bold $part-endpoint",
    State.THINKING: "bold $part-llm",
    State.SPEAKING: "bold $part-tts",
    State.INTERRUPTED: OVER,
    State.MUTED: OVER,
}
_EIGHTHS = " ▁▂▃▄▅▆▇█"


def text(*pieces: Piece | str) -> Content:
    """One line. Characters that do not print become spaces: what a model wrote must not steer the terminal."""
    plain = [(piece, "") if isinstance(piece, str) else piece for piece in pieces]
    return Content.assemble(*[(clean(said), style) if style else clean(said) for said, style in plain])


def clean(said: str) -> str:
    return said if said.isprintable() else "".join(c if c.isprintable() else " " for c in said)


def lines(rows: Iterable[Content]) -> Content:
    return Content("\n").join(rows)


# Waterfall


def scale_of(rows: Sequence[TurnRow], budget: Budget) -> float:
    """ms that the full width stands for: the slowest turn in view, within 1.25 to 3 budgets, in steps of 100."""
    slowest = max((r.record.ms.voice_to_voice for r in rows if r.record.ms is not None), default=0.0)
    wanted = min(max(slowest * 1.02, budget.total_ms * 1.25), budget.total_ms * 3)
    return -(-wanted // 100) * 100.0


def bar(parts: LatencyParts, budget: Budget, columns: int, full_ms: float, saved_ms: float = 0.0) -> list[Piece]:
    """One turn to scale, `columns` cells wide, with the budget's edge as a line through it."""
    cells: list[Piece] = [(" ", "")] * columns
    per_ms = columns / full_ms
    start, used = 0.0, 0
    for part in PARTS:
        value = value_of(parts, part)
        first = max(round(start * per_ms), used)
        last = max(round((start + value) * per_ms), first + (1 if value >= 1.0 else 0))
        style = f"$part-{part}"
        for i in range(first, min(last, columns)):
            cells[i] = (TEXTURE[part], style)
        if part == "endpoint":
            for i in range(max(first, round((start + value - saved_ms) * per_ms)), min(last, columns)):
                cells[i] = (EARLY, style)
        if value - budget.of(part) > 0.5 and first < columns:
            cells[min(last, columns) - 1] = ("▲", OVER)
        start, used = start + value, last
    edge = round(budget.total_ms * per_ms)
    free = edge < columns and cells[edge][0] == " "
    if free or (edge < columns and start > budget.total_ms):
        cells[edge] = ("│", "bold" if free else OVER)
    if start > full_ms:
        cells[-1] = ("►", OVER)
    return _merged(cells)


def turn_line(row: TurnRow, budget: Budget, width: int, full_ms: float, selected: bool) -> Content:
    """` 12 ███▓▓▒▒░■   │   612 ✓`, faint where the turn was before this screen."""
    record = row.record
    head = f"{'›' if selected else ' '}{record.turn:>3} "
    tail_width = 17 if width >= WIDE else 9
    columns = max(8, width - len(head) - tail_width)
    if record.ms is None:
        pieces: list[Piece] = [("no time measured".ljust(columns)[:columns], FAINT)]
        tail: list[Piece] = [(" " * 7, "")]
    else:
        pieces = bar(record.ms, budget, columns, full_ms, record.speculation.saved_ms)
        total = record.ms.voice_to_voice
        over = total - budget.total_ms > 0.5
        tail = [(f"{total:>6.0f} ", OVER if over else ""), ("▲" if over else "✓", OVER if over else "$fine")]
    if tail_width > 9:
        note = row.mark or ("cut in" if record.interrupted else record.skill or ("" if row.live else "earlier"))
        tail.append((f" {note}"[:9], OVER if row.mark else FAINT))
    head_style = "bold reverse" if selected else "" if row.live else FAINT
    return text((head[:-1], head_style), " ", *pieces, *tail)


def remark(row: TurnRow, missed: Sequence[str]) -> Content:
    """The line under a turn where there is room: what was late, or what early work saved."""
    record = row.record
    pieces: list[Piece] = [("     ", "")]
    for miss in missed:
        pieces += [("▲ ", OVER), (f"{miss}   ", FAINT)]
    if record.ms is not None and record.speculation.held and record.speculation.saved_ms >= 1:
        pieces += [(f"{EARLY} ", "$part-endpoint"), (f"early work saved {record.speculation.saved_ms:.0f} ms", FAINT)]
    return text(*pieces)


def legend(width: int, early: bool = True) -> Content:
    pieces: list[Piece] = []
    for part in PARTS:
        pieces += [(TEXTURE[part], f"$part-{part}"), (f" {part}  ", FAINT)]
    if early and width >= 70:
        pieces += [(EARLY, "$part-endpoint"), (" early work  ", FAINT)]
    if width >= 60:
        pieces += [("│", "bold"), (" budget  ", FAINT), ("▲", OVER), (" over", FAINT)]
    return text(*pieces)


def statistics(timed: Sequence[LatencyParts], budget: Budget, width: int) -> list[Content]:
    """p50, p95, budget and share inside, a column a part."""
    names = dict.fromkeys(KEYS, "") | {k: k for k in PARTS} | {TOTAL: "voice to voice" if width >= WIDE else "all"}
    cell = 8 if width >= WIDE else max(6, (width - 8) // 6)
    rows: list[list[Piece]] = [[("        ", "")] + [(f"{names[k][: cell + 5]:>{cell}}", _part_style(k)) for k in KEYS]]
    if width >= WIDE:
        rows[0][-1] = (f"{names[TOTAL]:>{cell + 8}}", "bold")
    for name, percent in (("p50", 50.0), ("p95", 95.0)):
        values = percentiles(timed, percent)
        rows.append([(f"  {name:<6}", FAINT)] + [_ms_cell(values[k], budget.of(k), cell, k, width) for k in KEYS])
    limits = [(f"{budget.of(k):>{_cell(cell, k, width)}.0f}", FAINT) for k in KEYS]
    rows.append([("  budget", FAINT), *limits])
    shares = [share_in_budget(timed, budget, k) for k in KEYS]
    rows.append(
        [("  inside", FAINT)]
        + [
            ("–".rjust(_cell(cell, k, width)) if s is None else f"{s * 100:>{_cell(cell, k, width) - 1}.0f}%", "")
            for k, s in zip(KEYS, shares, strict=True)
        ]
    )
    return [text(*row) for row in rows]


def _cell(cell: int, key: str, width: int) -> int:
    return cell + 8 if key == TOTAL and width >= WIDE else cell


def _ms_cell(value: float | None, allowed: float, cell: int, key: str, width: int) -> Piece:
    size = _cell(cell, key, width)
    if value is None:
        return ("–".rjust(size), FAINT)
    over = value - allowed > 0.5
    return ((f"▲{value:.0f}" if over else f"{value:.0f}").rjust(size), OVER if over else "bold" if key == TOTAL else "")


def _part_style(key: str) -> str:
    return "bold" if key == TOTAL else f"$part-{key}"


# Now


def state_line(view: SessionView, now: float) -> Content:
    style = STATE_STYLE.get(view.state, "bold")
    turn = f"  turn {view.turn}" if view.turn else ""
    return text((f"{SIGNS[view.state]} {view.state.value}", style), (f"  {span(now - view.since)}{turn}", FAINT))


def curve(values: Iterable[float], width: int, low: float, high: float) -> str:
    """The newest `width` values as a line of blocks, the newest at the right."""
    newest = list(values)[-width:] if width > 0 else []
    steps = len(_EIGHTHS) - 1
    glyphs = [_EIGHTHS[max(1, min(steps, round((v - low) / (high - low) * steps)))] for v in newest]
    return "".join(glyphs).rjust(width)


def curves(view: SessionView, width: int) -> list[Content]:
    """Levels, speech probability and end-of-turn score over the last seconds."""
    size = max(4, min(40, width - 22))

    def row(name: str, values: Sequence[float], low: float, high: float, style: str, said: str) -> Content:
        return text((f"{name:>6} ", FAINT), (curve(values, size, low, high), style), f" {said}")

    level = f"{view.input_dbfs[-1]:4.0f} dBFS" if view.input_dbfs else "   – dBFS"
    out = f"{view.output_dbfs[-1]:4.0f} dBFS" if view.output_dbfs and view.output_dbfs[-1] > -119 else "   – dBFS"
    speech = f"{view.speech[-1]:5.2f}" if view.speech else "    –"
    done = "    –"
    if view.look is not None:
        done = f"{view.look.done_probability:5.2f} → {view.look.wait_ms:.0f} ms"
    return [
        row("in", list(view.input_dbfs), -60, 0, "$part-endpoint", level),
        row("out", list(view.output_dbfs), -60, 0, "$part-tts", out),
        row("speech", list(view.speech), 0, 1, "$part-asr", speech),
        row("done", list(view.done), 0, 1, "$part-llm", done),
    ]


def hidden(words: str) -> str:
    count = len(words.split())
    return f"‹{count} {'word' if count == 1 else 'words'} hidden›" if count else ""


def dialogue(view: SessionView, hide: bool) -> list[Content]:
    """What was heard so far, and the answer with the part already heard set apart."""
    kind = f" ({view.heard_kind})" if view.heard_kind in ("partial", "draft") else ""
    heard = hidden(view.heard) if hide else view.heard
    asked = text((" heard ", FAINT), heard, (kind, FAINT))
    if hide:
        return [asked, text(("answer ", FAINT), hidden(view.reply))]
    spoken, rest = split_heard(view.reply, view.spoken)
    gap = " " if spoken and rest else ""
    return [asked, text(("answer ", FAINT), (spoken, "bold underline"), gap, (rest, ""))]


def split_heard(reply: str, spoken: str) -> tuple[str, str]:
    """`reply` cut behind as many words as were heard."""
    words = reply.split()
    count = len(spoken.split())
    return (spoken if count > len(words) else " ".join(words[:count]), " ".join(words[count:]))


# Capacity


def kv_bar(stats: LlmStats, width: int) -> Content:
    """All cells as one bar: shared prefix █, used ▓, reserved ▒, parked ░, free ·."""
    total = max(stats.cells_total, 1)
    kinds = kv_kinds(stats)
    pieces: list[Piece] = []
    seen, drawn = 0, 0
    for glyph, style, _, cells in kinds:
        seen += cells
        upto = round(seen / total * width)
        if cells and upto == drawn and drawn < width:
            upto += 1
        pieces.append((glyph * max(0, upto - drawn), style))
        drawn = max(upto, drawn)
    return text(*pieces)


def kv_kinds(stats: LlmStats) -> list[tuple[str, str, str, int]]:
    """Glyph, style, name, cells, in the order of the bar."""
    taken = stats.cells_prefix + stats.cells_used + stats.cells_reserved + stats.cells_parked
    return [
        ("█", "$part-endpoint", "prefix", stats.cells_prefix),
        ("▓", "$part-llm", "used", stats.cells_used),
        ("▒", "$part-tts", "reserved", stats.cells_reserved),
        ("░", "$part-asr", "parked", stats.cells_parked),
        ("·", FAINT, "free", max(0, stats.cells_total - taken)),
    ]


def kv_legend(stats: LlmStats, width: int) -> list[Content]:
    """Names and numbers of the bar's kinds, on as many lines as it takes."""
    rows: list[list[Piece]] = [[]]
    used = 0
    for glyph, style, name, cells in kv_kinds(stats):
        if not cells and name not in ("used", "free"):
            continue
        said = f" {name} {cells:,}  "
        if used + len(said) > width:
            rows.append([])
            used = 0
        rows[-1] += [(glyph, style), (said, FAINT)]
        used += len(said) + 1
    return [text(*row) for row in rows]


def cap_lines(capacity: CapacitySnapshot, width: int) -> list[Content]:
    """The cap and the load on it, and the ladder's level."""
    cap = [(f"cap {capacity.cap}", "bold"), (f" by {capacity.limited_by}", FAINT)]
    load = [(f"   {capacity.sessions} live  {capacity.queued} queued  {capacity.refused} refused", "")]
    level = capacity.ladder_level
    ladder = [(f"   ladder {level} {capacity.ladder_name}", OVER if level else FAINT)]
    if width >= 76:
        return [text(*cap, *load, *ladder)]
    return [text(*cap, *ladder), text((load[0][0].strip(), ""))]


def sessions_table(
    views: Sequence[SessionView], held: Mapping[str, int] | None, focus: str, now: float, width: int
) -> list[Content]:
    """A row a session. `held`: the KV cells of each that holds any; None while the engine has said nothing."""
    name_width = max(8, min(18, width - 40))
    head = f"  {'session':<{name_width}} {'state':<13}{'turn':>4}{'wait':>6}{'cells':>7}{'time':>7}"
    rows = [text((head, FAINT))]
    for view in views:
        sign = SIGNS[view.state]
        cells = "–" if held is None else f"{held.get(view.name, 0):,}"
        wait = f"{view.wait_s:.0f} s" if view.wait_s else "–"
        mark = "›" if view.name == focus else " "
        rows.append(
            text(
                f"{mark} {view.name[:name_width]:<{name_width}} ",
                (f"{sign} {view.state.value:<11}", STATE_STYLE.get(view.state, "")),
                f"{view.turn or '–':>4}{wait:>6}{cells:>7}{span(now - view.opened_at):>7}",
            )
        )
    return rows


# Events, and small things


def log_line(line: LogLine, wall: Callable[[float], str]) -> Content:
    style = {"!": "bold $accent", "✗": OVER}.get(line.sign, FAINT)
    return text((wall(line.at), FAINT), (f" {line.sign} ", style), line.text)


def miss_line(record: TurnRecord, missed: Sequence[str]) -> Content:
    if record.ms is None:
        return text((f"turn {record.turn}: time was not measured", FAINT))
    if not missed:
        return text((f"turn {record.turn}: every part inside its budget", FAINT))
    return text((f"turn {record.turn}: ", FAINT), ("▲ ", OVER), "   ".join(missed))


def gauge(share: float, columns: int) -> tuple[str, str]:
    """A bar to scale: what is filled, to an eighth of a column, and the rest."""
    full, part = divmod(round(min(1.0, max(0.0, share)) * columns * 8), 8)
    filled = "█" * full + ("", *"▏▎▍▌▋▊▉")[part]
    return filled, "·" * (columns - len(filled))


def span(seconds: float) -> str:
    """`4 s`, `2:05`, `1:02:05`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, s = divmod(whole, 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02}:{s:02}" if hours else f"{m}:{s:02}"


def _merged(cells: Sequence[Piece]) -> list[Piece]:
    """Neighbours of the same style as one piece."""
    out: list[Piece] = []
    for glyph, style in cells:
        if out and out[-1][1] == style:
            out[-1] = (out[-1][0] + glyph, style)
        else:
            out.append((glyph, style))
    return out
