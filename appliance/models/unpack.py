"""Laying chosen members of a verified archive beside it.

Owns the choice of members, the refusal of names that lead outside, and the listing of what was laid down. The
archive's own hash has been checked before; links, devices and anything but plain files are passed over.
"""

import hashlib
import json
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from appliance.errors import ApplianceError
from appliance.models.digest import CHUNK_BYTES, write_atomically
from appliance.models.manifest import ModelFile, safe_relative
from appliance.models.shelf import unpacked_listing


def unpack(archive: Path, file: ModelFile, sha256: str) -> int:
    """Unpack what `file.unpack` names into the archive's folder; returns how many files. Raises ApplianceError for a
    member that leads outside and for an archive without the named members, OSError for the disk."""
    members: dict[str, tuple[int, str]] = {}
    for name, stream in _wanted(archive, file):
        if not safe_relative(name):
            raise ApplianceError(f"{archive.name} holds the member '{name}', which leads outside its folder")
        members[name] = _lay(archive.parent / name, stream)
    for wanted in file.unpack:
        if not any(_matches(name, wanted) for name in members):
            raise ApplianceError(f"{archive.name} holds no {wanted}")
    listing = {"archive": sha256, "members": members}
    write_atomically(unpacked_listing(archive), json.dumps(listing).encode())
    return len(members)


def _matches(name: str, wanted: str) -> bool:
    return name.startswith(wanted) if wanted.endswith("/") else name == wanted


def _wanted(archive: Path, file: ModelFile) -> Iterator[tuple[str, IO[bytes]]]:
    for raw, stream in _members(archive):
        name = "/".join(raw.split("/")[file.strip :])
        if any(_matches(name, wanted) for wanted in file.unpack):
            yield name, stream


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as box:
            for info in box.infolist():
                if not info.is_dir():
                    with box.open(info) as stream:
                        yield info.filename, stream
        return
    with tarfile.open(archive) as tar:
        for entry in tar:
            found = tar.extractfile(entry) if entry.isreg() else None
            if found is not None:
                yield entry.name, found


def _lay(path: Path, stream: IO[bytes]) -> tuple[int, str]:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part")
    digest, size = hashlib.sha256(), 0
    try:
        with temporary.open("wb") as out:
            while chunk := stream.read(CHUNK_BYTES):
                out.write(chunk)
                digest.update(chunk)
                size += len(chunk)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return size, digest.hexdigest()
