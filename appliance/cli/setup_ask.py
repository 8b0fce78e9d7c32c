"""What `appliance setup` asks, and how the download is shown: on screens, or in plain lines where none can be drawn.

Owns the questions; what the answers mean and what follows from them is done in `appliance.setup` and by the command.
"""

import os
import sys
from typing import TYPE_CHECKING

import typer

from appliance.errors import Cancelled, UsageError

if TYPE_CHECKING:
    from appliance.models.progress import Watch
    from appliance.models.shelf import Shelf
    from appliance.setup.devices import Choices, Chosen
    from appliance.setup.verdicts import Verdict


def on_screens() -> bool:
    """Whether a screen can be drawn here and read by somebody."""
    seen = all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
    return seen and os.environ.get("TERM", "dumb") != "dumb"


def ask_tier(verdicts: "list[Verdict]", recommended: str | None) -> str | None:
    """The tier a person chose; None where none fits. Raises Abort when the screen was left."""
    from appliance.setup.verdicts import NO

    possible = [verdict.name for verdict in verdicts if verdict.verdict != NO]
    if not possible:
        return None
    if not sys.stdin.isatty():
        raise UsageError("set-up cannot ask here: the input is not a terminal", "say --yes, or --tier NAME --yes")
    if on_screens():
        from appliance.tui.choose import choose_tier

        chosen = choose_tier(verdicts, recommended)
        if chosen is None:
            raise typer.Abort
        return chosen
    answer: str = typer.prompt(f"Which tier ({', '.join(possible)})", default=recommended, err=True)
    return answer.strip()


def ask_devices(kept: "Chosen") -> "Chosen":
    """Microphone and speaker, `kept` where a person says nothing else. Raises Abort when the screen was left."""
    from appliance.setup.devices import INPUT, OUTPUT, Chosen, look

    if on_screens():
        from appliance.tui.devices import choose_devices

        chosen = choose_devices(kept)
        if chosen is None:
            raise typer.Abort
        return chosen
    choices = look(kept)
    for sentence in dict.fromkeys(choices.trouble.values()):
        _say(sentence)
    return Chosen(_ask_device(choices, INPUT, kept.input), _ask_device(choices, OUTPUT, kept.output))


def _ask_device(choices: "Choices", kind: str, kept: str) -> str:
    from appliance.setup.devices import CALLED, named

    if kind in choices.trouble:
        return kept
    for number, choice in enumerate(choices.of(kind), 1):
        _say(f"{number:>4}  {choice.name} ({choice.note})")
    while True:
        answer: str = typer.prompt(f"Which {CALLED[kind]}, by number or name", default=kept, err=True)
        name = named(answer, choices.of(kind))
        if name is not None:
            return name
        _say(f"{answer} is not one {CALLED[kind]} of these")


def fetch(shelf: "Shelf", tier: str, ids: list[str]) -> None:
    """Pull `ids` with a screen. Says what became of them and raises as `appliance models pull` does."""
    from appliance.cli.models import tell
    from appliance.models.fetch import Puller, PullResult
    from appliance.models.tally import Tally, missing
    from appliance.tui.fetch import fetch_on_screen

    def pull(watch: "Watch") -> PullResult:
        return Puller(shelf, watch).pull(ids)

    try:
        result = fetch_on_screen(f"fetching the models of {tier}", pull, lambda: Tally(missing(shelf, ids)))
    except Cancelled:
        _say("stopped: what has arrived is kept, and appliance setup goes on from there")
        raise typer.Exit(130) from None
    tell(result)


def _say(text: str) -> None:
    print(text, file=sys.stderr)
