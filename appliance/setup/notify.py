"""Telling systemd that the appliance is ready and alive. Without systemd every call does nothing.

Owns the datagram of sd_notify(3) and the beat of the watchdog. Knows nothing of what ready means.
"""

import asyncio
import os
import socket


def notify(state: str) -> bool:
    """Send e.g. "READY=1", "STOPPING=1", "STATUS=text". Returns whether a service manager was told."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]  # the abstract namespace
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.connect(address)
            channel.sendall(state.encode())
    except OSError:
        return False  # a manager that is gone must not take the appliance with it
    return True


def watchdog_interval() -> float | None:
    """Seconds between two signs of life, half of what the unit allows; None where none are expected."""
    limit, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not limit.isdigit() or int(limit) == 0 or (pid and pid != str(os.getpid())):
        return None
    return int(limit) / 2e6


async def keep_alive() -> None:
    """Pet the watchdog from the event loop for ever, so that a stalled loop is what it notices.

    Returns at once where no watchdog is set.
    """
    interval = watchdog_interval()
    while interval is not None:
        notify("WATCHDOG=1")
        await asyncio.sleep(interval)
