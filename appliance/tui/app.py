"""The screen: it drains events a few times a second, draws what changed, and passes keys on.

It owns the arrangement, the keys and the pace. Everything it knows came in as events; everything it asks for
goes out through `Controls`. It may be slow, or die: nothing waits for it.
"""

from collections.abc import Iterable
from typing import ClassVar

from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.events import Resize
from textual.screen import ModalScreen, Screen
from textual.widgets import Footer, Static

from appliance.errors import ApplianceError
from appliance.tui import draw
from appliance.tui.detail import DetailScreen
from appliance.tui.link import Controls, EventFeed, ScreenClock, ScreenSettings, TurnReader
from appliance.tui.model import CAPACITY, EVENTS, HEAD, NOW, TURNS_REGION, ScreenModel
from appliance.tui.theme import DARK, DARK_PARTS, LIGHT, LIGHT_PARTS, fitting
from appliance.tui.widgets import Capacity, Events, Head, Now, Panel, Waterfall

HELP = (
    ("space", "talk: listen now, without a wake word"),
    ("m", "mute the microphone, or listen again"),
    ("i", "interrupt the answer"),
    ("w", "hide or show words"),
    ("n", "next session"),
    ("↑ ↓", "choose a turn; enter or a double click opens it"),
    ("l", "light or dark"),
    ("ctrl+p", "all commands"),
    ("?", "this page"),
    ("q", "quit"),
)
TITLES = ("Where the time went", "Now", "Capacity", "Events")
READING = (
    "A row is a turn, from the last sample you spoke to the first you hear. The line │ is the budget. "
    "▚ is waiting time in which transcript and answer were already being made. ▲ marks what took longer than "
    "its budget, so colour is never needed."
)


class HelpScreen(ModalScreen[None]):
    """Keys, and how to read a row."""

    VERTICAL_BREAKPOINTS = [(0, "-low"), (26, "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,enter,f1", "dismiss", "Back")]

    def compose(self) -> ComposeResult:
        keys = [draw.text((f"{key:>8}", "bold $accent"), f"  {does}") for key, does in HELP]
        blank = draw.text("")
        page = draw.lines([*keys, blank, draw.legend(64), blank, draw.text((READING, draw.FAINT))])
        with VerticalScroll(id="help"):
            yield Static(page)


class MainScreen(Screen[None]):
    """Waterfall, now, capacity, events."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (76, "-normal"), (110, "-wide")]  # noqa: RUF012  Textual's own attribute
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (17, "-low"), (30, "-tall")]  # noqa: RUF012

    def __init__(self, model: ScreenModel, settings: ScreenSettings, clock: ScreenClock) -> None:
        super().__init__()
        self.head = Head(model, settings, clock, id="head")
        self.waterfall = Waterfall(model, settings, clock, id="waterfall")
        self.now = Now(model, settings, clock, id="now")
        self.capacity = Capacity(model, settings, clock, id="capacity")
        self.events = Events(model, settings, clock, id="events")
        for panel, title in zip((self.waterfall, self.now, self.capacity, self.events), TITLES, strict=True):
            panel.border_title = title

    def compose(self) -> ComposeResult:
        yield self.head
        with Container(id="body"):
            with Vertical(id="left"):
                yield self.waterfall
            with Vertical(id="right"):
                yield self.now
                yield self.capacity
        yield self.events
        yield Footer()

    def panels(self) -> tuple[tuple[Panel, str], ...]:
        """Each panel with the region of the model that it draws."""
        return (
            (self.head, HEAD),
            (self.waterfall, TURNS_REGION),
            (self.now, NOW),
            (self.capacity, CAPACITY),
            (self.events, EVENTS),
        )

    def on_mount(self) -> None:
        self.waterfall.focus()

    def on_resize(self, event: Resize) -> None:
        footer = self.query_one(Footer)
        footer.compact = event.size.width < 96
        footer.show_command_palette = event.size.width >= 88


class ApplianceScreen(App[None]):
    """Give it a feed to drain, controls, and a reader of stored turns; `run_async` returns when it is quit."""

    CSS_PATH = "screen.tcss"
    TITLE = "appliance"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "talk", "Talk"),
        Binding("m", "mute", "Mute"),
        Binding("i", "interrupt", "Interrupt"),
        Binding("w", "hide_words", "Words"),
        Binding("n", "next_session", "Next"),
        Binding("l", "light", "Light", show=False),
        Binding("question_mark,f1", "help", "Help"),
        Binding("q,ctrl+c", "quit", "Quit"),
    ]

    def __init__(
        self,
        feed: EventFeed,
        controls: Controls,
        reader: TurnReader,
        settings: ScreenSettings,
        clock: ScreenClock | None = None,
    ) -> None:
        super().__init__()
        self.model = ScreenModel()
        self.hide_words = settings.hide_words
        self._feed, self._controls, self._reader, self._settings = feed, controls, reader, settings
        self._clock = clock or ScreenClock()
        self._status = ""
        self._main = MainScreen(self.model, settings, self._clock)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return DARK_PARTS if self.current_theme.dark else LIGHT_PARTS

    def get_default_screen(self) -> Screen[None]:
        return self._main

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        yield from super().get_system_commands(screen)
        yield SystemCommand("Talk", "Listen now, without a wake word", self.action_talk)
        yield SystemCommand("Mute", "Stop listening, or listen again", self.action_mute)
        yield SystemCommand("Interrupt", "Stop the answer that is being spoken", self.action_interrupt)
        yield SystemCommand("Words", "Hide or show what was said", self.action_hide_words)
        yield SystemCommand("Next session", "Look at another session", self.action_next_session)
        yield SystemCommand("Light or dark", "Change between the two themes", self.action_light)

    def on_mount(self) -> None:
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = fitting().name

    def on_ready(self) -> None:
        self._show_words()
        self.tick()
        self.run_worker(self._read_past(), group="past")
        self.set_interval(self._settings.redraw_s, self.tick)

    async def _read_past(self) -> None:
        try:
            self.model.add_stored(await self._reader.recent(100))
        except ApplianceError as error:
            self.notify(error.message, severity="warning")

    def tick(self) -> None:
        """Take what came, and draw the panels whose content differs. At most once in `redraw_s`."""
        if self._feed.renewed():
            self.model.reset()
        for event in self._feed.drain():
            self.model.take(event)
        status = self._feed.status
        if status != self._status:
            self._status = status
            self._main.head.link = status
            self.model.changed.add(HEAD)
        changed = self.model.settle()
        if not self.screen_stack or self.screen is not self._main:  # none while the app ends
            self.model.changed |= changed  # drawn when the main screen is back
            return
        # Ages go on without events; a panel whose content stays the same is not drawn.
        for panel, region in self._main.panels():
            if region in changed or region in _AGEING or (panel is self._main.head and EVENTS in changed):
                panel.redraw()

    def on_waterfall_opened(self, message: Waterfall.Opened) -> None:
        rows = list(self.model.turns)
        self.push_screen(DetailScreen(rows, rows.index(message.row), self._reader, self._settings, self.hide_words))

    def action_talk(self) -> None:
        self._controls.talk(self.model.focus)

    def action_mute(self) -> None:
        self._controls.mute(self.model.focus)

    def action_interrupt(self) -> None:
        self._controls.interrupt(self.model.focus)

    def action_hide_words(self) -> None:
        self.hide_words = not self.hide_words
        self._show_words()

    def action_next_session(self) -> None:
        self.model.next_session()
        self.tick()

    def action_help(self) -> None:
        self.push_screen(HelpScreen())

    def action_light(self) -> None:
        self.theme = LIGHT.name if self.current_theme.dark else DARK.name

    def _show_words(self) -> None:
        panel = self._main.now
        panel.hide_words = self.hide_words
        panel.border_title = "Now, words hidden" if self.hide_words else "Now"
        panel.refresh()


_AGEING = {NOW, CAPACITY}
