"""Real weights of the tiny pack: a damaged or mistaken file is refused before any parser sees it."""

import shutil
from pathlib import Path

import pytest

from appliance.errors import ModelFileError
from appliance.models.shelf import Shelf

pytestmark = pytest.mark.models


@pytest.fixture
def copy(tmp_path: Path) -> Shelf:
    """A shelf with its own copy of the silero model."""
    real = Shelf()
    (tmp_path / "silero-vad").mkdir()
    shutil.copy(real.path("silero-vad"), tmp_path / "silero-vad")
    return Shelf(tmp_path, real.manifest)


def test_the_tiny_pack_is_whole() -> None:
    shelf = Shelf()
    assert shelf.missing(["tiny"]) == []
    for model in shelf.manifest.expand(["tiny"]):
        assert shelf.folder(model.id).is_dir()


def test_one_flipped_bit_in_real_weights_is_refused(copy: Shelf) -> None:
    path = copy.path("silero-vad")
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(ModelFileError, match="damaged") as caught:
        copy.path("silero-vad")
    assert caught.value.hint == "appliance models pull silero-vad"


def test_another_model_under_the_right_name_is_called_what_it_is(copy: Shelf) -> None:
    gguf = Shelf().path("smollm2-135m")
    path = copy.path("silero-vad")
    with gguf.open("rb") as stream:
        path.write_bytes(stream.read(path.stat().st_size))
    with pytest.raises(ModelFileError, match="is a GGUF model, not what its name says"):
        copy.path("silero-vad")
