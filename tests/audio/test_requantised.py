"""Weights made anew: once, whole, of the same model, and never a reason not to start."""

import os
import shutil
from pathlib import Path

import pytest

from appliance.engines.llama.gguf import read_geometry
from appliance.engines.llama.requantise import fast_weights, made
from appliance.models.digest import hash_file, write_stamp
from appliance.models.shelf import Shelf

pytestmark = [pytest.mark.models]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    copy = tmp_path / "model.gguf"
    shutil.copy(Shelf().path("smollm2-135m"), copy)
    write_stamp(copy, hash_file(copy))
    return copy


def test_made_once_and_again_only_when_it_was_touched(source: Path) -> None:
    assert made(source, "q8_0") is None
    first = fast_weights(source, "q8_0")
    assert first != source
    assert made(source, "q8_0") == first
    before, after = read_geometry(source), read_geometry(first)
    assert (after.layers, after.vocabulary) == (before.layers, before.vocabulary)
    assert after.weights_bytes > 1.2 * before.weights_bytes
    written = first.stat().st_mtime_ns
    assert fast_weights(source, "q8_0").stat().st_mtime_ns == written
    with first.open("r+b") as file:
        file.truncate(1000)
    assert made(source, "q8_0") is None
    assert fast_weights(source, "q8_0").stat().st_size > 1000


def test_another_source_of_the_same_name_gets_weights_of_its_own(source: Path) -> None:
    first = fast_weights(source, "q8_0")
    write_stamp(source, "0" * 64)  # as if another file had been pulled and checked
    assert made(source, "q8_0") is None
    assert fast_weights(source, "q8_0") != first
    assert not first.exists()


def test_another_recipe_takes_the_place_of_the_one_before(source: Path) -> None:
    retired = source.with_name(f".{source.stem}.q4_0.{'0' * 12}.0.3.36.gguf")
    beside = source.with_name(f".{source.stem}.v2.q8_0.{'0' * 12}.0.3.36.gguf")  # made of model.v2.gguf
    for path in (retired, beside):
        path.write_bytes(b"GGUF")
    small = fast_weights(source, "iq4_nl")
    large = fast_weights(source, "q8_0")
    assert large.stat().st_size > 1.3 * read_geometry(source).weights_bytes
    assert not retired.exists()
    assert not small.exists()
    assert beside.exists()


def test_where_it_cannot_be_made_the_file_itself_is_used_and_it_is_said(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    full = os.statvfs(source.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(full.f_blocks, full.f_blocks, 0))
    assert fast_weights(source, "q8_0", said.append) == source
    assert said
    assert "no room" in said[0]
    monkeypatch.undo()
    source.write_bytes(b"GGUF no model at all")
    write_stamp(source, hash_file(source))
    assert fast_weights(source, "q8_0", said.append) == source
    assert [path.name for path in source.parent.iterdir() if path.suffix != ".stamp"] == ["model.gguf"]
    assert fast_weights(source, "") == source
