"""`appliance top`: the screen of an appliance that already runs, over its snapshot socket."""

from pathlib import Path
from typing import Annotated

import typer


def top(
    socket: Annotated[
        Path | None, typer.Option("--socket", metavar="PATH", help="Another socket than this user's own.")
    ] = None,
) -> None:
    """Show the screen of the appliance that runs as a service. Example: appliance top"""
    from appliance.tui.socket import default_socket, watch

    watch(socket or default_socket())
