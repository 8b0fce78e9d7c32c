"""The panels. Each draws one region of the model when told to; none of them reads events.

They own layout within a panel: how many rows fit, and what goes first when there is little room.
"""

from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Click
from textual.message import Message
from textual.widget import Widget

from appliance.telemetry.spans import Budget, missed, percentile, share_in_budget
from appliance.tui import draw
from appliance.tui.link import ScreenClock, ScreenSettings
from appliance.tui.model import ScreenModel, TurnRow


class Panel(Widget):
    """A region with a titled line on top. Subclasses say what stands in `width` × `height` cells."""

    def __init__(self, model: ScreenModel, settings: ScreenSettings, clock: ScreenClock, id: str) -> None:
        super().__init__(id=id)
        self.model, self.settings, self.clock = model, settings, clock
        self._drawn: Content | None = None

    @property
    def budget(self) -> Budget:
        return self.settings.budget

    def rows(self, width: int, height: int) -> list[Content]:
        raise NotImplementedError

    def render(self) -> Content:
        self._drawn = self._content()
        return self._drawn

    def redraw(self) -> bool:
        """Draw anew if that would change anything; says whether it did."""
        if self.is_attached and self.display and self._content() != self._drawn:
            self.refresh()
            return True
        return False

    def _content(self) -> Content:
        width, height = self.content_size
        rows = self.rows(width, height)[: max(height, 0)]
        return draw.lines(row.truncate(max(width, 1), ellipsis=True) for row in rows)


class Head(Panel):
    """One line: what this is, whether it is well, and the figure that matters."""

    link = ""

    def rows(self, width: int, height: int) -> list[Content]:
        model = self.model
        left: list[draw.Piece] = [("appliance", "bold $primary")]
        if self.settings.title:
            left.append((f" {self.settings.title}", draw.FAINT))
        if self.link:
            left += [("  ", ""), (f"○ {self.link}", draw.OVER)]
        elif model.focused is not None:
            view = model.focused
            left.append((f"   {draw.SIGNS[view.state]} {view.state.value}", draw.STATE_STYLE.get(view.state, "bold")))
            if len(model.sessions) > 1:
                left.append((f"  {view.name}, one of {len(model.sessions)}", draw.FAINT))
        elif model.log:
            left.append((f"   {model.log[-1].text}", draw.FAINT))  # how far the start-up is
        used = sum(len(piece[0]) for piece in left)
        for figures in self._figures():
            gap = width - used - sum(len(piece[0]) for piece in figures)
            if gap >= 3:
                return [draw.text(*left, " " * gap, *figures)]
        return [draw.text(*left)]

    def _figures(self) -> list[list[draw.Piece]]:
        """What stands at the right, the fullest form first."""
        timed = self.model.timed()
        lag: list[draw.Piece] = []
        if self.model.capacity is not None:
            ms = self.model.capacity.loop_lag_ms
            lag = [(f"loop lag {ms:.0f} ms   ", draw.OVER if ms > 50 else draw.FAINT)]
        if not timed:
            return [lag]
        totals = [parts.voice_to_voice for parts in timed]
        short: list[draw.Piece] = []
        for name, percent in (("p50", 50.0), ("p95", 95.0)):
            value = percentile(totals, percent) or 0.0
            over = value > self.budget.total_ms
            short.append((f"{name} ", draw.FAINT))
            short.append((f"{'▲' if over else ''}{value:.0f} ms   ", draw.OVER if over else "bold"))
        share = share_in_budget(timed, self.budget) or 0.0
        full = [(f"{len(timed)} turns   ", draw.FAINT), *short, (f"{share * 100:.0f}% in budget", "bold")]
        return [[*lag, *full], full, short]


class Waterfall(Panel, can_focus=True):
    """Every turn a row, drawn to scale; below them what each part took and what the chosen turn missed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Turn up", show=False),
        Binding("down,j", "move(1)", "Turn down", show=False),
        Binding("pageup", "move(-10)", show=False),
        Binding("pagedown", "move(10)", show=False),
        Binding("home", "move(-100000)", show=False),
        Binding("end", "move(100000)", show=False),
        Binding("enter", "open", "Detail"),
    ]

    class Opened(Message):
        def __init__(self, row: TurnRow) -> None:
            super().__init__()
            self.row = row

    def __init__(self, model: ScreenModel, settings: ScreenSettings, clock: ScreenClock, id: str) -> None:
        super().__init__(model, settings, clock, id)
        self._chosen: tuple[str, int, str] | None = None  # None: the newest, and it stays the newest
        self._shown: list[TurnRow] = []

    @property
    def chosen(self) -> TurnRow | None:
        turns = self.model.turns
        return turns[self._index()] if turns else None

    def _index(self) -> int:
        for i, row in enumerate(self.model.turns):
            if row.key == self._chosen:
                return i
        return len(self.model.turns) - 1

    def rows(self, width: int, height: int) -> list[Content]:
        if not self.model.turns:
            return [draw.text(("no turn yet: say something", draw.FAINT))]
        below: list[Content] = []
        if height >= 8:
            below += draw.statistics(self.model.timed(), self.budget, width)
        if height >= 12:
            below = [draw.legend(width), draw.text(""), *below]
        if height >= 4 and self.chosen is not None:
            below.append(draw.miss_line(self.chosen.record, missed(self.chosen.record, self.budget)))
        room = max(1, height - len(below))
        at, turns = self._index(), list(self.model.turns)
        each = 2 if len(turns) * 2 <= room else 1
        first = max(0, min(at - room // 2, len(turns) - room // each))
        shown = turns[first : first + room // each]
        self._shown = [row for row in shown for _ in range(each)]
        full = draw.scale_of(shown, self.budget)
        out: list[Content] = []
        for row in shown:
            chosen = self.has_focus and row is turns[at]
            out.append(draw.turn_line(row, self.budget, width, full, chosen))
            if each == 2:
                out.append(draw.remark(row, missed(row.record, self.budget)))
        return [*out, *[draw.text("")] * (room - len(out)), *below]

    def action_move(self, by: int) -> None:
        turns = self.model.turns
        if turns:
            at = max(0, min(len(turns) - 1, self._index() + by))
            self._chosen = None if at == len(turns) - 1 else turns[at].key
            self.refresh()

    def action_open(self) -> None:
        if self.chosen is not None:
            self.post_message(self.Opened(self.chosen))

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def on_click(self, event: Click) -> None:
        """A click chooses a turn, a second one on it opens it."""
        y = event.get_content_offset_capture(self).y
        if 0 <= y < len(self._shown):
            row = self._shown[y]
            again = self.chosen is row and event.chain > 1
            self._chosen = None if row is self.model.turns[-1] else row.key
            self.refresh()
            if again:
                self.action_open()


class Now(Panel):
    """What the focused session is doing, as curves and words."""

    hide_words = False

    def rows(self, width: int, height: int) -> list[Content]:
        view = self.model.focused
        if view is None:
            return [draw.text(("nobody is here", draw.FAINT))]
        state = draw.state_line(view, self.clock.now())
        words = [line for block in draw.dialogue(view, self.hide_words) for line in block.wrap(max(width, 1))]
        if height < 5 or width < 40:
            return [state, *words]
        if height < 8 and width < 76:
            return [state, draw.curves(view, width)[2], *words]
        if width >= 76 and height < 12:
            return self._beside(state, draw.curves(view, width // 2 - 2), width)
        return [state, *draw.curves(view, width), draw.text(""), *words]

    def _beside(self, state: Content, curves: list[Content], width: int) -> list[Content]:
        """Curves at the left, words at the right, where the panel is wide and low."""
        assert self.model.focused is not None
        left = width // 2
        blocks = draw.dialogue(self.model.focused, self.hide_words)
        column = [line for block in blocks for line in block.wrap(width - left)]
        rows = [state]
        for i in range(max(len(curves), len(column))):
            a = curves[i] if i < len(curves) else draw.text("")
            b = column[i] if i < len(column) else draw.text("")
            rows.append(Content.assemble(a, " " * max(0, left - a.cell_length), b))
        return rows


class Capacity(Panel):
    """KV cells, the cap and its sum, the sessions."""

    def rows(self, width: int, height: int) -> list[Content]:
        model, out = self.model, list[Content]()
        if model.llm is not None:
            out.append(Content.assemble(("KV ", draw.FAINT), draw.kv_bar(model.llm, max(8, width - 3))))
            legend = draw.kv_legend(model.llm, width)
            if height >= 5 or (height >= 3 and len(legend) == 1):
                out += legend
        held = None if model.llm is None else dict(model.llm.held)
        sessions = draw.sessions_table(list(model.sessions.values()), held, model.focus, self.clock.now(), width)
        if model.capacity is not None:
            out += draw.cap_lines(model.capacity, width)
            if model.ladder is not None and model.ladder.level and height >= 6:
                out.append(draw.text((f"  because {model.ladder.reason}", draw.FAINT)))
            out += self._sum(width, height - len(out) - len(sessions))
        if height - len(out) >= 2 and model.sessions:
            out += sessions
        return out or [draw.text(("no figures yet", draw.FAINT))]

    def _sum(self, width: int, room: int) -> list[Content]:
        """The arithmetic behind the cap: wrapped where there is room, cut at the edge where there is less."""
        assert self.model.capacity is not None
        whole = [draw.text((" ".join(line.split()), draw.FAINT)) for line in self.model.capacity.sum_lines]
        wrapped = [part for line in whole for part in line.wrap(max(width - 2, 1))]
        # Where nothing fits whole, the end of the sum is what decides.
        end = whole[-room:] if room > 0 else []
        chosen = next((rows for rows in (wrapped, whole) if len(rows) <= room), end)
        return [Content.assemble("  ", row) for row in chosen]

    def on_click(self, event: Click) -> None:
        self.model.next_session()


class Events(Panel):
    """The newest lines of the log, none of which holds a word that was spoken."""

    def rows(self, width: int, height: int) -> list[Content]:
        wall: Callable[[float], str] = self.clock.wall
        newest = list(self.model.log)[-height:] if height > 0 else []
        return [draw.log_line(line, wall) for line in newest]
