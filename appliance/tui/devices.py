"""Choosing microphone and speaker on a screen, with a live level and a soft sound to try them by.

It owns how the choice looks and when a device is tried: only what is highlighted, only while this is shown. Finding,
opening and playing are done by `appliance.setup.devices`; what was chosen is written by `appliance setup`.
"""

import asyncio
from collections.abc import Callable
from typing import ClassVar, Protocol

from textual import work
from textual.app import ComposeResult, RenderResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Footer, OptionList, Static
from textual.widgets.option_list import Option

from appliance.audio.levels import SILENCE_DBFS
from appliance.setup.devices import (
    CALLED,
    INPUT,
    OUTPUT,
    TELL_S,
    Choice,
    Choices,
    Chosen,
    Heard,
    Trial,
    level_words,
    offered,
)
from appliance.tui import draw
from appliance.tui.step import Step, terminal_apart

_SETTLE_S = 0.15  # the highlight rests for so long before a device is opened: an arrow held down opens none
_FLOOR_DBFS = -70.0  # the bar's left end; its right one is full scale
_FALL_DB_S = 30.0  # a bar that falls slower than sound can be read


class Tryout(Protocol):
    """What the screen asks of `appliance.setup.devices.Trial`."""

    def look(self, kept: Chosen, *, anew: bool = False) -> Choices: ...

    async def listen(self, name: str, told: Callable[[Heard], None]) -> None: ...

    async def play(self, name: str) -> str: ...

    def close(self) -> None: ...


def choose_devices(kept: Chosen) -> Chosen | None:
    """What was chosen, `kept` being chosen at first; None when the screen was left."""
    trial = Trial()
    with terminal_apart():
        try:
            return DeviceScreen(trial, kept).run()
        finally:
            trial.close()


class DeviceList(OptionList):
    """One list. A click highlights and no more: Enter goes on, from the microphones to the speakers first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
    ]


class Microphones(DeviceList):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "app.focus_next", "Then the speaker")]


class Speakers(DeviceList):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "app.take", "Take these")]


class Ear(Widget):
    """The level of the highlighted microphone, and what it means."""

    heard = Heard()
    shown_dbfs = SILENCE_DBFS

    def hear(self, heard: Heard) -> None:
        # Other words may need other lines; a level alone moves nothing, ten times a second.
        moved = level_words(heard) != level_words(self.heard)
        self.heard, self.shown_dbfs = heard, max(heard.dbfs, self.shown_dbfs - _FALL_DB_S * TELL_S)
        self.refresh(layout=moved)

    def render(self) -> RenderResult:
        words = draw.text((level_words(self.heard), "$accent" if self.heard.trouble else draw.FAINT))
        return words if self.heard.trouble else draw.lines([level_line(self.shown_dbfs, self.size.width), words])


class DeviceScreen(Step[Chosen]):
    """Two lists; arrows, Tab and Enter, or the mouse."""

    CSS = (
        Step.CSS
        + """
    Vertical { width: 1fr; height: 1fr; padding: 0 1; }
    #speakers { border-left: solid $border-blurred; }
    .-narrow #speakers { border-left: none; border-top: solid $border-blurred; }
    OptionList { height: auto; max-height: 1fr; border: none; background: $background; padding: 0; }
    OptionList > .option-list--option-highlighted { background: $panel; color: $foreground; }
    OptionList:focus > .option-list--option-highlighted { background: $panel; color: $primary; text-style: bold; }
    Ear, #mouth { height: auto; min-height: 2; max-height: 4; }
    """
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "play", "Play a sound"),
        Binding("r", "look", "Look again"),
    ]

    def __init__(self, trial: Tryout, kept: Chosen, settle_s: float = _SETTLE_S) -> None:
        super().__init__("which microphone and speaker?")
        self._trial, self._kept, self._settle_s = trial, kept, settle_s
        # Until the devices are known one can go on with what is configured.
        self._choices = offered([], kept)
        self._known = False
        self._followed = ""

    def compose(self) -> ComposeResult:
        yield self.heading()
        with Horizontal():
            with Vertical():
                yield Static(draw.text(("Microphone", "bold")))
                yield Microphones(id=INPUT)
                yield Ear()
            with Vertical(id="speakers"):
                yield Static(draw.text(("Speaker", "bold")))
                yield Speakers(id=OUTPUT)
                yield Static(id="mouth")
        yield Footer()

    def on_mount(self) -> None:
        self._fill(self._kept)
        self.query_one(Microphones).focus()
        self.action_look(anew=False)

    async def on_unmount(self) -> None:
        await asyncio.to_thread(self._trial.close)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        kind = event.option_list.id or ""
        for n, choice in enumerate(self._choices.of(kind)):
            event.option_list.replace_option_prompt_at_index(n, line(choice, n == self._at(kind)))
        if kind == INPUT:
            self._listen()
        elif self._known:
            self._say(self._silence(OUTPUT))

    def action_take(self) -> None:
        self.exit(self._chosen())

    def action_look(self, anew: bool = True) -> None:
        self._known = False
        self.workers.cancel_group(self, "ear")
        self.workers.cancel_group(self, "mouth")
        self.query_one(Ear).hear(Heard(trouble="looking for devices …"))
        self._say("")
        self._followed = ""
        self._look(anew)

    def action_play(self) -> None:
        if self._known and not self._silence(OUTPUT):
            self._play(self._chosen().output)

    @work(group="look", exclusive=True)
    async def _look(self, anew: bool) -> None:
        chosen = self._chosen()
        self._choices = await asyncio.to_thread(self._trial.look, chosen, anew=anew)
        self._known = True
        self._fill(chosen)
        self._listen()
        self._say(self._silence(OUTPUT))

    def _fill(self, chosen: Chosen) -> None:
        for kind, name in ((INPUT, chosen.input), (OUTPUT, chosen.output)):
            choices = self._choices.of(kind)
            lines = self.query_one(f"#{kind}", DeviceList)
            lines.clear_options()
            lines.add_options([Option(line(choice, False)) for choice in choices])
            lines.highlighted = next((n for n, choice in enumerate(choices) if choice.name == name), 0)

    def _listen(self) -> None:
        """Open the highlighted microphone, in place of the one before."""
        name = self._chosen().input
        if not self._known or name == self._followed:
            return
        self._followed = name
        ear = self.query_one(Ear)
        ear.shown_dbfs = SILENCE_DBFS
        if silence := self._silence(INPUT):
            self.workers.cancel_group(self, "ear")
            ear.hear(Heard(trouble=silence))
        else:
            ear.hear(Heard(trouble="opening …"))
            self._follow(name)

    @work(group="ear", exclusive=True)
    async def _follow(self, name: str) -> None:
        await asyncio.sleep(self._settle_s)
        await self._trial.listen(name, self._heard)

    def _heard(self, heard: Heard) -> None:
        # A stream that is being closed may still have something to say.
        if self._known and self.is_running and not self._silence(INPUT):
            self.query_one(Ear).hear(heard)

    @work(group="mouth", exclusive=True)
    async def _play(self, name: str) -> None:
        self._say("playing …")
        trouble = await self._trial.play(name)
        self._say(trouble, "two soft notes were played: did you hear them?")

    def _silence(self, kind: str) -> str:
        """Why the highlighted device of that kind cannot be tried; "" when it can."""
        if kind in self._choices.trouble:
            return f"{self._choices.trouble[kind]} r looks again, Enter goes on."
        choice = self._choices.of(kind)[self._at(kind)]
        return "" if choice.there else f"This {CALLED[kind]} is not there now; it can be chosen all the same."

    def _say(self, trouble: str, else_say: str = "t plays two soft notes") -> None:
        said = (trouble, "$accent") if trouble else (else_say, draw.FAINT)
        self.query_one("#mouth", Static).update(draw.text(said))

    def _at(self, kind: str) -> int:
        return self.query_one(f"#{kind}", DeviceList).highlighted or 0

    def _chosen(self) -> Chosen:
        names = [self._choices.of(kind)[self._at(kind)].name for kind in (INPUT, OUTPUT)]
        return Chosen(*names)


def line(choice: Choice, chosen: bool) -> Content:
    """A device as a line of its list."""
    name = (choice.name, "" if choice.there else draw.FAINT)
    return draw.text(("› " if chosen else "  ", "bold $primary"), name, ("  " + choice.note, draw.FAINT))


def level_line(dbfs: float, width: int) -> Content:
    """A bar to scale with its figure behind it."""
    filled, rest = draw.gauge(1.0 - dbfs / _FLOOR_DBFS, max(4, width - 10))
    figure = f"{dbfs:4.0f} dB" if dbfs > SILENCE_DBFS else "   – dB"
    return draw.text((filled, "$part-asr"), (rest, draw.FAINT), f" {figure}")
