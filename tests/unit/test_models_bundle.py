"""Bundles: what goes onto a stick comes off it the same, and a stick that was tampered with installs nothing."""

import hashlib
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.errors import ApplianceError, DiskFullError, ModelFileError, UsageError
from appliance.models import bundle as bundle_module
from appliance.models.bundle import read_bundle, write_bundle
from appliance.models.manifest import Manifest, load_manifest
from appliance.models.progress import Progress
from appliance.models.shelf import Shelf

WEIGHTS = b"GGUF" + bytes(range(256)) * 2000
CLIPS = {"toy-1.0/wav/one.wav": b"RIFF one", "toy-1.0/wav/two.wav": b"RIFF two", "toy-1.0/setup.py": b"no"}


def archive(members: dict[str, bytes]) -> bytes:
    box = io.BytesIO()
    with tarfile.open(fileobj=box, mode="w") as tar:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return box.getvalue()


ARCHIVE = archive(CLIPS)


def write_manifest(folder: Path) -> Manifest:
    """Models `toy` (two files), `clips` (an archive to unpack) and `new` (locked at its first fetch)."""

    def entry(name: str, data: bytes) -> str:
        source = f'sources = ["file:{folder}/given/{Path(name).name}"]\n'
        given = folder / "given" / Path(name).name
        given.parent.mkdir(parents=True, exist_ok=True)
        given.write_bytes(data)
        facts = f'name = "{name}"\nsha256 = "{hashlib.sha256(data).hexdigest()}"\nbytes = {len(data)}\n'
        return f"[[models.files]]\n{facts}{source}"

    text = '[packs]\nall = ["toy", "clips", "new"]\n[licences]\nMIT = "https://spdx.org/licenses/MIT.html"\n'
    text += '[[models]]\nid = "toy"\nkind = "llm"\nlicence = "MIT"\ncredit = "Copyright (c) Nobody"\n'
    text += entry("toy.gguf", WEIGHTS) + entry("sub/toy.json", b"{}")
    text += '[[models]]\nid = "clips"\nkind = "recordings"\nlicence = "MIT"\n'
    text += entry("toy-1.0.tar.gz", ARCHIVE) + 'unpack = ["wav/"]\nstrip = 1\n'
    text += '[[models]]\nid = "new"\nkind = "asr"\nlicence = "MIT"\n'
    text += entry("model.bin", b"new weights").replace("sha256 = ", "locked_at_first_fetch = true\n# ")
    path = folder / "manifest.toml"
    path.write_text(text, encoding="utf-8")
    return load_manifest(path)


@pytest.fixture
def full(tmp_path: Path) -> Shelf:
    from appliance.models.fetch import Puller

    shelf = Shelf(tmp_path / "full", write_manifest(tmp_path))
    result = Puller(shelf).pull(["all"])
    assert not result.failed
    return shelf


@pytest.fixture
def stick(full: Shelf, tmp_path: Path) -> Path:
    out = tmp_path / "stick.tar"
    assert write_bundle(full, out, ["all"]) == out.stat().st_size
    return out


@pytest.fixture
def empty(full: Shelf, tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "empty", full.manifest)


def installed(shelf: Shelf) -> list[str]:
    """Everything below the shelf that has a name people see."""
    return sorted(
        str(path.relative_to(shelf.root))
        for path in shelf.root.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    )


Change = Callable[[str, bytes], tuple[str, bytes] | None]


def rewrite(stick: Path, change: Change, extra: tuple[str, bytes] | None = None) -> None:
    """Write the bundle anew with each member passed through `change` (None drops it)."""
    members: list[tuple[str, bytes]] = []
    with tarfile.open(stick) as tar:
        for entry in tar:
            stream = tar.extractfile(entry)
            changed = change(entry.name, stream.read() if stream else b"")
            members += [changed] if changed else []
    members += [extra] if extra else []
    with tarfile.open(stick, "w") as tar:
        for name, data in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))


def same(name: str, data: bytes) -> tuple[str, bytes]:
    return name, data


def test_a_round_trip_needs_no_source(stick: Path, empty: Shelf, tmp_path: Path) -> None:
    for given in (tmp_path / "given").iterdir():
        given.unlink()
    result = read_bundle(empty, stick)
    assert result.fetched == ["toy", "clips", "new"]
    assert empty.path("toy").read_bytes() == WEIGHTS
    assert empty.path("toy", "sub/toy.json").read_bytes() == b"{}"
    assert empty.path("clips", "wav/two.wav").read_bytes() == b"RIFF two"
    assert empty.path("new").read_bytes() == b"new weights"
    assert empty.missing(["all"]) == []
    assert read_bundle(empty, stick).already == ["toy", "clips", "new"]


def test_manifest_credits_and_licence_texts_are_in_it(stick: Path, full: Shelf) -> None:
    with tarfile.open(stick) as tar:
        names = tar.getnames()
        notice = tar.extractfile("NOTICE.txt")
        assert notice
        assert "Copyright (c) Nobody" in notice.read().decode()
        manifest = tar.extractfile("manifest.toml")
        assert manifest
        assert full.manifest.path
        assert manifest.read() == full.manifest.path.read_bytes()
    assert "licences/MIT.txt" in names
    assert names[0] == "bundle.json"


def test_progress_reaches_the_size_of_each_file(full: Shelf, empty: Shelf, tmp_path: Path) -> None:
    for work in (
        lambda watch: write_bundle(full, tmp_path / "s.tar", ["toy"], watch),
        lambda watch: read_bundle(empty, tmp_path / "s.tar", watch),
    ):
        seen: list[Progress] = []
        work(seen.append)
        assert max(step.done_bytes for step in seen if step.name == "toy.gguf") == len(WEIGHTS)


def test_a_missing_or_damaged_model_is_not_bundled(full: Shelf, tmp_path: Path) -> None:
    out = tmp_path / "out.tar"
    path = full.root / "toy/toy.gguf"
    # The same size, and a stamp that would vouch for it: only hashing on the way in can tell.
    path.write_bytes(WEIGHTS[:-1] + b"!")
    (full.root / "toy/.toy.gguf.stamp").unlink()
    with pytest.raises(ModelFileError, match="damaged"):
        write_bundle(full, out, ["toy"])
    path.unlink()
    with pytest.raises(ModelFileError, match="missing"):
        write_bundle(full, out, ["toy"])
    assert not list(tmp_path.glob("*out.tar*"))
    with pytest.raises(UsageError, match="folder"):
        write_bundle(full, tmp_path / "nowhere" / "out.tar", ["clips"])


def test_a_bundle_that_is_none_is_refused(empty: Shelf, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no bundle"):
        read_bundle(empty, tmp_path / "nothing.tar")
    text = tmp_path / "text.tar"
    text.write_text("this is no tar")
    with pytest.raises(UsageError, match="not a whole bundle"):
        read_bundle(empty, text)
    other = tmp_path / "other.tar"
    other.write_bytes(ARCHIVE)
    with pytest.raises(UsageError, match="not a bundle"):
        read_bundle(empty, other)


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9])
def test_a_stick_pulled_out_early_is_noticed(stick: Path, empty: Shelf, keep: float) -> None:
    data = stick.read_bytes()
    stick.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(UsageError, match="not a whole bundle"):
        read_bundle(empty, stick)
    for name in installed(empty):
        model_id, _, file = name.partition("/")
        assert empty.path(model_id, file).is_file()


def test_one_flipped_bit_installs_nothing_of_that_file(stick: Path, empty: Shelf) -> None:
    def flip(name: str, data: bytes) -> tuple[str, bytes]:
        return (name, data[:-1] + bytes([data[-1] ^ 1])) if name.endswith("toy.gguf") else (name, data)

    rewrite(stick, flip)
    with pytest.raises(ModelFileError, match=r"toy/toy\.gguf in .* is damaged"):
        read_bundle(empty, stick)
    assert "toy/toy.gguf" not in installed(empty)
    assert not list(empty.root.rglob("*.import"))


def test_a_bundle_cannot_bring_its_own_hashes(stick: Path, empty: Shelf) -> None:
    evil = b"GGUF evil weights"

    def swap(name: str, data: bytes) -> tuple[str, bytes]:
        if name == "bundle.json":
            index = json.loads(data)
            for entry in index["files"]:
                if entry["name"] == "toy.gguf":
                    entry.update(sha256=hashlib.sha256(evil).hexdigest(), bytes=len(evil))
            return name, json.dumps(index).encode()
        return (name, evil) if name.endswith("toy.gguf") else (name, data)

    rewrite(stick, swap)
    with pytest.raises(ModelFileError, match="damaged"):
        read_bundle(empty, stick)
    assert "toy/toy.gguf" not in installed(empty)


@pytest.mark.parametrize(
    "name", ["../evil", "/tmp/evil", "models/../../evil", "models/toy/../../evil", "licences/../../evil", "evil"]
)
def test_names_that_lead_outside_are_refused_before_anything_is_written(
    stick: Path, empty: Shelf, tmp_path: Path, name: str
) -> None:
    rewrite(stick, same, (name, b"evil"))
    with pytest.raises(UsageError, match="holds"):
        read_bundle(empty, stick)
    assert installed(empty) == []
    assert not list(tmp_path.rglob("*evil*"))


def test_a_listed_name_that_leads_outside_is_refused(stick: Path, empty: Shelf, tmp_path: Path) -> None:
    def list_it(name: str, data: bytes) -> tuple[str, bytes]:
        if name != "bundle.json":
            return name, data
        index = json.loads(data)
        index["files"].append({"model": "../..", "name": "evil", "sha256": hashlib.sha256(b"evil").hexdigest()})
        return name, json.dumps(index).encode()

    rewrite(stick, list_it, ("models/../../evil", b"evil"))
    notes: list[str] = []
    read_bundle(empty, stick, lambda step: notes.append(step.note) if step.note else None)
    assert notes == ["../.. is not in this version's manifest: passed over"]
    assert not list(tmp_path.rglob("*evil*"))


def test_a_link_in_a_bundle_is_refused(stick: Path, empty: Shelf) -> None:
    with tarfile.open(stick, "a") as tar:
        entry = tarfile.TarInfo("models/toy/toy.gguf")
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(entry)
    with pytest.raises(UsageError, match="holds"):
        read_bundle(empty, stick)


def test_a_bundle_of_a_newer_format_says_so(stick: Path, empty: Shelf) -> None:
    rewrite(stick, lambda name, data: (name, data.replace(b'"format": 1', b'"format": 2')))
    with pytest.raises(UsageError, match="format 2") as caught:
        read_bundle(empty, stick)
    assert "update" in caught.value.hint


def test_a_first_import_locks_a_hash_that_nobody_knew(stick: Path, empty: Shelf) -> None:
    read_bundle(empty, stick)
    assert "new/model.bin" in json.loads((empty.root / "locked.json").read_text(encoding="utf-8"))

    def other(name: str, data: bytes) -> tuple[str, bytes]:
        return (name, b"newer weight") if name.endswith("new/model.bin") else (name, data)

    rewrite(stick, other)
    (empty.root / "new/model.bin").unlink()
    with pytest.raises(ModelFileError, match="damaged"):
        read_bundle(empty, stick)


def test_too_little_room_is_said_first(stick: Path, empty: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 1000

    monkeypatch.setattr(bundle_module.shutil, "disk_usage", lambda path: Usage)
    with pytest.raises(DiskFullError, match="needs"):
        read_bundle(empty, stick)
    assert installed(empty) == []


def test_a_stick_that_takes_no_file_that_large_is_named(full: Shelf, tmp_path: Path) -> None:
    assert full.manifest.path
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from appliance.errors import DiskFullError\n"
        "from appliance.models.bundle import write_bundle\n"
        "from appliance.models.manifest import load_manifest\n"
        "from appliance.models.shelf import Shelf\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "shelf = Shelf(Path(sys.argv[1]), load_manifest(Path(sys.argv[2])))\n"
        "try:\n    write_bundle(shelf, Path(sys.argv[3]), ['toy'])\n"
        "except DiskFullError as error:\n    print(error.hint)\n"
    )
    out = tmp_path / "out.tar"
    command = [sys.executable, "-c", code, str(full.root), str(full.manifest.path), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "FAT" in done.stdout
    assert not list(tmp_path.glob("*out.tar*"))


def test_a_bundle_cut_between_two_files_is_not_whole(stick: Path, empty: Shelf) -> None:
    rewrite(stick, lambda name, data: None if name.endswith("model.bin") else (name, data))
    with pytest.raises(UsageError, match=r"new/model\.bin is listed and not there"):
        read_bundle(empty, stick)
    assert installed(empty) == []


def test_a_file_where_the_folder_should_be_is_named(stick: Path, empty: Shelf) -> None:
    empty.root.write_text("not a folder")
    with pytest.raises(ApplianceError, match="is not a folder"):
        read_bundle(empty, stick)
