"""One self-contained page a bench: plots as inline SVG, figures as tables, nothing loaded from anywhere.

It owns how results look in a browser and in print. It measures and sums up nothing: figures come ready.
"""

import html
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.errors import DiskFullError
from appliance.events import PARTS, LatencyParts
from appliance.telemetry.spans import KEYS, Budget, percentiles, share_in_budget

if TYPE_CHECKING:
    from appliance.bench.latency import LatencyRun
    from appliance.bench.load import Point
    from appliance.config import Config

# Told apart by hatching as well as by colour, so that print and colour-blind readers lose nothing.
_COLOURS = {"endpoint": "#4477aa", "asr": "#66ccee", "llm": "#228833", "tts": "#ccbb44", "output": "#aa3377"}

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --paper: #ffffff; --soft: #6b7785; --line: #d5dbe1; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ee; --paper: #14191f; --soft: #93a0ad; --line: #333d47; --bad: #ff8a80; }
}
@media print { :root { --ink: #000; --paper: #fff; --soft: #444; --line: #bbb; } section { break-inside: avoid; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2.5rem auto;
  max-width: 62rem; padding: 0 1.25rem; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2.25rem 0 .5rem; }
p.soft, figcaption { color: var(--soft); margin: .25rem 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .9rem .3rem 0; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; } th { font-weight: 600; color: var(--soft); }
.over { color: var(--bad); font-weight: 600; }
svg { width: 100%; height: auto; } svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg .axis { stroke: var(--line); } svg .soft { fill: var(--soft); } svg .budget { stroke: var(--bad); }
svg .mid { text-anchor: middle; } svg .foreseen { stroke: var(--soft); opacity: .6; }
svg .over-line { stroke: var(--paper); stroke-width: 4px; paint-order: stroke; stroke-linejoin: round; }
.big { display: flex; gap: 2.5rem; flex-wrap: wrap; margin: 1rem 0; }
.big div { font-size: 2rem; font-weight: 600; line-height: 1.1; } .big small { display: block; font-size: .8rem;
  font-weight: 400; color: var(--soft); margin-top: .25rem; }
pre { white-space: pre-wrap; color: var(--soft); font-size: .8rem; }
"""


def write_latency(path: Path, run: "LatencyRun") -> None:
    """Waterfall of every turn, distribution of voice-to-voice, and the table of the five parts."""
    parts, budget = run.parts, run.config.budget
    p50, p95 = percentiles(parts, 50), percentiles(parts, 95)
    share = run.in_budget
    big = [
        (_ms(p50["voice_to_voice"]), "voice-to-voice, median"),
        (_ms(p95["voice_to_voice"]), "95th percentile"),
        ("–" if share is None else f"{share:.0%}", f"of turns within {budget.total_ms:.0f} ms"),
    ]
    body = [
        _big(big),
        _section("Every turn", _waterfall(parts, budget), "From the last word to the first sound, in milliseconds."),
        _section("How long people waited", _distribution([p.voice_to_voice for p in parts], budget.total_ms), ""),
        _section("The five parts", _parts_table(parts, budget), ""),
    ]
    _write(path, f"Latency · {run.config.tier}", body, run.as_dict())


def write_load(
    path: Path, points: "Sequence[Point]", config: "Config", foreseen: Mapping[float, float] | None = None
) -> None:
    """Load against latency and starvation, with the objectives as lines. `foreseen`: predicted p95, ms, by load."""
    limits = config.objectives
    rows = [point.as_dict() for point in points]
    axis = "conversations at once" if all(p.closed for p in points) else "arrivals a second"
    body = [
        _section(
            "Voice-to-voice against load",
            _curve([(p.load, p.v2v_ms_p95) for p in points], limits.v2v_ms_p95, axis, sorted((foreseen or {}).items())),
            "95th percentile, ms. Dashed: the objective." + (" Grey: the prediction." if foreseen else ""),
        ),
        _section(
            "Starvation against load",
            _curve([(p.load, p.starvation_ms_p95) for p in points], limits.starvation_ms_p95, axis),
            "95th percentile, ms: time the player ran dry after its first sample; no jitter buffer.",
        ),
        _section("Figures", write_table(rows), ""),
    ]
    _write(path, f"Load · {config.tier}", body, {"points": rows})


def write_figures(path: Path, title: str, rows: Sequence[Mapping[str, object]], result: Mapping[str, object]) -> None:
    """A plain page for benches whose result is a table."""
    _write(path, title, [_section("Figures", write_table(rows), "")], result)


def write_table(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows with the same keys as an HTML table."""
    if not rows:
        return "<p>Nothing was measured.</p>"
    head = "".join(f"<th>{html.escape(str(key).replace('_', ' '))}</th>" for key in rows[0])
    lines = ["".join(f"<td>{html.escape(_shown(row.get(key)))}</td>" for key in rows[0]) for row in rows]
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _parts_table(parts: Sequence[LatencyParts], budget: Budget) -> str:
    p50, p95 = percentiles(parts, 50), percentiles(parts, 95)
    lines = []
    for key in KEYS:
        limit, slow = budget.of(key), p95[key]
        over = ' class="over"' if slow is not None and slow > limit else ""
        share = share_in_budget(parts, budget, key)
        lines.append(
            f"<tr><td>{key.replace('_', '-')}</td><td>{_ms(p50[key])}</td><td{over}>{_ms(slow)}</td>"
            f"<td>{limit:.0f} ms</td><td>{'–' if share is None else f'{share:.0%}'}</td></tr>"
        )
    head = "<tr><th>part</th><th>median</th><th>p95</th><th>budget</th><th>within</th></tr>"
    return f"<table>{head}{''.join(lines)}</table>"


def _waterfall(parts: Sequence[LatencyParts], budget: Budget) -> str:
    if not parts:
        return "<p>No turn was timed.</p>"
    width, left, row = 900, 40, 20
    most = max(budget.total_ms, *(p.voice_to_voice for p in parts)) * 1.05
    scale = (width - left - 60) / most
    out, height = [_patterns()], row * len(parts) + 60
    for i, turn in enumerate(parts):
        x, y = float(left), 10 + i * row
        out.append(f'<text x="0" y="{y + 12}" class="soft">{i + 1}</text>')
        for name in PARTS:
            wide = max(0.0, getattr(turn, name) * scale)
            out.append(
                f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{row - 5}" fill="url(#{name})">'
                f"<title>{name} {getattr(turn, name):.0f} ms</title></rect>"
            )
            x += wide
        out.append(f'<text x="{x + 6:.1f}" y="{y + 12}">{turn.voice_to_voice:.0f}</text>')
    line = left + budget.total_ms * scale
    bottom = 10 + len(parts) * row
    out.append(
        f'<line x1="{line:.1f}" x2="{line:.1f}" y1="4" y2="{bottom}" class="budget" stroke-dasharray="4 3"/>'
        f'<text x="{line:.1f}" y="{bottom + 14}" class="soft mid">budget {budget.total_ms:.0f} ms</text>'
    )
    for i, name in enumerate(PARTS):
        x = left + i * 110
        out.append(f'<rect x="{x}" y="{bottom + 26}" width="14" height="12" fill="url(#{name})"/>')
        out.append(f'<text x="{x + 20}" y="{bottom + 37}">{name}</text>')
    return _svg(width, height, out)


def _distribution(values: Sequence[float], limit: float) -> str:
    """The share of turns that were answered within so many ms, as a step curve."""
    if not values:
        return "<p>No turn was timed.</p>"
    width, height, left, bottom = 900, 260, 46, 220
    ordered = sorted(values)
    most = max(limit, ordered[-1]) * 1.08

    def x(v: float) -> float:
        return left + v / most * (width - left - 20)

    def y(share: float) -> float:
        return bottom - share * (bottom - 20)

    steps = [f"M{x(0):.1f},{y(0):.1f}"]
    for i, value in enumerate(ordered):
        steps.append(f"H{x(value):.1f}V{y((i + 1) / len(ordered)):.1f}")
    out = [
        _grid(left, width, bottom, y),
        f'<path d="{"".join(steps)}H{x(most):.1f}" {_PEN}/>',
        _limit(x(limit), bottom),
    ]
    out += _ticks(most, x, bottom, "ms")
    return _svg(width, height, out)


def _curve(
    points: Sequence[tuple[float, float | None]],
    limit: float,
    axis: str,
    foreseen: Sequence[tuple[float, float]] = (),
) -> str:
    known = [(a, b) for a, b in points if b is not None]
    if not known:
        return "<p>Nothing was measured.</p>"
    width, height, left, bottom = 900, 280, 60, 230
    most_x = max(a for a, _ in known) * 1.08
    most_y = max(limit, *(b for _, b in known), *(b for _, b in foreseen)) * 1.15

    def x(v: float) -> float:
        return left + v / most_x * (width - left - 20)

    def y(v: float) -> float:
        return bottom - v / most_y * (bottom - 20)

    def path(each: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in each)

    out = [f'<line x1="{left}" x2="{width - 10}" y1="{bottom}" y2="{bottom}" class="axis"/>']
    if y(limit) < bottom - 16:
        out.append(f'<text x="0" y="{bottom + 4}" class="soft">0</text>')
    out.append(
        f'<line x1="{left}" x2="{width - 10}" y1="{y(limit):.1f}" y2="{y(limit):.1f}" class="budget" '
        f'stroke-dasharray="5 4"/><text x="0" y="{y(limit) + 4:.1f}" class="soft">{limit:.0f}</text>'
    )
    if foreseen:
        out.append(f'<polyline points="{path(foreseen)}" fill="none" class="foreseen" stroke-width="2"/>')
    out.append(f'<polyline points="{path(known)}" {_PEN}/>')
    for a, b in known:
        out.append(f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="4" fill="#4477aa"/>')
        out.append(f'<text x="{x(a):.1f}" y="{y(b) - 11:.1f}" class="mid over-line">{b:.0f}</text>')
        out.append(f'<text x="{x(a):.1f}" y="{bottom + 18}" class="soft mid">{a:g}</text>')
    out.append(f'<text x="{(left + width) / 2:.0f}" y="{bottom + 40}" class="soft mid">{axis}</text>')
    return _svg(width, height, out)


_PEN = 'fill="none" stroke="#4477aa" stroke-width="2"'


def _grid(left: float, width: float, bottom: float, y: Callable[[float], float]) -> str:
    lines = []
    for share in (0.0, 0.5, 0.95):
        at = y(share)
        lines.append(f'<line x1="{left}" x2="{width - 20}" y1="{at:.1f}" y2="{at:.1f}" class="axis"/>')
        lines.append(f'<text x="0" y="{at + 4:.1f}" class="soft">{share:.0%}</text>')
    return "".join(lines)


def _limit(x: float, bottom: float) -> str:
    return f'<line x1="{x:.1f}" x2="{x:.1f}" y1="10" y2="{bottom}" class="budget" stroke-dasharray="4 3"/>'


def _ticks(most: float, x: Callable[[float], float], bottom: float, unit: str) -> list[str]:
    step = 10 ** len(str(int(most // 5))) // 2 or 1
    return [
        f'<text x="{x(v):.1f}" y="{bottom + 18}" class="soft">{v:.0f} {unit}</text>'
        for v in range(0, int(most), max(1, step))
    ]


def _patterns() -> str:
    """Each part's fill: its colour with its own hatching."""
    marks = {
        "endpoint": "",
        "asr": '<path d="M0 6L6 0" stroke="#fff" stroke-width="1"/>',
        "llm": '<path d="M0 3H6" stroke="#fff" stroke-width="1"/>',
        "tts": '<circle cx="3" cy="3" r="1" fill="#fff"/>',
        "output": '<path d="M3 0V6" stroke="#fff" stroke-width="1"/>',
    }
    each = [
        f'<pattern id="{name}" width="6" height="6" patternUnits="userSpaceOnUse">'
        f'<rect width="6" height="6" fill="{_COLOURS[name]}"/>{mark}</pattern>'
        for name, mark in marks.items()
    ]
    return f"<defs>{''.join(each)}</defs>"


def _svg(width: int, height: int, content: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {width} {height}" role="img">{"".join(content)}</svg>'


def _section(title: str, content: str, caption: str) -> str:
    note = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    return f"<section><h2>{html.escape(title)}</h2>{note}{content}</section>"


def _big(figures: Sequence[tuple[str, str]]) -> str:
    return (
        '<div class="big">' + "".join(f"<div>{a}<small>{html.escape(b)}</small></div>" for a, b in figures) + "</div>"
    )


def _write(path: Path, title: str, body: Sequence[str], result: Mapping[str, object]) -> None:
    when = datetime.now(UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style><h1>{html.escape(title)}</h1>"
        f'<p class="soft">measured {when}</p>{"".join(body)}'
        f"<section><h2>The result as data</h2><pre>{html.escape(json.dumps(result))}</pre></section></html>"
    )
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise DiskFullError(f"{path} could not be written ({error.strerror})", "name another file") from None


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f} ms"


def _shown(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
