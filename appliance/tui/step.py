"""One step of set-up on a screen of its own: title, colours, and how it is left.

It owns what the steps have in common, and the terminal's descriptor while one is shown.
"""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import ClassVar, TypeVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.widgets import Static

from appliance.tui import draw
from appliance.tui.theme import DARK, DARK_PARTS, LIGHT, LIGHT_PARTS, fitting

Result = TypeVar("Result")


class Step(App[Result]):
    """Runs until it has a result; None when it was left without one."""

    TITLE = "appliance setup"
    CSS = """
    Screen { background: $background; }
    #title { height: 1; background: $panel; padding: 0 1; }
    .-narrow Horizontal { layout: vertical; }
    """
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (90, "-wide")]  # noqa: RUF012  Textual's own attribute
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape,ctrl+c", "leave", "Leave"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return DARK_PARTS if self.current_theme.dark else LIGHT_PARTS

    def heading(self) -> Static:
        return Static(draw.text(("appliance setup", "bold $primary"), (f"   {self._question}", "")), id="title")

    def on_mount(self) -> None:
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        self.theme = fitting().name

    def action_leave(self) -> None:
        self.exit(None)


@contextlib.contextmanager
def terminal_apart() -> Iterator[None]:
    """Give a screen a descriptor of its own on the terminal.

    Textual draws on stderr, and C libraries complain on it: sound code turns descriptor 2 aside while it opens
    devices, which would take the picture with it. What was written there meanwhile follows when the screen is gone.
    """
    sys.stderr.flush()
    usual, terminal = sys.__stderr__, os.dup(2)
    with tempfile.TemporaryFile() as kept, os.fdopen(terminal, "w", encoding="utf-8") as drawn:
        os.dup2(kept.fileno(), 2)
        sys.__stderr__ = drawn  # type: ignore[misc]  # where Textual looks for it
        try:
            yield
        finally:
            sys.__stderr__ = usual  # type: ignore[misc]
            sys.stderr.flush()
            drawn.flush()
            os.dup2(terminal, 2)
            kept.seek(0)
            os.write(2, kept.read())
