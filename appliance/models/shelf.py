"""The shelf: weights on this machine, handed out only after their hash has been checked.

Owns the layout `<root>/<model id>/<file>`, the answer to "is it here and is it what it should be", and the list of
hashes that were locked at a first fetch. It opens no connection and knows nothing of sources; engines get a path
from here and nothing else.
"""

import fcntl
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from appliance.errors import ApplianceError, ModelFileError, UsageError
from appliance.models.digest import Tick, hash_file, stamped_hash, write_atomically, write_stamp
from appliance.models.manifest import Manifest, Model, ModelFile, load_manifest, models_root, safe_relative

LOCKED_NAME = "locked.json"


class FileState(StrEnum):
    READY = "ready"
    ABSENT = "absent"
    TRUNCATED = "truncated"
    ALTERED = "altered"
    UNCHECKED = "unchecked"
    """The size is right, the hash has not been taken yet."""


@dataclass(frozen=True, slots=True)
class FileReport:
    model_id: str
    name: str
    state: FileState
    path: Path
    bytes: int
    expected_bytes: int


class Shelf:
    """Weights below `root`, described by `manifest`; both default to what this version uses."""

    def __init__(self, root: Path | None = None, manifest: Manifest | None = None) -> None:
        self.root = root if root is not None else models_root()
        self.manifest = manifest if manifest is not None else load_manifest()

    def path(self, model_id: str, filename: str | None = None) -> Path:
        """A file of a model, its hash checked. Without `filename` the model's first file, all of them checked, for an
        engine may read the others beside it; with it, that file or a member unpacked from one of its archives.

        Raises ModelFileError (absent, truncated, altered) and UsageError (no such model or file).
        """
        model = self.manifest.model(model_id)
        if filename is None:
            paths = [self._checked(model, file) for file in model.files]
            return paths[0]
        file = model.file(filename)
        return self._checked(model, file) if file else self._checked_member(model, filename)

    def folder(self, model_id: str) -> Path:
        """The folder of a model, every file in it checked. Raises as `path`."""
        self.path(model_id)
        return self.root / model_id

    def missing(self, ids: Iterable[str]) -> list[str]:
        """The models (of ids and packs) that are not wholly here. Quick: sizes and stamps, no hashing."""
        usable = (FileState.READY, FileState.UNCHECKED)
        return [
            model.id
            for model in self.manifest.expand(ids)
            if any(self.glance(model, file).state not in usable for file in model.files)
        ]

    def glance(self, model: Model, file: ModelFile) -> FileReport:
        """The state of a file by its size and stamp, without hashing it."""
        stamped = stamped_hash(self.where(model, file))
        # A stamp vouches for a good file and never against one.
        return self._report(model, file, stamped if stamped == self.expected(model, file)[0] else None)

    def examine(self, model: Model, file: ModelFile, tick: Tick | None = None) -> FileReport:
        """The state of a file by its hash, whatever a stamp says. Refreshes the stamp of a good file."""
        path = self.where(model, file)
        try:
            digest = hash_file(path, tick)
        except OSError:
            digest = None
        report = self._report(model, file, digest)
        if report.state is FileState.READY and digest is not None:
            write_stamp(path, digest)
        if report.state is FileState.READY and file.unpack and not self._unpacked_whole(model, file):
            return FileReport(model.id, file.name, FileState.ALTERED, path, report.bytes, report.expected_bytes)
        return report

    def ready(self, model: Model, file: ModelFile, tick: Tick | None = None) -> bool:
        """Whether the file is here and right; hashes it when no stamp says so."""
        report = self.glance(model, file)
        if report.state is FileState.UNCHECKED:
            report = self.examine(model, file, tick)
        return report.state is FileState.READY and (not file.unpack or self._unpacked_whole(model, file))

    def where(self, model: Model, file: ModelFile) -> Path:
        return self.root / model.id / file.name

    def expected(self, model: Model, file: ModelFile) -> tuple[str, int]:
        """SHA-256 and bytes that decide about a file; "" and 0 where they are not known yet."""
        if file.sha256:
            return file.sha256, file.bytes
        locked = self._locked().get(f"{model.id}/{file.name}", {})
        return str(locked.get("sha256", "")), int(locked.get("bytes", 0))

    def lock_hash(self, model: Model, file: ModelFile, sha256: str, size: int, source: str) -> None:
        """Write down the hash of a first fetch. Raises ApplianceError when another one is already locked."""
        with exclusive(self.root / ".locked.lock"):
            locked = self._locked()
            key = f"{model.id}/{file.name}"
            known = str(locked.get(key, {}).get("sha256", sha256))
            if known != sha256:
                raise ApplianceError(
                    f"{key} differs from the one whose hash was locked at the first fetch",
                    f"if the publisher replaced it, remove its entry from {self.root / LOCKED_NAME}",
                )
            locked[key] = {"sha256": sha256, "bytes": size, "source": source}
            write_atomically(self.root / LOCKED_NAME, (json.dumps(locked, indent=2, sort_keys=True) + "\n").encode())

    def unpacked(self, model: Model, file: ModelFile) -> dict[str, tuple[int, str]]:
        """What was unpacked from an archive: member path -> bytes and SHA-256. Empty when nothing was."""
        try:
            listing = json.loads(unpacked_listing(self.where(model, file)).read_text(encoding="utf-8"))
            if listing["archive"] == self.expected(model, file)[0]:
                return {name: (int(size), str(sha)) for name, (size, sha) in listing["members"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            # Like a stamp: a listing that cannot be read means unpacking again.
            pass
        return {}

    def _report(self, model: Model, file: ModelFile, digest: str | None) -> FileReport:
        path = self.where(model, file)
        sha256, size = self.expected(model, file)
        try:
            have = path.stat().st_size
        except OSError:
            return FileReport(model.id, file.name, FileState.ABSENT, path, 0, size or file.size)
        if digest is None:
            state = FileState.UNCHECKED if not size or have == size else self._wrong_size(have, size)
            # A file whose hash nobody knows was not fetched by us.
            state = state if sha256 else FileState.ALTERED
        elif digest == sha256:
            state = FileState.READY
        else:
            state = self._wrong_size(have, size)
        return FileReport(model.id, file.name, state, path, have, size or file.size)

    @staticmethod
    def _wrong_size(have: int, size: int) -> FileState:
        return FileState.TRUNCATED if have < size else FileState.ALTERED

    def _checked(self, model: Model, file: ModelFile) -> Path:
        report = self.glance(model, file)
        if report.state is FileState.UNCHECKED:
            report = self.examine(model, file)
        if report.state is not FileState.READY:
            raise self.complaint(report)
        return report.path

    def complaint(self, report: FileReport) -> ModelFileError:
        """The error a person gets for a file that is not ready."""
        name = f"the model file {report.model_id}/{report.name}"
        hint = f"appliance models pull {report.model_id}"
        if report.state is FileState.ABSENT:
            return ModelFileError(f"{name} is missing in {self.root}", hint)
        if report.state is FileState.TRUNCATED:
            size = f"{report.bytes} of {report.expected_bytes} bytes"
            return ModelFileError(f"{name} is cut short: {size} are there", hint)
        model = self.manifest.model(report.model_id)
        file = model.file(report.name)
        if file is not None and not self.expected(model, file)[0]:
            return ModelFileError(f"{name} was put there by hand: its hash is locked when it is pulled", hint)
        what = kind_of_content(report.path)
        said = f"is {what}, not what its name says" if what else "is damaged: its SHA-256 is not the manifest's"
        return ModelFileError(f"{name} {said}", hint)

    def _checked_member(self, model: Model, name: str) -> Path:
        for file in model.files:
            found = self.unpacked(model, file).get(name) if file.unpack else None
            if found is None:
                continue
            path = self.root / model.id / name
            if path.is_file() and path.stat().st_size == found[0] and hash_file(path) == found[1]:
                return path
            raise ModelFileError(
                f"{model.id}/{name} was changed after it was unpacked", f"appliance models pull {model.id}"
            )
        if any(file.unpack for file in model.files) and safe_relative(name):
            raise ModelFileError(f"{model.id}/{name} is missing in {self.root}", f"appliance models pull {model.id}")
        raise UsageError(f"the model '{model.id}' has no file '{name}'", "appliance models list --json")

    def _unpacked_whole(self, model: Model, file: ModelFile) -> bool:
        members = self.unpacked(model, file)
        folder = self.root / model.id
        return bool(members) and all(
            (folder / name).is_file() and (folder / name).stat().st_size == size for name, (size, _) in members.items()
        )

    def _locked(self) -> dict[str, dict[str, Any]]:
        try:
            locked = json.loads((self.root / LOCKED_NAME).read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, ValueError) as error:
            raise ModelFileError(
                f"the locked hashes in {self.root / LOCKED_NAME} cannot be read", "remove that file and pull again"
            ) from error
        return locked if isinstance(locked, dict) else {}


def unpacked_listing(archive: Path) -> Path:
    return archive.with_name(f".{archive.name}.unpacked")


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold an advisory lock on `path` between processes; waits. The file stays, only the lock goes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


_CONTENT = (
    (b"GGUF", "a GGUF model"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"version https://git-lfs", "a Git LFS pointer"),
    (b"RIFF", "a WAV recording"),
    (b"<!doctype html", "a web page"),
    (b"<html", "a web page"),
    (b"{", "a JSON text"),
)


def kind_of_content(path: Path) -> str:
    """What a file that fails its hash looks like, for the sentence about it; "" when its suffix fits or nothing
    is recognised."""
    try:
        with path.open("rb") as stream:
            head = stream.read(64)
    except OSError:
        return ""
    if not head:
        return "an empty file"
    for magic, name in _CONTENT:
        if head.lower().startswith(magic.lower()):
            fits = {"a GGUF model": ".gguf", "a JSON text": ".json", "a WAV recording": ".wav", "a zip archive": ".whl"}
            return "" if path.suffix == fits.get(name, ".gz") else name
    return "no GGUF model" if path.suffix == ".gguf" else ""
