"""What goes to stderr while the appliance runs: one canonical line a turn, and notices. Never a person's words.

It owns the set-up of the standard logging module and the form of the lines. systemd adds the time, a
terminal gets it from here.
"""

import logging
import os
import sys
from collections.abc import AsyncIterator

from appliance.events import (
    PARTS,
    DeviceChanged,
    Event,
    LadderMoved,
    Notice,
    SessionClosed,
    SessionOpened,
    TurnDropped,
    TurnFinished,
    TurnRecord,
)

_LOG = logging.getLogger("appliance")
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def setup_logging(level: str = "info") -> None:
    """Log to stderr from `level` (debug, info, warning, error) on. Libraries are heard from warning on."""
    handler = logging.StreamHandler(sys.stderr)
    stamp = "" if "JOURNAL_STREAM" in os.environ else "%(asctime)s "
    handler.setFormatter(logging.Formatter(f"{stamp}%(levelname)s %(name)s %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    _LOG.setLevel(getattr(logging, level.upper()))


def turn_line(record: TurnRecord) -> str:
    """The canonical line of a turn: `key=value` pairs, numbers and names only."""
    pairs: list[tuple[str, object]] = [("session", record.session), ("turn", record.turn)]
    if record.ms is not None:
        pairs.append(("voice_to_voice", f"{record.ms.voice_to_voice:.0f}"))
        pairs.extend((part, f"{getattr(record.ms, part):.0f}") for part in PARTS)
    pairs += [("end", record.end_reason or "-"), ("language", record.language), ("tokens", record.tokens)]
    optional = {
        "ttft": record.ttft_ms,
        "tokens_per_s": record.tokens_per_s,
        "barge_in": record.barge_in_ms,
        "starvation": record.starvation_ms or None,
        "queue_wait": record.queue_wait_ms or None,
    }
    pairs += [(name, f"{value:.0f}") for name, value in optional.items() if value is not None]
    pairs.append(("held", "yes" if record.speculation.held else "no"))
    if record.skill:
        pairs.append(("skill", record.skill))
    if record.interrupted:
        pairs.append(("interrupted", "yes"))
    return "turn " + " ".join(f"{name}={value}" for name, value in pairs)


def log_event(event: Event) -> None:
    """Write the line of one event; most kinds have none."""
    match event:
        case TurnFinished(record=record):
            _LOG.info("%s", turn_line(record))
        case Notice(level=level, message=message, hint=hint):
            _LOG.log(_LEVELS.get(level, logging.INFO), "%s%s", message, f" (hint: {hint})" if hint else "")
        case TurnDropped(session=session, turn=turn, reason=reason):
            _LOG.info("dropped session=%s turn=%d reason=%s", session, turn, reason)
        case SessionOpened(session=session, station=station):
            _LOG.info("opened session=%s station=%s", session, station)
        case SessionClosed(session=session, reason=reason):
            _LOG.info("closed session=%s reason=%s", session, reason)
        case DeviceChanged():
            level = logging.WARNING if event.status in ("lost", "silent", "clipping") else logging.INFO
            _LOG.log(level, "device station=%s %s=%s %s %s", *_device(event))
        case LadderMoved(level=level, name=name, reason=reason):
            _LOG.warning("ladder level=%d name=%s reason=%s", level, name, reason)
        case _:
            pass


async def log_turns(subscription: AsyncIterator[Event]) -> None:
    """Log from a durable subscription until it closes."""
    async for event in subscription:
        log_event(event)


def _device(event: DeviceChanged) -> tuple[str, str, str, str, str]:
    return event.station, event.role, event.name, event.status, event.detail
