"""Pulling: real bytes over a real server on this machine, cut, resumed, dead, full, interrupted, raced."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from weight_shop import DATA, PART, SHA, Shop, leftovers, manifest_text, pull, shelf_of

from appliance.errors import ApplianceError, Cancelled, DiskFullError
from appliance.models.digest import hash_file
from appliance.models.fetch import Puller
from appliance.models.manifest import parse_manifest
from appliance.models.progress import Progress
from appliance.models.shelf import Shelf


@pytest.fixture
def shop() -> Iterator[Shop]:
    opened = Shop()
    yield opened
    opened.close()


def test_a_file_is_fetched_named_and_stamped(tmp_path: Path, shop: Shop) -> None:
    shelf = shelf_of(tmp_path, [f"url:{shop.address}/a"])
    assert shelf.missing(["toy"]) == ["toy"]
    assert pull(shelf) == []
    assert shelf.path("toy").read_bytes() == DATA
    assert leftovers(tmp_path) == []
    assert Puller(shelf).pull(["toy"]).already == ["toy"]
    assert len(shop.asked) == 1


def test_progress_only_grows_and_ends_at_the_size(tmp_path: Path, shop: Shop) -> None:
    seen: list[Progress] = []
    Puller(shelf_of(tmp_path, [f"url:{shop.address}/a"]), seen.append).pull(["toy"])
    done = [step.done_bytes for step in seen]
    assert done == sorted(done)
    assert done[-1] == seen[-1].total_bytes == len(DATA)


def test_a_broken_connection_is_picked_up_where_it_broke(tmp_path: Path, shop: Shop) -> None:
    shop.cut_after = PART
    shelf = shelf_of(tmp_path, [f"url:{shop.address}/a"])
    pull(shelf)
    assert shelf.path("toy").read_bytes() == DATA
    assert [asked for _, asked in shop.asked] == ["", f"bytes={PART}-", f"bytes={2 * PART}-"]


def test_dead_and_wrong_sources_are_named_and_the_next_is_tried(tmp_path: Path, shop: Shop) -> None:
    closed = Shop()
    closed.close()
    gone, other, good = (f"url:{shop.address}/{name}" for name in ("gone", "other", "a"))
    shelf = shelf_of(tmp_path, [f"url:{closed.address}/a", gone, other, "file:/no/such/file", good])
    notes = pull(shelf)
    assert [note.endswith("; trying the next source") for note in notes] == [True] * 4
    for note, says in zip(notes, ("refused", "404", "SHA-256", "no file"), strict=True):
        assert says in note
    assert shelf.path("toy").read_bytes() == DATA


def test_when_no_source_delivers_the_error_names_them(tmp_path: Path, shop: Shop) -> None:
    shelf = shelf_of(tmp_path, [f"url:{shop.address}/gone", f"url:{shop.address}/other"])
    with pytest.raises(ApplianceError, match=r"toy/a\.bin could not be fetched.*404.*SHA-256") as caught:
        pull(shelf)
    assert "import" in caught.value.hint
    assert leftovers(tmp_path) == []
    assert shelf.missing(["toy"]) == ["toy"]


def test_a_source_that_sends_too_much_is_stopped(tmp_path: Path, shop: Shop) -> None:
    shelf = shelf_of(tmp_path, [f"url:{shop.address}/a"], size=PART)
    with pytest.raises(ApplianceError, match="more than the 1048576 bytes"):
        pull(shelf)


def test_one_failing_model_does_not_keep_the_others(tmp_path: Path, shop: Shop) -> None:
    second = manifest_text([f"url:{shop.address}/gone"]).replace('"toy"', '"lost"')
    shelf = Shelf(tmp_path, parse_manifest(second + "\n" + manifest_text([f"url:{shop.address}/a"])))
    result = Puller(shelf).pull(["lost", "toy"])
    assert list(result.failed) == ["lost"]
    assert result.fetched == ["toy"]


def test_parts_are_joined_in_order(tmp_path: Path) -> None:
    names = []
    for number in range(3):
        part = tmp_path / f"part{number}"
        part.write_bytes(DATA[number * PART : (number + 1) * PART])
        names.append(f"file:{part}")
    shelf = shelf_of(tmp_path / "shelf", [names])
    pull(shelf)
    assert shelf.path("toy").read_bytes() == DATA


def test_a_relative_file_source_starts_at_the_manifest(tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given/a.bin").write_bytes(DATA)
    manifest = parse_manifest(manifest_text(["file:given/a.bin"]), tmp_path / "manifest.toml")
    pull(Shelf(tmp_path / "shelf", manifest))
    assert (tmp_path / "shelf/toy/a.bin").read_bytes() == DATA


@pytest.mark.parametrize("damage", ["truncate", "flip", "replace"])
def test_a_damaged_file_is_fetched_again(tmp_path: Path, shop: Shop, damage: str) -> None:
    shelf = shelf_of(tmp_path, [f"url:{shop.address}/a"])
    pull(shelf)
    path = shelf.path("toy")
    content = {"truncate": DATA[:-9], "flip": DATA[:-1] + bytes([DATA[-1] ^ 1]), "replace": b"<html>"}[damage]
    path.write_bytes(content)
    pull(shelf)
    assert shelf.path("toy").read_bytes() == DATA


def test_a_hash_is_locked_at_the_first_fetch_and_decides_at_the_second(tmp_path: Path, shop: Shop) -> None:
    pull(shelf_of(tmp_path, [f"url:{shop.address}/a"], known=False))
    locked = json.loads((tmp_path / "locked.json").read_text(encoding="utf-8"))
    assert locked["toy/a.bin"]["sha256"] == SHA
    (tmp_path / "toy/a.bin").unlink()
    with pytest.raises(ApplianceError, match="SHA-256 is another"):
        pull(shelf_of(tmp_path, [f"url:{shop.address}/other"], known=False))


# -- interruptions ------------------------------------------------------------------------------------------------

CHILD = """
import signal, sys
from pathlib import Path
from appliance.errors import ApplianceError
from appliance.models.fetch import Puller
from appliance.models.manifest import parse_manifest
from appliance.models.shelf import Shelf
signal.signal(signal.SIGINT, signal.default_int_handler)
def watch(step):
    print(step.note or step.done_bytes, flush=True)
try:
    result = Puller(Shelf(Path(sys.argv[1]), parse_manifest(sys.stdin.read())), watch).pull(["toy"])
except ApplianceError as error:
    print("error", error.message, flush=True)
    sys.exit(error.exit_code)
print("fetched" if result.fetched else "already" if result.already else result.failed["toy"].message, flush=True)
"""


def child(root: Path, manifest: str, before: str = "") -> "subprocess.Popen[str]":
    """A pull in a process of its own; it prints its progress and how it ended."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(before) + CHILD, str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    process.stdin.write(manifest)
    process.stdin.close()
    return process


def lines(process: "subprocess.Popen[str]") -> Iterator[str]:
    assert process.stdout
    for line in process.stdout:
        yield line.strip()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_pull_goes_on_where_it_stopped(tmp_path: Path, shop: Shop, how: signal.Signals) -> None:
    manifest = manifest_text([f"url:{shop.address}/slow"])
    process = child(tmp_path, manifest)
    # The server holds back the rest, so the child has exactly the first part when it is told to stop.
    assert next(lines(process)) == str(PART)
    process.send_signal(how)
    assert process.wait(20) != 0
    shop.hold.set()
    assert not (tmp_path / "toy/a.bin").exists()
    assert ".a.bin.part" in leftovers(tmp_path)
    assert ".scratch" not in leftovers(tmp_path)
    kept = (tmp_path / "toy/.a.bin.part").stat().st_size
    shelf = Shelf(tmp_path, parse_manifest(manifest))
    pull(shelf)
    assert shop.asked[1:] == [("/slow", f"bytes={kept}-" if kept else "")]
    assert shelf.path("toy").read_bytes() == DATA
    assert leftovers(tmp_path) == []
    if how is signal.SIGINT:
        assert kept == PART


def half_a_pull(tmp_path: Path, shop: Shop, name: str) -> Shelf:
    """A shelf whose pull was called off after the first part."""
    shelf = shelf_of(tmp_path, [f"url:{shop.address}/{name}"])

    def stop(step: Progress) -> None:
        if step.done_bytes >= PART:
            raise Cancelled

    with pytest.raises(Cancelled):
        Puller(shelf, stop).pull(["toy"])
    assert (tmp_path / "toy/.a.bin.part").stat().st_size >= PART
    return shelf


def test_what_changed_on_the_server_meanwhile_is_fetched_from_the_start(tmp_path: Path, shop: Shop) -> None:
    shelf = half_a_pull(tmp_path, shop, "a")
    shop.etag = '"v2"'
    pull(shelf)
    assert shelf.path("toy").read_bytes() == DATA


def test_a_server_that_cannot_resume_begins_anew(tmp_path: Path, shop: Shop) -> None:
    shelf = half_a_pull(tmp_path, shop, "stubborn")
    pull(shelf)
    assert shelf.path("toy").read_bytes() == DATA


def test_a_spoilt_first_half_is_found_out_and_fetched_again(tmp_path: Path, shop: Shop) -> None:
    shelf = half_a_pull(tmp_path, shop, "a")
    part = tmp_path / "toy/.a.bin.part"
    part.write_bytes(bytes(part.stat().st_size))
    pull(shelf)
    assert shelf.path("toy").read_bytes() == DATA


def test_a_file_that_had_come_whole_is_only_named(tmp_path: Path, shop: Shop) -> None:
    shelf = half_a_pull(tmp_path, shop, "a")
    (tmp_path / "toy/.a.bin.part").write_bytes(DATA)
    asked = len(shop.asked)
    pull(shelf)
    assert len(shop.asked) == asked
    assert leftovers(tmp_path) == []


def test_half_a_file_survives_another_source_that_is_dead(tmp_path: Path, shop: Shop) -> None:
    half_a_pull(tmp_path, shop, "a")
    kept = (tmp_path / "toy/.a.bin.part").stat().st_size
    with pytest.raises(ApplianceError):
        pull(shelf_of(tmp_path, [f"url:{shop.address}/gone"]))
    assert (tmp_path / "toy/.a.bin.part").stat().st_size == kept


def test_two_pulls_at_once_fetch_once(tmp_path: Path, shop: Shop) -> None:
    manifest = manifest_text([f"url:{shop.address}/slow"])
    first = child(tmp_path, manifest)
    assert next(lines(first)) == str(PART)
    second = child(tmp_path, manifest)
    assert "waiting" in next(lines(second))
    shop.hold.set()
    # The held connection ended short, so the first child asks once more for the rest; the second never asks.
    assert list(lines(first))[-1] == "fetched"
    assert list(lines(second))[-1] == "already"
    assert first.wait(20) == second.wait(20) == 0
    assert [asked for _, asked in shop.asked] == ["", f"bytes={PART}-"]
    assert hash_file(tmp_path / "toy/a.bin") == SHA
    assert leftovers(tmp_path) == []


# -- no room ------------------------------------------------------------------------------------------------------


def test_too_little_room_is_said_before_anything_is_fetched(tmp_path: Path, shop: Shop) -> None:
    shelf = shelf_of(tmp_path, [f"url:{shop.address}/a"], size=1 << 60)
    with pytest.raises(DiskFullError, match="free, and this pull needs"):
        pull(shelf)
    assert shop.asked == []


def test_a_file_system_that_takes_no_more_ends_in_one_sentence(tmp_path: Path, shop: Shop) -> None:
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
    ignore = "import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    process = child(tmp_path, manifest_text([f"url:{shop.address}/a"]), ignore + limit)
    said = list(lines(process))
    assert process.wait(20) == 1
    assert said[-1].startswith("error the file system of")
    assert leftovers(tmp_path) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 20 MB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root; the size limit test covers the code path")
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", str(folder)], check=False)
    if done.returncode:
        pytest.skip("this container mounts no file systems; the size limit test covers the code path")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_disk_that_fills_up_is_left_as_it_was(small_disk: Path, shop: Shop) -> None:
    # The size is not known beforehand, so the check before the start lets it through.
    filler = small_disk / "filler"
    shelf = shelf_of(small_disk, [f"url:{shop.address}/a"], known=False)

    def fill(step: Progress) -> None:
        if not filler.exists():
            with filler.open("wb") as stream:
                stream.write(bytes(18 << 20))

    with pytest.raises(DiskFullError, match="no space is left") as caught:
        Puller(shelf, fill).pull(["toy"])
    assert "free" in caught.value.hint
    assert leftovers(small_disk) == []
    filler.unlink()
    pull(shelf)
    assert shelf.path("toy").read_bytes() == DATA
