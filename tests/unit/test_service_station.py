"""A station's task: what goes wrong in it is said and takes nobody along; called off, it ends with its visits."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from appliance.events import Event, Notice
from appliance.service.service import Service


class House:
    """What `Service._station` touches of the service. It stops as soon as something is said."""

    def __init__(self) -> None:
        self.said: list[Event] = []
        self._stopping = asyncio.Event()
        self.box = SimpleNamespace(clock=SimpleNamespace(now=lambda: 0.0), bus=self)

    def publish(self, event: Event) -> None:
        self.said.append(event)
        self._stopping.set()


def station(house: House, run: Any) -> Any:
    return Service._station(cast(Service, house), cast(Any, SimpleNamespace(run=run, station="hall")))


def test_a_station_that_fails_is_named_and_does_not_raise() -> None:
    async def scene() -> None:
        async def run() -> None:
            raise ZeroDivisionError

        house = House()
        await station(house, run)
        (notice,) = house.said
        assert isinstance(notice, Notice)
        assert notice.message == "station hall failed (ZeroDivisionError) and begins again"

    asyncio.run(scene())


def test_a_station_that_is_called_off_calls_off_its_visits() -> None:
    async def scene() -> None:
        started, ended = asyncio.Event(), asyncio.Event()

        async def run() -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        house = House()
        task = asyncio.create_task(station(house, run))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()
        assert not house.said

    asyncio.run(scene())
