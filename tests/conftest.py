"""What tests share: where recordings lie, and one warm appliance with the tiny pack."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def models_root() -> Path:
    """The checkout's weights; scripts/test has pulled them."""
    return ROOT / "models"


@pytest.fixture
def run() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """`asyncio.run` with a bound, so that a stuck conversation fails its own test and not the suite."""

    def bounded(work: Coroutine[Any, Any, Any], seconds: float = 120.0) -> Any:
        return asyncio.run(asyncio.wait_for(work, seconds))

    return bounded
