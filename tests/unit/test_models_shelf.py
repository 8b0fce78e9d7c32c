"""The shelf hands out nothing that does not match its hash, and says in one sentence why not."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from appliance.errors import ApplianceError, ModelFileError, UsageError
from appliance.models import shelf as shelf_module
from appliance.models.digest import hash_file, stamp_path, stamped_hash, write_atomically, write_stamp
from appliance.models.manifest import Manifest, parse_manifest
from appliance.models.shelf import FileState, Shelf

WEIGHTS = b"GGUF" + bytes(range(256)) * 64
CONFIG = b'{"rate": 16000}'


def manifest_of(**files: bytes) -> Manifest:
    text = '[[models]]\nid = "toy"\nkind = "llm"\nlicence = "MIT"\n'
    for name, data in files.items():
        text += f'[[models.files]]\nname = "{name.replace("_", ".")}"\nbytes = {len(data)}\n'
        text += f'sha256 = "{hashlib.sha256(data).hexdigest()}"\nsources = []\n'
    return parse_manifest(text)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    folder = tmp_path / "toy"
    folder.mkdir()
    (folder / "toy.gguf").write_bytes(WEIGHTS)
    (folder / "toy.json").write_bytes(CONFIG)
    return Shelf(tmp_path, manifest_of(toy_gguf=WEIGHTS, toy_json=CONFIG))


def complaint(shelf: Shelf, name: str | None = None) -> str:
    with pytest.raises(ModelFileError) as caught:
        shelf.path("toy", name)
    assert caught.value.hint == "appliance models pull toy"
    assert caught.value.exit_code == 3
    return caught.value.message


def test_good_files_are_handed_out_and_stamped(shelf: Shelf) -> None:
    assert shelf.path("toy") == shelf.root / "toy" / "toy.gguf"
    assert shelf.path("toy", "toy.json").read_bytes() == CONFIG
    assert shelf.folder("toy") == shelf.root / "toy"
    assert stamped_hash(shelf.root / "toy/toy.gguf") == hashlib.sha256(WEIGHTS).hexdigest()
    assert shelf.missing(["toy"]) == []


def test_a_stamp_saves_the_second_hashing(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    def counting(path: Path, tick: object = None) -> str:
        hashed.append(path.name)
        return hash_file(path)

    monkeypatch.setattr(shelf_module, "hash_file", counting)
    shelf.path("toy")
    shelf.path("toy")
    assert hashed == ["toy.gguf", "toy.json"]


def test_one_flipped_bit_is_refused(shelf: Shelf) -> None:
    shelf.path("toy")
    path = shelf.root / "toy/toy.gguf"
    damaged = bytearray(WEIGHTS)
    damaged[5000] ^= 1
    path.write_bytes(damaged)
    assert "damaged" in complaint(shelf)
    assert "toy/toy.gguf" in complaint(shelf)


def test_a_flipped_bit_under_an_old_time_is_found_by_examining(shelf: Shelf) -> None:
    shelf.path("toy")
    path = shelf.root / "toy/toy.gguf"
    facts = path.stat()
    path.write_bytes(WEIGHTS[:-1] + b"!")
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    model = shelf.manifest.model("toy")
    assert shelf.examine(model, model.files[0]).state is FileState.ALTERED


def test_a_truncated_file_names_both_sizes(shelf: Shelf) -> None:
    (shelf.root / "toy/toy.gguf").write_bytes(WEIGHTS[:1000])
    assert f"1000 of {len(WEIGHTS)} bytes" in complaint(shelf)
    assert shelf.missing(["toy"]) == ["toy"]


def test_an_absent_file_names_the_folder(shelf: Shelf) -> None:
    (shelf.root / "toy/toy.json").unlink()
    assert str(shelf.root) in complaint(shelf)
    assert shelf.path("toy", "toy.gguf").is_file()
    assert shelf.missing(["toy"]) == ["toy"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"<!DOCTYPE html><p>Sign in".ljust(len(WEIGHTS)), "a web page"),
        (b"version https://git-lfs.github.com/spec/v1".ljust(len(WEIGHTS)), "a Git LFS pointer"),
        (b"PK\x03\x04".ljust(len(WEIGHTS)), "a zip archive"),
        (b"\x08\x07onnx".ljust(len(WEIGHTS)), "no GGUF model"),
    ],
)
def test_another_kind_under_the_right_name_is_called_what_it_is(shelf: Shelf, content: bytes, says: str) -> None:
    (shelf.root / "toy/toy.gguf").write_bytes(content)
    assert says in complaint(shelf)


def test_an_unknown_file_or_model_is_wrong_usage(shelf: Shelf) -> None:
    with pytest.raises(UsageError, match="no file 'other'"):
        shelf.path("toy", "other")
    with pytest.raises(UsageError) as caught:
        shelf.path("tyo")
    assert "toy" in caught.value.hint


@pytest.mark.parametrize("stamp", [b"", b"not json", b"[]", b'{"size": 1, "mtime_ns": 2, "sha256": "00"}'])
def test_a_stamp_that_does_not_fit_is_ignored(shelf: Shelf, stamp: bytes) -> None:
    path = shelf.root / "toy/toy.gguf"
    stamp_path(path).write_bytes(stamp)
    assert stamped_hash(path) is None
    assert shelf.path("toy").is_file()


def test_a_stamp_with_another_hash_is_ignored(shelf: Shelf) -> None:
    path = shelf.root / "toy/toy.gguf"
    write_stamp(path, hashlib.sha256(b"something else").hexdigest())
    assert shelf.path("toy") == path


def test_a_shelf_that_cannot_be_written_still_serves(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(path: Path, data: bytes) -> None:
        raise OSError(30, "Read-only file system", str(path))

    monkeypatch.setattr("appliance.models.digest.write_atomically", read_only)
    assert shelf.path("toy").is_file()
    assert stamped_hash(shelf.root / "toy/toy.gguf") is None


def test_a_hash_locked_at_the_first_fetch_decides_from_then_on(tmp_path: Path) -> None:
    text = '[[models]]\nid = "toy"\nkind = "llm"\nlicence = "MIT"\n[[models.files]]\nname = "a.bin"\n'
    manifest = parse_manifest(text + "locked_at_first_fetch = true\nsources = []\n")
    shelf = Shelf(tmp_path, manifest)
    model = manifest.model("toy")
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/a.bin").write_bytes(b"first")
    with pytest.raises(ModelFileError, match="by hand"):
        shelf.path("toy")
    shelf.lock_hash(model, model.files[0], hashlib.sha256(b"first").hexdigest(), 5, "url:http://here")
    assert shelf.path("toy").is_file()
    (tmp_path / "toy/a.bin").write_bytes(b"other")
    with pytest.raises(ModelFileError, match="damaged"):
        Shelf(tmp_path, manifest).path("toy")
    with pytest.raises(ApplianceError, match="differs"):
        shelf.lock_hash(model, model.files[0], hashlib.sha256(b"other").hexdigest(), 5, "url:http://there")


def test_locked_hashes_that_cannot_be_read_are_not_passed_over(tmp_path: Path) -> None:
    text = '[[models]]\nid = "toy"\nkind = "llm"\nlicence = "MIT"\n[[models.files]]\nname = "a.bin"\n'
    shelf = Shelf(tmp_path, parse_manifest(text + "locked_at_first_fetch = true\nsources = []\n"))
    (tmp_path / "locked.json").write_text("{", encoding="utf-8")
    with pytest.raises(ModelFileError, match=r"locked\.json"):
        shelf.path("toy")


def test_atomic_writing_leaves_the_old_content_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "note.json"
    write_atomically(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, json.dumps({"new": True}).encode())
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
