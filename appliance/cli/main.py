"""The command line's front door: mounts the commands and turns every error into two lines and an exit code.

It knows no command from the inside. Command modules import what they need when they run, so that
`appliance --help` loads neither numpy nor a vendor.
"""

import os
import signal
import sys

import typer
from typer.exceptions import Abort, Exit, TyperException

from appliance import __version__
from appliance.cli import bench, converse, models, plan, run, sessions, setup, top
from appliance.engines.openmp import wait_briefly
from appliance.errors import ApplianceError

app = typer.Typer(
    name="appliance",
    help="A voice assistant that runs entirely on one box, and shows where every millisecond went.",
    epilog="Start with: appliance demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"appliance {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    # Running never opens a connection: a vendor that tries finds itself offline.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    wait_briefly()


app.command("demo")(converse.demo)
app.command("converse")(converse.converse)
app.command("run")(run.run)
app.command("setup")(setup.setup)
app.command("doctor")(setup.doctor)
app.command("top")(top.top)
app.add_typer(bench.app, name="bench")
app.add_typer(models.app, name="models")
app.add_typer(plan.app, name="plan")
app.add_typer(sessions.app, name="sessions")


def main() -> None:
    """Entry point of the `appliance` command."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        code = app(standalone_mode=False)
    except ApplianceError as error:
        code = complain(error.message, error.hint, error.exit_code)
    except Exit as done:
        code = done.exit_code
    except TyperException as error:
        hint = "appliance --help"
        ctx = getattr(error, "ctx", None)
        if ctx is not None:
            hint = f"{ctx.command_path} --help"
        code = complain(error.format_message(), hint, 2)
    except (KeyboardInterrupt, Abort):
        code = complain("stopped", "", 130)
    except OSError as error:
        # The last net under file trouble that no room foresaw; a traceback helps nobody at a kiosk.
        name = f" ({error.filename})" if error.filename else ""
        code = complain(f"{error.strerror or error}{name}", "check the path, its permissions and the free space", 1)
    sys.exit(code if isinstance(code, int) else 0)


def complain(message: str, hint: str, code: int) -> int:
    """Print `error:` and `hint:` to stderr; returns `code`."""
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)
    return code
