"""Choosing a tier on a screen: each a card with its verdict, beside it the sum that the verdict comes from.

It owns how the choice looks. What a tier needs and whether it fits was judged before (`appliance.setup`), and
what follows from the choice is done by `appliance setup`; without a terminal that asks in plain lines.
"""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Footer, OptionList, Static
from textual.widgets.option_list import Option

from appliance.capacity.text import plain_size
from appliance.setup.verdicts import FITS, NO, Verdict
from appliance.tui import draw
from appliance.tui.step import Step


def choose_tier(verdicts: Sequence[Verdict], recommended: str | None) -> str | None:
    """The name that was chosen; None when the screen was left without a choice."""
    return TierScreen(verdicts, recommended).run()


class Cards(OptionList):
    """The list, with its Enter named in the footer."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select", "Choose this tier")]


class TierScreen(Step[str]):
    """Arrows and Enter, or the mouse."""

    CSS = (
        Step.CSS
        + """
    #cards { width: 1fr; max-width: 64; height: 1fr; border: none; background: $background; padding: 0 1; }
    #cards > .option-list--option-highlighted { background: $panel; }
    #sum { width: 1fr; height: 1fr; padding: 0 1; border-left: solid $border-blurred; }
    .-narrow #cards { max-width: 100%; }
    .-narrow #sum { border-left: none; border-top: solid $border-blurred; }
    """
    )

    def __init__(self, verdicts: Sequence[Verdict], recommended: str | None) -> None:
        super().__init__("which tier?")
        self._verdicts, self._recommended = list(verdicts), recommended

    def compose(self) -> ComposeResult:
        yield self.heading()
        with Horizontal():
            yield Cards(*[Option(card(v, v.name == self._recommended), id=v.name) for v in self._verdicts], id="cards")
            with VerticalScroll(id="sum", can_focus=False):
                yield Static(id="lines")
        yield Footer()

    def on_mount(self) -> None:
        names = [v.name for v in self._verdicts]
        cards = self.query_one(OptionList)
        cards.highlighted = names.index(self._recommended) if self._recommended in names else 0
        cards.focus()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        self.query_one("#lines", Static).update(draw.lines(sum_rows(self._verdicts[event.option_index])))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        verdict = self._verdicts[event.option_index]
        if verdict.verdict == NO:
            self.notify(verdict.why, title=f"{verdict.name} does not fit this machine", severity="warning")
        else:
            self.exit(verdict.name)


def card(verdict: Verdict, recommended: bool) -> Content:
    """Three or four lines: the name with its verdict, what it is, what to expect."""
    signs = {FITS: ("✓", "bold $fine"), NO: ("✗", draw.FAINT)}
    sign, style = signs.get(verdict.verdict, ("~", "bold $accent"))
    faint = verdict.verdict == NO
    head = draw.text(
        (f"{sign} ", style),
        (verdict.name, draw.FAINT if faint else "bold"),
        (f"  {verdict.verdict}", style),
        ("  recommended" if recommended else "", "bold $primary"),
    )
    rows = [head, draw.text((f"  {verdict.summary}", draw.FAINT))]
    if verdict.v2v_ms is not None:
        people = "1 session" if verdict.sessions == 1 else f"{verdict.sessions} sessions"
        fetch = f"{plain_size(verdict.download_bytes)} to fetch" if verdict.download_bytes else "nothing to fetch"
        rows.append(draw.text(f"  {people}, about {verdict.v2v_ms:.0f} ms voice to voice, {fetch}"))
    if verdict.why:
        rows.append(draw.text(("  ", ""), (verdict.why, draw.FAINT if faint else "$accent")))
    return draw.lines([*rows, draw.text("")])


def sum_rows(verdict: Verdict) -> list[Content]:
    """The arithmetic, as it is printed elsewhere too."""
    return [
        draw.text((f"{verdict.name}: the sum", "bold")),
        draw.text(""),
        *[draw.text(line) for line in verdict.lines],
    ]
