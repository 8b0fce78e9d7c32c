"""The shelf of parked states: limits, files, damage."""

from pathlib import Path

import pytest

from appliance.engines.llama.park import Parked, Shelf


def state(size: int, fill: int = 7) -> Parked:
    return Parked([1, 2, 3], bytes([fill]) * size)


def make(tmp_path: Path, said: list[str], ram: int = 250, disk: int = 1000, key: str = "k") -> Shelf:
    return Shelf(key, ram, disk, str(tmp_path), said.append)


def test_ram_first_then_disk_then_nothing(tmp_path: Path) -> None:
    shelf = make(tmp_path, [], ram=250, disk=700)
    for i in range(5):
        shelf.put(f"s{i}", state(200, i))
    assert shelf.ram_used <= 250
    assert 0 < shelf.disk_used <= 700
    assert shelf.cells == 3 * (1 + len(list(tmp_path.glob("*.kv"))))
    assert shelf.take("s4") == state(200, 4)
    assert shelf.take("s3") == state(200, 3)
    assert shelf.take("s0") is None  # pushed out by the newer ones
    shelf.close()
    assert list(tmp_path.iterdir()) == []


def test_without_a_folder_what_does_not_fit_is_dropped() -> None:
    shelf = Shelf("k", 250, 1000, "", lambda _: None)
    shelf.put("a", state(200))
    shelf.put("b", state(200))
    assert shelf.take("a") is None
    assert shelf.take("b") == state(200)


@pytest.mark.parametrize("fault", ["deleted", "truncated", "flipped", "emptied", "foreign"])
def test_a_lost_file_is_said_and_survived(tmp_path: Path, fault: str) -> None:
    said: list[str] = []
    shelf = make(tmp_path, said, ram=0)
    shelf.put("a", state(400))
    (file,) = tmp_path.glob("*.kv")
    data = file.read_bytes()
    if fault == "deleted":
        file.unlink()
    else:
        changed = {
            "truncated": data[:-10],
            "flipped": data[:-1] + bytes([data[-1] ^ 1]),
            "emptied": b"",
            "foreign": data.replace(b'"k"', b'"j"'),
        }
        file.write_bytes(changed[fault])
    assert shelf.take("a") is None
    assert len(said) == 1
    assert "computed again" in said[0]
    assert shelf.take("a") is None


def test_files_are_private_and_leftovers_go(tmp_path: Path) -> None:
    shelf = make(tmp_path, [], ram=0)
    shelf.put("a session's name", state(100))
    (file,) = tmp_path.glob("*.kv")
    assert file.stat().st_mode & 0o077 == 0
    assert "name" not in file.name
    make(tmp_path, [])
    assert not file.exists()


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    shelf = make(tmp_path, said, ram=0)
    tmp_path.joinpath("x").write_text("")
    shelf._directory = tmp_path / "gone"
    shelf.put("a", state(100))
    assert shelf.take("a") is None
    assert len(said) == 1
