"""One file for a USB stick: models with manifest and licences, written here and installed elsewhere without network.

Owns the bundle's layout, a plain tar: `bundle.json` (format, files and their hashes), `manifest.toml`, `NOTICE.txt`,
`licences/` and `models/<id>/<file>`. A bundle is a stranger until proven: the manifest of the version that imports
decides about every hash, and no name in it is used as a path before it was found in that manifest.
"""

import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import IO, Any

from appliance.errors import DiskFullError, ModelFileError, UsageError
from appliance.models.digest import CHUNK_BYTES, Tick, sync_folder, write_stamp
from appliance.models.fetch import PullResult, alone
from appliance.models.manifest import Manifest, Model, ModelFile
from appliance.models.progress import Progress, Watch, disk_trouble, existing, human_bytes, unwatched
from appliance.models.shelf import FileState, Shelf
from appliance.models.unpack import unpack

FORMAT = 1
_INDEX_LIMIT_BYTES = 8 << 20


def write_bundle(shelf: Shelf, out: Path, names: Iterable[str], watch: Watch = unwatched) -> int:
    """Write a bundle of models (ids and packs) to `out`; returns its bytes. Every file is hashed on its way in.
    Raises ModelFileError (a model is not whole), UsageError, DiskFullError; leaves no half bundle."""
    models = shelf.manifest.expand(names)
    for model in models:
        for file in model.files:
            report = shelf.glance(model, file)
            if report.state not in (FileState.READY, FileState.UNCHECKED):
                raise shelf.complaint(report)
    if not out.parent.is_dir():
        raise UsageError(f"the folder {out.parent} is not there", "mount the stick, or name another file")
    temporary = out.with_name(f".{out.name}.part")
    try:
        _write(shelf, temporary, models, watch)
        temporary.replace(out)
        sync_folder(out.parent)
    except OSError as error:
        trouble = disk_trouble(error, "the bundle", out.parent)
        if trouble is None:
            raise
        raise trouble from error
    finally:
        temporary.unlink(missing_ok=True)
    return out.stat().st_size


def _write(shelf: Shelf, temporary: Path, models: list[Model], watch: Watch) -> None:
    files = [
        {"model": m.id, "name": f.name, "sha256": shelf.expected(m, f)[0], "bytes": shelf.where(m, f).stat().st_size}
        for m in models
        for f in m.files
    ]
    with temporary.open("wb") as stream:
        with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
            _add_bytes(tar, "bundle.json", json.dumps({"format": FORMAT, "files": files}, indent=1).encode())
            if shelf.manifest.path is not None:
                _add_bytes(tar, "manifest.toml", shelf.manifest.path.read_bytes())
            _add_bytes(tar, "NOTICE.txt", notice(shelf.manifest, models).encode())
            for name, text in licence_texts(models).items():
                _add_bytes(tar, f"licences/{name}.txt", text)
            for model in models:
                for file in model.files:
                    _add_model_file(tar, shelf, model, file, watch)
        stream.flush()
        os.fsync(stream.fileno())


def _add_bytes(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))


def _add_model_file(tar: tarfile.TarFile, shelf: Shelf, model: Model, file: ModelFile, watch: Watch) -> None:
    path = shelf.where(model, file)
    entry = tarfile.TarInfo(f"models/{model.id}/{file.name}")
    entry.size = path.stat().st_size
    with path.open("rb") as raw:
        reader = _HashingReader(raw, lambda done: watch(Progress(model.id, file.name, done, entry.size)))
        tar.addfile(entry, reader)
    if reader.digest.hexdigest() != shelf.expected(model, file)[0]:
        raise shelf.complaint(shelf.examine(model, file))


class _HashingReader(io.RawIOBase):
    """A file that is hashed while tarfile copies it."""

    def __init__(self, raw: IO[bytes], tick: Tick) -> None:
        self.digest = hashlib.sha256()
        self._raw, self._tick, self._done = raw, tick, 0

    def read(self, size: int = -1) -> bytes:
        chunk = self._raw.read(size)
        self.digest.update(chunk)
        self._done += len(chunk)
        self._tick(self._done)
        return chunk


def notice(manifest: Manifest, models: Iterable[Model]) -> str:
    """Who made what, under which licence, and where that can be read."""
    lines = ["The models in this bundle are other people's work:", ""]
    for model in models:
        about = [
            model.credit,
            f"{model.licence}: {manifest.licences.get(model.licence, 'see the publisher')}",
            model.note,
        ]
        lines += [f"{model.id}: {model.title}", *(f"    {line}" for line in about if line), ""]
    return "\n".join(lines)


def licence_texts(models: Iterable[Model]) -> dict[str, bytes]:
    """The texts of the models' licences that come with this package."""
    folder = resources.files("appliance.models") / "licences"
    wanted = {model.licence for model in models}
    return {
        name: (folder / f"{name}.txt").read_bytes() for name in sorted(wanted) if (folder / f"{name}.txt").is_file()
    }


@dataclass(frozen=True, slots=True)
class _Parcel:
    """A member of a bundle that this version's manifest knows."""

    model: Model
    file: ModelFile
    member: tarfile.TarInfo
    sha256: str


def read_bundle(shelf: Shelf, bundle: Path, watch: Watch = unwatched) -> PullResult:
    """Install the models of a bundle. Models this version does not know are passed over with a note.

    Raises UsageError (no such file, not a bundle, cut short, a name that leads outside), ModelFileError (a hash that
    is not the manifest's), DiskFullError. Nothing unverified ever gets a model's name.
    """
    if not bundle.is_file():
        raise UsageError(f"there is no bundle {bundle}", "appliance models bundle OUT.tar writes one")
    try:
        with tarfile.open(bundle, "r:") as tar:
            parcels = _parcels(shelf, tar, bundle, watch)
            _check_room(shelf, parcels)
            return _install(shelf, tar, parcels, bundle, watch)
    except (tarfile.TarError, EOFError) as error:
        raise UsageError(f"{bundle} is not a whole bundle: {error}", "copy it again") from error
    except OSError as error:
        trouble = disk_trouble(error, bundle.name, shelf.root)
        if trouble is None:
            raise
        raise trouble from error


def _parcels(shelf: Shelf, tar: tarfile.TarFile, bundle: Path, watch: Watch) -> list[_Parcel]:
    """Match members with the manifest before a byte is written; a name that fits nothing is refused."""
    first = tar.next()
    if first is None or first.name != "bundle.json" or not first.isreg() or first.size > _INDEX_LIMIT_BYTES:
        raise UsageError(f"{bundle} is not a bundle", "appliance models bundle OUT.tar writes one")
    index = _index(tar, first, bundle)
    parcels, strangers, present = [], set(), set()
    for member in tar:
        if member.name == "bundle.json" or not member.name.startswith("models/"):
            _refuse_odd(member, bundle)
            continue
        said = index.get(member.name)
        if said is None or not member.isreg():
            raise UsageError(f"{bundle} holds '{member.name}', which its own list does not", "do not use it")
        present.add(member.name)
        model = shelf.manifest.models.get(said["model"])
        file = model.file(said["name"]) if model else None
        if model is None or file is None:
            strangers.add(said["model"])
            continue
        # What is locked at its first fetch is locked by its first import just as well.
        sha256 = shelf.expected(model, file)[0] or said["sha256"]
        parcels.append(_Parcel(model, file, member, sha256))
    absent = sorted(set(index) - present)
    if absent:
        raise UsageError(f"{bundle} is not a whole bundle: {absent[0]} is listed and not there", "copy it again")
    for model_id in sorted(strangers):
        watch(Progress(model_id, "", 0, 0, f"{model_id} is not in this version's manifest: passed over"))
    return parcels


def _index(tar: tarfile.TarFile, member: tarfile.TarInfo, bundle: Path) -> dict[str, dict[str, Any]]:
    stream = tar.extractfile(member)
    try:
        index = json.loads(stream.read() if stream else b"")
        if index["format"] != FORMAT:
            raise UsageError(
                f"{bundle} was written in format {index['format']}; this version reads {FORMAT}", "update the appliance"
            )
        return {f"models/{entry['model']}/{entry['name']}": dict(entry) for entry in index["files"]}
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{bundle} has a list that cannot be read", "copy it again") from error


def _refuse_odd(member: tarfile.TarInfo, bundle: Path) -> None:
    known = member.name in ("bundle.json", "manifest.toml", "NOTICE.txt") or member.name.startswith("licences/")
    if not known or not member.isreg() or ".." in member.name.split("/"):
        raise UsageError(f"{bundle} holds '{member.name}', which leads outside a bundle", "do not use it")


def _check_room(shelf: Shelf, parcels: Iterable[_Parcel]) -> None:
    need = sum(p.member.size for p in parcels if shelf.glance(p.model, p.file).state is not FileState.READY)
    free = shutil.disk_usage(existing(shelf.root)).free
    if need > free:
        raise DiskFullError(
            f"{shelf.root} has {human_bytes(free)} free, and this bundle needs {human_bytes(need)}",
            "make room, or choose another folder with --root",
        )


def _install(shelf: Shelf, tar: tarfile.TarFile, parcels: Iterable[_Parcel], bundle: Path, watch: Watch) -> PullResult:
    result = PullResult()
    for parcel in parcels:
        folder = shelf.root / parcel.model.id
        folder.mkdir(parents=True, exist_ok=True)
        with alone(folder, parcel.model, watch):
            fresh = not shelf.ready(parcel.model, parcel.file)
            if fresh:
                _place(shelf, tar, parcel, bundle, watch)
        if fresh and parcel.model.id not in result.fetched:
            result.fetched.append(parcel.model.id)
    seen = dict.fromkeys(parcel.model.id for parcel in parcels)
    result.already.extend(model_id for model_id in seen if model_id not in result.fetched)
    return result


def _place(shelf: Shelf, tar: tarfile.TarFile, parcel: _Parcel, bundle: Path, watch: Watch) -> None:
    target = shelf.where(parcel.model, parcel.file)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.import")
    name = f"{parcel.model.id}/{parcel.file.name}"
    digest, done = hashlib.sha256(), 0
    try:
        with temporary.open("wb") as out:
            stream = tar.extractfile(parcel.member)
            while stream and (chunk := stream.read(CHUNK_BYTES)):
                out.write(chunk)
                digest.update(chunk)
                done += len(chunk)
                watch(Progress(parcel.model.id, parcel.file.name, done, parcel.member.size))
            out.flush()
            os.fsync(out.fileno())
        if digest.hexdigest() != parcel.sha256:
            raise ModelFileError(f"{name} in {bundle} is damaged: its SHA-256 is not the manifest's", "copy it again")
        if not parcel.file.sha256:
            shelf.lock_hash(parcel.model, parcel.file, parcel.sha256, done, f"file:{bundle}")
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(target.parent)
    write_stamp(target, parcel.sha256)
    if parcel.file.unpack:
        unpack(target, parcel.file, parcel.sha256)
