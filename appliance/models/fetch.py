"""Pulling models onto a shelf.

Owns the order of things: is there room, wait for another pull, try the sources in turn, judge the hash, name the
file, unpack it, clean up after whatever happened. How bytes arrive is the business of assembly, http and crates. This
is set-up work: nothing that runs a conversation imports it.
"""

import fcntl
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from appliance.errors import ApplianceError, Cancelled, DiskFullError
from appliance.models.assembly import Assembled, Assembly
from appliance.models.crates import Crates
from appliance.models.digest import Tick, sync_folder, write_stamp
from appliance.models.http import Download, hub
from appliance.models.manifest import Model, ModelFile, Part, Source
from appliance.models.progress import (
    Progress,
    SourceError,
    Watch,
    disk_trouble,
    existing,
    human_bytes,
    unwatched,
)
from appliance.models.shelf import FileState, Shelf, kind_of_content
from appliance.models.unpack import unpack

_SPARE_BYTES = 16 << 20


@dataclass(slots=True)
class PullResult:
    """Ids of models by what became of them, in the order they were asked for."""

    fetched: list[str] = field(default_factory=list)
    already: list[str] = field(default_factory=list)
    failed: dict[str, ApplianceError] = field(default_factory=dict)


class Puller:
    """Fetches models onto `shelf`; `watch` sees every step."""

    def __init__(self, shelf: Shelf, watch: Watch = unwatched) -> None:
        self._shelf = shelf
        self._watch = watch
        # Hosts and registries that did not answer during this pull are not asked again.
        self._dead: dict[str, str] = {}

    def pull(self, names: Iterable[str]) -> PullResult:
        """Fetch models by id or pack. One that no source delivers is reported in the result and does not keep the
        others. Raises UsageError (unknown name), DiskFullError, ApplianceError (folder not writable); what is
        whole stays, what is half is removed or left to be resumed."""
        models = self._shelf.manifest.expand(names)
        self._check_room(models)
        result = PullResult()
        for model in models:
            try:
                done = result.fetched if self._pull_model(model) else result.already
                done.append(model.id)
            except (DiskFullError, Cancelled):
                raise
            except ApplianceError as error:
                if not (self._shelf.root / model.id).is_dir():
                    raise
                result.failed[model.id] = error
        return result

    def _check_room(self, models: Iterable[Model]) -> None:
        usable = (FileState.READY, FileState.UNCHECKED)
        todo = [f for m in models for f in m.files if self._shelf.glance(m, f).state not in usable]
        if not todo:
            return
        # A package lies beside the file while the file is taken out of it.
        crate = max((f.size // max(map(len, f.sources), default=1) for f in todo), default=0)
        need = sum(f.size for f in todo) + crate + _SPARE_BYTES
        free = shutil.disk_usage(existing(self._shelf.root)).free
        if need > free:
            raise DiskFullError(
                f"{self._shelf.root} has {human_bytes(free)} free, and this pull needs {human_bytes(need)}",
                "make room, or choose another folder with --root",
            )

    def _pull_model(self, model: Model) -> bool:
        """Bring one model here; False when it was here already."""
        folder = self._shelf.root / model.id
        if not self._todo(model):
            return False
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with alone(folder, model, self._watch):
                # Another pull may have finished it while this one waited.
                todo = self._todo(model)
                if todo:
                    self._fetch_all(model, todo, folder)
                return bool(todo)
        except OSError as error:
            trouble = disk_trouble(error, model.id, self._shelf.root)
            if trouble is None:
                raise
            raise trouble from error

    def _todo(self, model: Model) -> list[ModelFile]:
        return [file for file in model.files if not self._shelf.ready(model, file, self._hashing(model, file))]

    def _hashing(self, model: Model, file: ModelFile) -> Tick:
        done = 0

        def tick(count: int) -> None:
            nonlocal done
            done += count
            self._watch(Progress(model.id, file.name, done, file.size))

        return tick

    def _fetch_all(self, model: Model, todo: list[ModelFile], folder: Path) -> None:
        scratch = folder / ".scratch"
        # Left by a pull that was killed; we hold its lock, so nobody is using it.
        shutil.rmtree(scratch, ignore_errors=True)
        crates = Crates(scratch)
        try:
            for number, file in enumerate(todo):
                self._fetch(model, file, crates)
                later = {p.archive for f in todo[number + 1 :] for source in f.sources for p in source}
                for part in (p for source in file.sources for p in source):
                    if part.archive not in later:
                        crates.drop(part.archive)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _fetch(self, model: Model, file: ModelFile, crates: Crates) -> None:
        target = self._shelf.where(model, file)
        if not (file.unpack and self._shelf.glance(model, file).state is FileState.READY):
            target.parent.mkdir(parents=True, exist_ok=True)
            self._try_sources(model, file, target, crates)
        if file.unpack:
            unpack(target, file, self._shelf.expected(model, file)[0])

    def _try_sources(self, model: Model, file: ModelFile, target: Path, crates: Crates) -> None:
        assembly = Assembly(target, crates, self._local_folder())
        begun = assembly.begun_from()
        # What an earlier pull began is finished from where it came.
        sources = sorted(file.sources, key=lambda source: [p.text for p in source] != begun)
        reasons = []
        for number, source in enumerate(sources):
            silent = next((name for name in map(_answerer, source) if name in self._dead), "")
            if silent:
                # Said once already: no line for every file of a hub that is out of reach.
                reasons.append(self._dead[silent])
                continue
            try:
                self._one_source(model, file, source, assembly)
                return
            except SourceError as error:
                reason = f"{source[0].text}{' …' if len(source) > 1 else ''}: {error.reason}"
                reasons.append(reason)
                if error.dead:
                    self._dead[error.dead] = error.reason
                follow = "; trying the next source" if number + 1 < len(sources) else ""
                self._watch(Progress(model.id, file.name, 0, file.size, f"{reason}{follow}"))
            except OSError:
                # Half a file on a full disk only stands in the way of making room.
                assembly.discard()
                raise
        raise ApplianceError(
            f"{model.id}/{file.name} could not be fetched: {'; '.join(reasons) or 'it has no source'}",
            "check the network and pull again, or import a bundle: appliance models import BUNDLE",
        )

    def _one_source(self, model: Model, file: ModelFile, source: Source, assembly: Assembly) -> None:
        shown = 0

        def tick(done: int) -> None:
            nonlocal shown
            # The bar never runs backwards when a package has arrived and its member is being taken out.
            shown = max(shown, min(done, file.size) if file.size else done)
            self._watch(Progress(model.id, file.name, shown, file.size))

        sha256, size = self._shelf.expected(model, file)
        made = assembly.run(source, size, tick)
        if sha256 and made.sha256 != sha256 and made.resumed:
            # Perhaps the first half came from another version: once more from the beginning.
            assembly.discard()
            made = assembly.run(source, size, tick)
        self._judge(model, file, source, assembly, made)

    def _judge(self, model: Model, file: ModelFile, source: Source, assembly: Assembly, made: Assembled) -> None:
        sha256, size = self._shelf.expected(model, file)
        if sha256 and made.sha256 != sha256:
            assembly.discard()
            short = f"only {made.bytes} of {size} bytes came" if made.bytes < size else "its SHA-256 is another"
            raise SourceError(f"this is not the file that was asked for, {short}")
        target = self._shelf.where(model, file)
        if not sha256:
            what = kind_of_content(assembly.temporary)
            if what in ("a web page", "an empty file", "a Git LFS pointer"):
                assembly.discard()
                raise SourceError(f"it sent {what}")
            self._shelf.lock_hash(model, file, made.sha256, made.bytes, source[0].text)
        assembly.finish(target)
        sync_folder(target.parent)
        write_stamp(target, made.sha256)

    def _local_folder(self) -> Path:
        path = self._shelf.manifest.path
        return path.parent if path else Path.cwd()


@contextmanager
def alone(folder: Path, model: Model, watch: Watch) -> Iterator[None]:
    """Hold a model's folder against other pulls and imports; waits for them, and says so."""
    with (folder / ".lock").open("ab") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            watch(Progress(model.id, "", 0, 0, f"another pull is fetching {model.id}; waiting for it"))
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _answerer(part: Part) -> str:
    """Who has to answer for a part: a host for addresses, the registry for packages."""
    if part.scheme == "url":
        return Download(part.place).host
    if part.scheme == "hf":
        return Download(hub()).host
    return "pypi" if part.scheme in ("pypi", "sdist") else part.scheme
