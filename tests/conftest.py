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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sound and screens in real time on a shared machine: a torn stretch gets another try, a fault fails them all."""
    timed = [Path(__file__).parent / room for room in ("box", "tui", "audio")]
    for item in items:
        if any(room in item.path.parents for room in timed):
            item.add_marker(pytest.mark.flaky(reruns=2, reruns_delay=2))
