"""Where the KV of idle sessions waits: in RAM up to a limit, then in files, then nowhere (it is recomputed).

Owns the limits, the file format and its checks. It does not know what a state means; what it hands back is what it
was given, or nothing. States are as private as the words they came from: files are readable by their owner only and
go when the session or the engine closes, leftovers at the next start.
"""

import hashlib
import json
import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_MAGIC = b"appliance-kv-1\n"
_SUFFIX = ".kv"


@dataclass(frozen=True, slots=True)
class Parked:
    """Private tokens of a session and the state that llama.cpp saved for them."""

    tokens: list[int]
    state: bytes

    @property
    def size(self) -> int:
        return len(self.state) + 4 * len(self.tokens)


class Shelf:
    """Parked states by session. `key` names model, K/V types, attention and system prompt: no other fits.

    `say` is told, in one sentence without any words spoken, when a state was lost and will be recomputed.
    """

    def __init__(self, key: str, ram_bytes: int, disk_bytes: int, directory: str, say: Callable[[str], None]) -> None:
        self._key, self._say = key, say
        self._ram_bytes, self._disk_bytes = ram_bytes, disk_bytes
        self._ram: OrderedDict[str, Parked] = OrderedDict()
        self._files: OrderedDict[str, tuple[Path, int, int]] = OrderedDict()  # path, bytes, tokens
        self._directory = Path(directory).expanduser() if directory else None
        if self._directory is not None:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            for leftover in self._directory.glob(f"*{_SUFFIX}"):
                leftover.unlink(missing_ok=True)

    @property
    def ram_used(self) -> int:
        return sum(parked.size for parked in self._ram.values())

    @property
    def disk_used(self) -> int:
        return sum(size for _, size, _ in self._files.values())

    @property
    def cells(self) -> int:
        """How many cells the parked sessions would take."""
        return sum(len(p.tokens) for p in self._ram.values()) + sum(count for _, _, count in self._files.values())

    def put(self, name: str, parked: Parked) -> None:
        """Keep `parked`. What is over the RAM limit moves to disk, the longest parked first."""
        self.drop(name)
        self._ram[name] = parked
        while self._ram and self.ram_used > self._ram_bytes:
            oldest, state = self._ram.popitem(last=False)
            self._write(oldest, state)

    def take(self, name: str) -> Parked | None:
        """What was parked under `name`, removed from the shelf; None when there is nothing or it was damaged."""
        parked = self._ram.pop(name, None)
        if parked is not None:
            return parked
        entry = self._files.pop(name, None)
        if entry is None:
            return None
        path = entry[0]
        try:
            data = path.read_bytes()
            path.unlink()
        except OSError as error:
            self._say(f"a parked session's file is gone ({error.strerror}); its context is computed again")
            return None
        parked = _unpack(data, self._key)
        if parked is None:
            self._say("a parked session's file is damaged; its context is computed again")
        return parked

    def drop(self, name: str) -> None:
        self._ram.pop(name, None)
        entry = self._files.pop(name, None)
        if entry is not None:
            entry[0].unlink(missing_ok=True)

    def close(self) -> None:
        for name in [*self._ram, *self._files]:
            self.drop(name)

    def _write(self, name: str, parked: Parked) -> None:
        if self._directory is None:
            return
        data = _pack(parked, self._key)
        if len(data) > self._disk_bytes:
            return
        while self._files and self.disk_used + len(data) > self._disk_bytes:
            self.drop(next(iter(self._files)))
        path = self._directory / (hashlib.sha256(name.encode()).hexdigest()[:24] + _SUFFIX)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
        except OSError as error:
            path.unlink(missing_ok=True)
            self._say(f"a session could not be parked on disk ({error.strerror}); its context will be computed again")
            return
        self._files[name] = (path, len(data), len(parked.tokens))


def _pack(parked: Parked, key: str) -> bytes:
    body = np.asarray(parked.tokens, np.int32).tobytes() + parked.state
    header = {"key": key, "tokens": len(parked.tokens), "sha256": hashlib.sha256(body).hexdigest()}
    return _MAGIC + json.dumps(header).encode() + b"\n" + body


def _unpack(data: bytes, key: str) -> Parked | None:
    """None unless magic, key and hash agree."""
    if not data.startswith(_MAGIC):
        return None
    line, _, body = data[len(_MAGIC) :].partition(b"\n")
    try:
        header = json.loads(line)
        count, digest, owner = int(header["tokens"]), str(header["sha256"]), header["key"]
    except (ValueError, KeyError, TypeError):
        return None
    if owner != key or hashlib.sha256(body).hexdigest() != digest or not 0 <= 4 * count <= len(body):
        return None
    tokens: list[int] = np.frombuffer(body[: 4 * count], np.int32).tolist()
    return Parked(tokens, body[4 * count :])
