"""How devices tell what became of them: one callback, from any thread to the event loop. Owns nothing."""

import asyncio
from collections.abc import Callable

from appliance.clock import Clock
from appliance.events import DeviceChanged

Report = Callable[[str, str, str, str], None]  # role, device, status, detail


def reporter(station: str, clock: Clock, publish: Callable[[DeviceChanged], None]) -> Report:
    """A `Report` that publishes `DeviceChanged` on the running event loop, whichever thread it is called from."""
    loop = asyncio.get_running_loop()

    def report(role: str, name: str, status: str, detail: str) -> None:
        event = DeviceChanged(at=clock.now(), station=station, role=role, name=name, status=status, detail=detail)
        if not loop.is_closed():
            loop.call_soon_threadsafe(publish, event)

    return report
