"""One file coming together under a temporary name, from one source, part by part, hashed on the way.

Owns the temporary file and the note beside it that says how far it got, so that the next try goes on from there: a
URL at the byte where it stopped, a joined source at the last whole part. It does not know which hash is right.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from appliance.models.crates import Crates
from appliance.models.digest import file_chunks, hash_file, write_atomically
from appliance.models.http import Download, hub_url
from appliance.models.manifest import Part, Source
from appliance.models.progress import SourceError

Tick = Callable[[int], None]
"""Called with how many bytes of the file are here, on disk or on their way inside a package."""


@dataclass(frozen=True, slots=True)
class Assembled:
    sha256: str
    bytes: int
    resumed: bool


class Assembly:
    """A file on its way to `target`. `local` is the folder that relative `file:` sources start at."""

    def __init__(self, target: Path, crates: Crates, local: Path) -> None:
        self.temporary = target.with_name(f".{target.name}.part")
        self._note = target.with_name(f".{target.name}.part.json")
        self._crates = crates
        self._local = local
        self._validator = ""
        self._remembered: dict[str, Any] = {}

    def discard(self) -> None:
        """Forget what has arrived."""
        self._validator, self._remembered = "", {}
        self.temporary.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)

    def finish(self, target: Path) -> None:
        """Give the file its name. The caller has judged its hash."""
        self.temporary.replace(target)
        self._note.unlink(missing_ok=True)

    def begun_from(self) -> list[str]:
        """The source that what is here came from, as texts; empty when nothing is here."""
        return list(self._load().get("source", []))

    def run(self, source: Source, limit: int, tick: Tick) -> Assembled:
        """Bring the file together from `source`, going on where an earlier try stopped. More than `limit` bytes (0 =
        unknown) is an error of the source. Raises SourceError, OSError (disk)."""
        index, start, have = self._resume_point(source)
        if limit and have == limit:
            # All of it came, but the name was never given.
            return Assembled(hash_file(self.temporary), have, resumed=True)
        pieces = self._pieces(source, index, start, have, tick)
        # What another source left here is not touched before this one has delivered something.
        first = next(pieces, None)
        digest = hashlib.sha256()
        with self.temporary.open("r+b" if have else "wb") as stream:
            stream.truncate(have)
            size = _absorb(self.temporary, digest, have)
            stream.seek(size)
            for number, start, at, chunk in chain((first,) if first else (), pieces):
                if at < size:
                    # The server began anew: so does this part.
                    stream.seek(at)
                    stream.truncate()
                    digest = hashlib.sha256()
                    size = _absorb(self.temporary, digest, at)
                self._remember(source, number, start)
                stream.write(chunk)
                digest.update(chunk)
                size += len(chunk)
                if limit and size > limit:
                    raise SourceError(f"it sends more than the {limit} bytes the file has")
                tick(size)
            stream.flush()
            os.fsync(stream.fileno())
        return Assembled(digest.hexdigest(), size, have > 0)

    def _pieces(
        self, source: Source, index: int, start: int, have: int, tick: Tick
    ) -> Iterator[tuple[int, int, int, bytes]]:
        """Every chunk that is still to come: the number of its part, where that part starts in the file, where the
        chunk belongs in the file, the bytes."""
        at = have
        for number in range(index, len(source)):
            part = source[number]
            url = part_url(part, self._local)
            if url is None:
                for chunk in self._crates.chunks(part, partial(_on_the_way, tick, start)):
                    yield number, start, at, chunk
                    at += len(chunk)
            else:
                download = Download(url, validator=self._validator)
                begun = False
                for chunk in download.chunks(at - start):
                    if not begun:
                        begun, at, self._validator = True, start + download.begun_at, download.validator
                    yield number, start, at, chunk
                    at += len(chunk)
            start, self._validator = at, ""

    def _resume_point(self, source: Source) -> tuple[int, int, int]:
        """Which part to go on with, where it starts in the file, and how many bytes of the file to keep."""
        note = self._load()
        self._validator, self._remembered = "", {}
        if note.get("source") != [part.text for part in source]:
            return 0, 0, 0
        index, start = int(note["part"]), int(note["start"])
        have = self.temporary.stat().st_size
        self._validator = str(note["validator"])
        resumable = part_url(source[index], self._local) is not None
        return index, start, max(start, have) if resumable else start

    def _load(self) -> dict[str, Any]:
        try:
            note = json.loads(self._note.read_text(encoding="utf-8"))
            if self.temporary.stat().st_size >= int(note["start"]) and note["source"]:
                return dict(note)
        except (OSError, ValueError, KeyError, TypeError):
            # Without a readable note nothing is known about the bytes that are here.
            pass
        return {}

    def _remember(self, source: Source, part: int, start: int) -> None:
        note = {"source": [p.text for p in source], "part": part, "start": start, "validator": self._validator}
        if note != self._remembered:
            write_atomically(self._note, json.dumps(note).encode())
            self._remembered = note


def part_url(part: Part, local: Path) -> str | None:
    """The address a part can be read from directly; None for members of packages. Raises SourceError for a `file:`
    that is not there."""
    if part.scheme == "url":
        return part.place
    if part.scheme == "hf":
        return hub_url(part.place, part.member)
    if part.scheme == "file":
        path = local / Path(part.place).expanduser()
        if not path.is_file():
            raise SourceError(f"there is no file {path}")
        return path.absolute().as_uri()
    return None


def _on_the_way(tick: Tick, start: int, arrived: int) -> None:
    tick(start + arrived)


def _absorb(path: Path, digest: "hashlib._Hash", count: int) -> int:
    """Feed the first `count` bytes of a file to a digest; returns how many there were."""
    left = count
    if left:
        for chunk in file_chunks(path):
            digest.update(chunk[:left])
            left -= len(chunk[:left])
            if not left:
                break
    return count - left
