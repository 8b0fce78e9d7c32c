"""A pull on a screen: a bar a model, the whole with its rate and time left, and what went wrong.

It owns how a pull looks and how it is called off. Fetching is done by the function it is given, on a thread of its
own; sums are `appliance.models.tally`'s.
"""

import threading
from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult, RenderResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Footer

from appliance.errors import ApplianceError, Cancelled
from appliance.models.fetch import PullResult
from appliance.models.progress import Progress, Watch, human_bytes
from appliance.models.tally import Arrived, Standing, Tally
from appliance.tui import draw
from appliance.tui.step import Step

Pull = Callable[[Watch], PullResult]
_TICK_S = 0.25
_PATIENCE_S = 2.0  # a source that is silent is not waited for when the pull is called off


def fetch_on_screen(title: str, pull: Pull, begin: Callable[[], Tally]) -> PullResult:
    """Run `pull` with its progress shown. What fails is shown too, and then raised or in the result as `pull` has it.

    Raises Cancelled when it was called off: what has arrived stays and is gone on with next time.
    """
    screen = FetchScreen(title, pull, begin)
    result = screen.run()
    if screen.error is not None:
        raise screen.error
    if result is None:
        raise Cancelled
    return result


class Bars(Widget):
    """Everything about the pull, redrawn a few times a second."""

    standing = Standing(())
    stopping = False
    error: ApplianceError | None = None

    def render(self) -> RenderResult:
        return draw.lines(rows(self.standing, self.size.width, stopping=self.stopping, error=self.error))


class FetchScreen(Step[PullResult]):
    """Ends by itself when everything is here; an error stays until it was read."""

    CSS = (
        Step.CSS
        + """
    VerticalScroll { padding: 1 1 0 1; height: 1fr; }
    Bars { height: auto; }
    """
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape,ctrl+c", "leave", "Stop, go on later"),
        Binding("r", "again", "Try again"),
    ]

    def __init__(self, title: str, pull: Pull, begin: Callable[[], Tally]) -> None:
        super().__init__(title)
        self.error: Exception | None = None
        self._pull, self._begin = pull, begin
        self._tally = begin()
        self._result: PullResult | None = None
        self._stop = threading.Event()
        self._ended = threading.Event()

    def compose(self) -> ComposeResult:
        yield self.heading()
        with VerticalScroll(can_focus=False):
            yield Bars()
        yield Footer()

    def on_mount(self) -> None:
        self._start()
        self.set_interval(_TICK_S, self.tick)

    def tick(self) -> None:
        """Draw, and see whether it has ended."""
        bars = self.query_one(Bars)
        bars.standing, bars.stopping = self._tally.standing(), self._stop.is_set()
        if self._ended.is_set():
            if self._stop.is_set() or (self._complaint() is None and self.error is None):
                self.exit(self._result)
            elif self._complaint() is None:
                self.exit(None)  # nothing a person can mend: whoever asked for the screen gets it
            elif bars.error is None:
                bars.error = self._complaint()
                self.refresh_bindings()
        bars.refresh(layout=True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "again" or self._complaint() is not None

    def action_leave(self) -> None:
        if self._ended.is_set() or self._stop.is_set():
            self.exit(self._result)
            return
        self._stop.set()
        self.set_timer(_PATIENCE_S, lambda: self.exit(None))
        self.tick()

    def action_again(self) -> None:
        self._tally = self._begin()
        self._start()
        self.query_one(Bars).error = None
        self.refresh_bindings()
        self.tick()

    def _start(self) -> None:
        self.error, self._result = None, None
        self._ended.clear()
        # Not one of Textual's workers: those are waited for, and a pull that was called off may hang in a read.
        threading.Thread(target=self._work, name="pull", daemon=True).start()

    def _work(self) -> None:
        try:
            self._result = self._pull(self._watch)
        except Cancelled:
            pass
        except Exception as error:  # noqa: BLE001  the edge of the thread: `fetch_on_screen` raises it when the screen has gone
            self.error = error
        finally:
            self._ended.set()

    def _watch(self, step: Progress) -> None:
        if self._stop.is_set():
            raise Cancelled
        self._tally.feed(step)

    def _complaint(self) -> ApplianceError | None:
        """What a person is told once it has ended without everything being here."""
        if not self._ended.is_set() or self._stop.is_set():
            return None
        if self._result is not None:
            return next(iter(self._result.failed.values()), None)
        return self.error if isinstance(self.error, ApplianceError) else None


def rows(standing: Standing, width: int, *, stopping: bool, error: ApplianceError | None) -> list[Content]:
    """The whole screen between title and footer."""
    called = min(28, max((len(model.model_id) for model in standing.models), default=0))
    at_work = error is None and not stopping
    current = standing.current if at_work else ""
    lines = [model_line(model, current, called, width) for model in standing.models]
    lines += [draw.text(""), whole_line(standing, called, width), figures(standing, at_work), draw.text("")]
    if error is not None:
        lines.append(draw.text(("✗ ", draw.OVER), (error.message, "$over")))
        lines += [draw.text((f"  hint: {error.hint}", ""))] if error.hint else []
    elif stopping:
        lines.append(draw.text(("stopping: what has arrived is kept", "$accent")))
    else:
        lines.append(draw.text((current or "connecting …", draw.FAINT)))
    return lines + [draw.text((note, draw.FAINT)) for note in standing.notes[-4:]]


def model_line(model: Arrived, current: str, called: int, width: int) -> Content:
    """One model: whether it is here, its bar and its bytes."""
    here = model.total_bytes > 0 and model.done_bytes >= model.total_bytes
    coming = current.startswith(f"{model.model_id}/")
    sign, style = ("✓", "$fine") if here else ("►", "$accent") if coming else ("○", draw.FAINT)
    total = human_bytes(model.total_bytes) if model.total_bytes else "size unknown"
    said = f"{total:>9}" if here else f"{human_bytes(model.done_bytes):>9} of {total}"
    name = model.model_id if len(model.model_id) <= called else model.model_id[: called - 1] + "…"
    room = max(4, width - called - 28)
    return draw.text(
        (f"{sign} ", style), f"{name:<{called}} ", *bar(model.done_bytes, model.total_bytes, room), f" {said}"
    )


def whole_line(standing: Standing, called: int, width: int) -> Content:
    room = max(4, width - called - 28)
    share = f"{standing.done_bytes / standing.total_bytes:9.0%}" if standing.total_bytes else ""
    cells = bar(standing.done_bytes, standing.total_bytes, room)
    return draw.text(("  " + f"{'together':<{called}} ", "bold"), *cells, (f" {share}", "bold"))


def figures(standing: Standing, at_work: bool) -> Content:
    """Bytes, and while it goes on rate and time left, as far as they can be said."""
    said = [f"{human_bytes(standing.done_bytes)} of {human_bytes(standing.total_bytes)}"]
    if at_work and standing.rate is not None:
        said.append(f"{human_bytes(round(standing.rate))}/s")
    if at_work and standing.left_s is not None:
        said.append(f"{draw.span(standing.left_s)} left")
    return draw.text("  " + ", ".join(said))


def bar(done: int, total: int, columns: int) -> list[draw.Piece]:
    """To scale; an unknown total shows none."""
    filled, rest = draw.gauge(done / total if total else 0.0, columns)
    return [(filled, "$primary"), (rest, draw.FAINT)]
