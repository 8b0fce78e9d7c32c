"""An appliance with its screen: the service, or a conversation over files.

It owns the order of things: the socket opens first, the screen shows the start-up, and a screen that dies
leaves the conversation to end in peace.
"""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path

from appliance.app import Appliance
from appliance.config import Config
from appliance.conversation.conversation import Conversation
from appliance.converse import Talk, hold_in
from appliance.events import Notice, TurnRecord
from appliance.service.service import Service
from appliance.store.database import default_path
from appliance.tui.child import run_screen
from appliance.tui.link import Controls, ScreenSettings
from appliance.tui.socket import SnapshotServer, default_socket


@contextlib.asynccontextmanager
async def serving(
    box: Appliance, controls: Controls, socket: Path | None = None, *, listen: bool = True
) -> AsyncIterator[SnapshotServer]:
    """Serve `box`'s snapshots at `socket` (default: this user's) for `appliance top`. Call `box.keep` before it.

    Raises UsageError where another appliance serves there; `listen` False serves nobody but `run_screen`.
    """
    settings = ScreenSettings(box.config.tier, box.config.screen.hide_words, budget=box.config.budget)
    server = SnapshotServer(box.bus, controls, settings, box.store.path if box.store else None)
    try:
        if listen:
            await server.start(socket or default_socket())
        yield server
    finally:
        await server.close()


async def run_service(service: Service) -> None:
    """Start the service and show it until the screen is quit, or SIGTERM; then drain. The caller closes it."""
    box = service.box
    async with serving(box, service) as server:
        screen = asyncio.create_task(run_screen(server, log_path()))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, service.stop)
        try:
            starting = asyncio.create_task(service.start(lambda stage: _say(box, stage)))
            await asyncio.wait([starting, screen], return_when=asyncio.FIRST_COMPLETED)
            if screen.done() and screen.result() == 0:
                starting.cancel()
                await asyncio.gather(starting, return_exceptions=True)
                return
            await starting
            _say(box, "ready")
            serve = asyncio.create_task(service.serve())
            await asyncio.wait([serve, screen], return_when=asyncio.FIRST_COMPLETED)
            if screen.done() and screen.result() == 0:
                service.stop()  # it was quit; a screen that crashed leaves the service running
            await serve
        finally:
            await _end(screen)


async def with_screen(config: Config, talk: Talk) -> list[TurnRecord]:
    """Hold a conversation over files with the screen beside it; returns when both have ended.

    Quitting the screen ends the conversation; a screen that crashes does not.
    """
    records: list[TurnRecord] = []
    box = Appliance(config)
    if talk.keep:
        box.keep(talk.db)
    try:
        keys = KeysOverFiles()
        async with serving(box, keys, listen=False) as server:
            screen = asyncio.create_task(run_screen(server, log_path()))
            talking = asyncio.create_task(_start_and_hold(box, talk, records, keys))
            try:
                await asyncio.wait([talking, screen], return_when=asyncio.FIRST_COMPLETED)
                if screen.done() and screen.result() == 0 and not talking.done():
                    talking.cancel()
                    await asyncio.gather(talking, return_exceptions=True)
                    return records
                await talking
                _say(box, "the conversation has ended; q leaves the screen")
                await screen
            finally:
                talking.cancel()
                await asyncio.gather(talking, return_exceptions=True)
                await _end(screen)
    finally:
        await box.stop()
    return records


def log_path() -> Path:
    """Where warnings go while the screen has the terminal: beside the store."""
    return default_path().with_name("appliance.log")


class KeysOverFiles:
    """`Controls` for a conversation over files: what is said goes on whatever is pressed, as with a real person."""

    def __init__(self) -> None:
        self.conversation: Conversation | None = None
        self._cutting: set[asyncio.Task[None]] = set()

    def opened(self, conversation: Conversation) -> None:
        self.conversation = conversation

    def talk(self, session: str) -> None:
        """The turn is over, whatever the silence says."""
        if self.conversation is not None:
            self.conversation.finish_turn()

    def mute(self, session: str) -> None:
        if self.conversation is not None:
            self.conversation.muted = not self.conversation.muted

    def interrupt(self, session: str) -> None:
        if self.conversation is not None:
            cutting = asyncio.create_task(self.conversation.interrupt())
            self._cutting.add(cutting)
            cutting.add_done_callback(self._cutting.discard)


async def _start_and_hold(box: Appliance, talk: Talk, records: list[TurnRecord], keys: KeysOverFiles) -> None:
    await box.start(lambda stage: _say(box, stage))
    _say(box, "ready")
    await hold_in(box, talk, records.append, opened=keys.opened)


def _say(box: Appliance, text: str) -> None:
    box.bus.publish(Notice(at=box.clock.now(), level="info", message=text))


async def _end(screen: "asyncio.Task[int]") -> None:
    screen.cancel()
    await asyncio.gather(screen, return_exceptions=True)
