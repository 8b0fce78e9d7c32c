"""Hashes, stamps and writes that survive a power cut.

Owns how a file is hashed, how a finished hash is remembered beside the file (the stamp), and atomic replacement.
It knows nothing of manifests or of where files come from.

A stamp saves hashing hundreds of megabytes at every start. It holds for exactly one size and modification time;
anything else about the file and it is ignored. `appliance models verify` never trusts it.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

CHUNK_BYTES = 1 << 20

Tick = Callable[[int], None]
"""Called with the bytes dealt with since the last call. May raise to stop the work."""


def hash_file(path: Path, tick: Tick | None = None) -> str:
    """SHA-256 of a file in hexadecimal. Raises OSError."""
    digest = hashlib.sha256()
    for chunk in file_chunks(path):
        digest.update(chunk)
        if tick:
            tick(len(chunk))
    return digest.hexdigest()


def file_chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk


def stamp_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.stamp")


def stamped_hash(path: Path) -> str | None:
    """The remembered hash of `path`; None when there is no stamp or it was made for another size or time."""
    try:
        stamp = json.loads(stamp_path(path).read_text(encoding="utf-8"))
        facts = path.stat()
        if stamp["size"] == facts.st_size and stamp["mtime_ns"] == facts.st_mtime_ns:
            return str(stamp["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        # A stamp that cannot be read is a stamp that is not there.
        pass
    return None


def write_stamp(path: Path, sha256: str) -> None:
    facts = path.stat()
    stamp = {"size": facts.st_size, "mtime_ns": facts.st_mtime_ns, "sha256": sha256}
    # On a read-only shelf the hash is simply taken again next time.
    with contextlib.suppress(OSError):
        write_atomically(stamp_path(path), json.dumps(stamp).encode())


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` under a temporary name, sync it and rename it. Raises OSError and leaves no temporary file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with temporary.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
