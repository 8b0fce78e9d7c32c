"""`appliance top`: the screen of an appliance that already runs, over its snapshot socket."""

from pathlib import Path
from typing import Annotated

import typer


def top(
    socket: Annotated[
        Path | None, typer.Option("--socket", metavar="PATH", help="Another socket than this user's own.")
    ] = None,
) -> None:
    """Show the screen of the appliance that runs as a service; it reconnects by itself.

    Example: appliance top
    """
    import asyncio
    import sys

    from appliance.errors import MissingError, UsageError
    from appliance.tui.child import run_client
    from appliance.tui.socket import default_socket

    path = socket or default_socket()
    if not sys.stdout.isatty():
        raise UsageError("the screen needs a terminal", "over ssh: ssh -t HOST appliance top")
    if not path.exists():
        raise MissingError(f"no appliance serves its screen at {path}", "start one: appliance run, or its user service")
    raise typer.Exit(asyncio.run(run_client(path=path)))
