"""A toy model, and the engine's thread on it, for the tests of the language model."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from llama_steps import SMALL

from appliance.engines.llama.core import Core
from tests.fakes.toy_gguf import write_toy


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy(tmp_path_factory.mktemp("toy") / "llama.gguf", layers=2)


@pytest.fixture
def core(toy: Path) -> Iterator[Core]:
    made = Core(toy, SMALL)
    yield made
    made.close()
