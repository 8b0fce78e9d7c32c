"""The user's own config: a tier's name and what differs from it, written once, never over somebody's edits unasked.

Owns the file's form, its fingerprint (by which an edited file is known) and its backups.
"""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit

from appliance.errors import ApplianceError, UsageError

_MARK = re.compile(r"^# fingerprint: ([0-9a-f]{16})$", re.MULTILINE)
_HEAD = """# Written by `appliance setup`. Only what differs from configs/{tier}.toml stands here.
# fingerprint: {fingerprint}

"""

Differences = Mapping[str, Any]  # keys, tables of keys, or lists of tables, as in the tier files


@dataclass(frozen=True, slots=True)
class Written:
    path: Path
    backup: Path | None  # where the file that was there before lies now
    changed: bool  # False when the same content was there already


def render(tier: str, differences: Differences) -> str:
    """The whole text of a user config."""
    body = f'tier = "{tier}"\n'
    plain = {key: value for key, value in differences.items() if not isinstance(value, Mapping | list)}
    body += "".join(f"{key} = {_value(value)}\n" for key, value in plain.items())
    for table, keys in differences.items():
        if isinstance(keys, Mapping) and keys:
            body += f"\n[{table}]\n" + "".join(f"{key} = {_value(value)}\n" for key, value in keys.items())
    for table, entries in differences.items():
        for entry in entries if isinstance(entries, list) else ():
            body += f"\n[[{table}]]\n" + "".join(f"{key} = {_value(value)}\n" for key, value in _dotted(entry))
    return _HEAD.format(tier=tier, fingerprint=_fingerprint(body)) + body


def edited(path: Path) -> bool:
    """Whether the file at `path` is not as set-up wrote it. An absent file is not edited."""
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, UnicodeDecodeError):
        return True
    mark = _MARK.search(text)
    return mark is None or _fingerprint(text[mark.end() :].lstrip("\n")) != mark.group(1)


def write_config(path: Path, tier: str, differences: Differences, *, replace_edited: bool = False) -> Written:
    """Write the config atomically; whatever was there is kept as a backup beside it.

    Raises UsageError when the file was edited and `replace_edited` is False, ApplianceError when it cannot be written.
    """
    text = render(tier, differences)
    if edited(path) and not replace_edited:
        raise UsageError(
            f"{path} was edited by hand and is left as it is", "say --replace to put it aside and write a new one"
        )
    return _put(path, text)


def write_echo(path: Path, station: str, echo: Mapping[str, Any], stations: list[dict[str, Any]]) -> Written:
    """Write keys of a station's `echo` into the config at `path`; all else in it stays as it is, remarks included.

    `stations` is what is written first where the file names none, since a list there replaces the tier's. A file
    that was as set-up wrote it counts as that afterwards. Raises UsageError where there is no such file or
    station, ApplianceError when it cannot be written.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UsageError(f"there is no config at {path} to write into", "appliance setup writes one") from error
    except OSError as error:
        raise ApplianceError(f"{path} cannot be read: {error.strerror}", "check its permissions") from error
    ours = not edited(path)
    document: Any = tomlkit.parse(text)
    if "stations" not in document:
        document.append("stations", _tables(stations))
    entry = next((each for each in document["stations"] if each.get("name", "default") == station), None)
    if entry is None:
        raise UsageError(f"{path} has no station {station!r}", "name it there as a [[stations]] entry")
    for key, value in echo.items():
        if "echo" in entry:
            entry["echo"][key] = value
        else:
            entry.append(tomlkit.key(["echo", key]), tomlkit.item(value))
    text = tomlkit.dumps(document)
    mark = _MARK.search(text) if ours else None
    if mark is not None:
        body = text[mark.end() :].lstrip("\n")
        text = text[: mark.start(1)] + _fingerprint(body) + text[mark.end(1) :]
    return _put(path, text)


def _tables(entries: list[dict[str, Any]]) -> Any:
    tables = tomlkit.aot()
    for entry in entries:
        table = tomlkit.table()
        for key, value in _dotted(entry):
            table.append(tomlkit.key(key.split(".")), tomlkit.item(value))
        tables.append(table)
    return tables


def _put(path: Path, text: str) -> Written:
    """Replace the file at `path` in one step, what was there kept beside it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        if path.is_file() and path.read_bytes() == text.encode():
            return Written(path, None, changed=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        backup = _back_up(path) if path.exists() else None
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise ApplianceError(
            f"{path} cannot be written: {error.strerror}", "check the folder's permissions and the free space"
        ) from error
    return Written(path, backup, changed=True)


def _back_up(path: Path) -> Path:
    """Put `path` aside under the first free name; a hard link, so that the file is never absent."""
    for number in range(1, 1000):
        backup = path.with_name(f"{path.name}.bak{number}")
        try:
            os.link(path, backup)
        except FileExistsError:
            continue
        except OSError:
            # File systems without hard links.
            if backup.exists():
                continue
            backup.write_bytes(path.read_bytes())
        return backup
    raise ApplianceError(f"{path.parent} is full of backups", f"remove some of {path.name}.bak*")


def _fingerprint(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def _dotted(table: Mapping[str, Any], where: str = "") -> Iterator[tuple[str, Any]]:
    """The keys of nested tables as TOML's dotted keys."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{where}{key}.")
        else:
            yield f"{where}{key}", value


def _value(value: object) -> str:
    """A scalar as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        # JSON's escapes are TOML's too, but for one: a device may have any name.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    raise TypeError(f"set-up writes no {type(value).__name__}")
