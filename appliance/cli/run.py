"""`appliance run`: microphone, speaker, and the screen; `--no-tui` for services."""

import asyncio
import contextlib
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from appliance.config import Config
    from appliance.service.service import Service


def run(
    no_tui: Annotated[bool, typer.Option("--no-tui", help="No screen; says ready on stderr.")] = False,
    tier: Annotated[str | None, typer.Option(metavar="NAME", help="tiny, starter, desktop, …")] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="A TOML file layered over its tier.")] = None,
    db: Annotated[Path | None, typer.Option(metavar="FILE", help="Another store than this user's own.")] = None,
) -> None:
    """Listen to the microphone and answer aloud until stopped.

    Example: appliance run --tier starter --no-tui
    """
    from appliance.config import load

    settings = load(config, tier)
    asyncio.run(_run(settings, db, screen=not no_tui and sys.stdout.isatty()))


async def _run(config: "Config", db: Path | None, *, screen: bool) -> None:
    from appliance.app import Appliance
    from appliance.service.service import Service
    from appliance.telemetry.log import setup_logging

    setup_logging("error" if screen else "info")
    box = Appliance(config)
    box.keep(db)
    service = Service(config, box)
    try:
        if screen:
            from appliance.tui.run import run_service

            await run_service(service)
        else:
            await _serve(service)
    finally:
        await service.close()


async def _serve(service: "Service") -> None:
    """Start, say ready, and serve until SIGINT or SIGTERM; then drain."""
    from appliance.telemetry.log import log_turns

    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, service.stop)
    told = service.box.bus.subscribe(durable=True)
    log = asyncio.create_task(log_turns(told))
    try:
        await _until_stopped(service)
    finally:
        told.close()
        await log


async def _until_stopped(service: "Service") -> None:
    from appliance.setup.notify import keep_alive, notify
    from appliance.tui.run import serving

    await service.start(lambda stage: print(f"{stage} …", file=sys.stderr))
    reception = service.reception
    assert reception is not None
    for line in reception.cap.lines:
        print(line, file=sys.stderr)
    stations = ", ".join(visits.station for visits in service.visits)
    print(f"ready: {stations}; up to {reception.cap.sessions} sessions", file=sys.stderr, flush=True)
    notify("READY=1")
    dog = asyncio.create_task(keep_alive())
    try:
        async with serving(service.box, service):
            await service.serve()
    finally:
        notify("STOPPING=1")
        dog.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await dog
