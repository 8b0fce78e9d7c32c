"""Events and records as JSON and back, for the snapshot socket, recordings and the store's timelines.

It owns the one rule for it: the class name under `type`, the fields under their own names. Fields it does
not know are ignored and kinds it does not know are skipped, so that a screen and a service of neighbouring
versions understand each other.
"""

import json
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from appliance import events
from appliance.events import Event, LatencyParts, Speculation, State, TurnRecord

KINDS: dict[str, type[Event]] = {
    cls.__name__: cls for cls in vars(events).values() if isinstance(cls, type) and issubclass(cls, Event)
}
WORDS = frozenset({"text", "heard", "reply", "spoken"})  # the only fields that hold what a person said
_NESTED: dict[str, type[Any]] = {"record": TurnRecord, "ms": LatencyParts, "speculation": Speculation, "state": State}


def plain(value: Any) -> Any:
    """Dataclasses to dicts, tuples to lists, enums to their values; numbers and strings as they are."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def to_json(event: Event) -> str:
    """One line, without its newline."""
    return json.dumps({"type": type(event).__name__, **plain(event)}, ensure_ascii=False, separators=(",", ":"))


def from_json(line: str | bytes) -> Event | None:
    """The event in `line`; None where it is of an unknown kind. Raises ValueError where it is not an event."""
    try:
        data = json.loads(line)
        cls = KINDS.get(data["type"])
        return None if cls is None else build(cls, data)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not an event: {error}") from error


def build(cls: type[Any], data: dict[str, Any]) -> Any:
    """A frozen dataclass of this vocabulary from its dict. Raises TypeError where a required field is missing."""
    values = {}
    for field in fields(cls):
        if field.name in data:
            values[field.name] = _read(field.name, data[field.name])
    return cls(**values)


def _read(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_read("", item) for item in value)
    nested = _NESTED.get(name)
    if nested is None or value is None:
        return value
    return build(nested, value) if isinstance(value, dict) else nested(value)


def turn_dict(record: TurnRecord) -> dict[str, Any]:
    """A turn as `--json` prints it: turn, heard, reply, spoken, interrupted, ms{…} first, then everything else."""
    first = ("turn", "heard", "reply", "spoken", "interrupted")
    everything = plain(record)
    out: dict[str, Any] = {name: everything[name] for name in first}
    out["ms"] = None if record.ms is None else record.ms.as_dict()
    return {**out, **{name: value for name, value in everything.items() if name not in out}}
