"""Choosing a tier: cards, sums, keys."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from appliance.setup.verdicts import FITS, NO, TIGHT, Verdict
from appliance.tui.choose import TierScreen

SUM = ("    8.2 GB  RAM free, half of it", "   -491 MB  weights", "       12  sessions by memory")
VERDICTS = [
    Verdict("tiny", "for two cores", FITS, "", 2, 900.0, 0, SUM),
    Verdict("starter", "for four cores", TIGHT, "less than a tenth of the RAM is left", 1, 1400.0, 1_100_000_000, SUM),
    Verdict("desktop", "for one GPU", NO, "there is no GPU", 0, None, 6_000_000_000, SUM),
]


def choose(*keys: str, recommended: str | None = "tiny") -> str | None:
    app = TierScreen(VERDICTS, recommended)

    async def main() -> None:
        async with app.run_test(size=(100, 30)) as pilot:
            await pilot.pause()
            await pilot.press(*keys)
            await pilot.pause()
            if app._exit:
                return
            await pilot.press("q")

    asyncio.run(main())
    return app.return_value


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        (["enter"], "tiny"),
        (["down", "enter"], "starter"),
        (["down", "down", "enter"], None),
        (["down", "down", "enter", "up", "enter"], "starter"),
        (["q"], None),
        (["escape"], None),
    ],
)
def test_keys(keys: list[str], chosen: str | None) -> None:
    assert choose(*keys) == chosen


def test_the_recommended_tier_is_chosen_by_enter() -> None:
    assert choose("enter", recommended="starter") == "starter"


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (58, 18)])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_cards(snap_compare: Callable[..., bool], size: tuple[int, int], at: int) -> None:
    async def settle(pilot: Any) -> None:
        await pilot.press(*["down"] * at)
        await pilot.pause()

    assert snap_compare(TierScreen(VERDICTS, "tiny"), terminal_size=size, run_before=settle)


def test_no_tier_fits(snap_compare: Callable[..., bool]) -> None:
    assert snap_compare(TierScreen(VERDICTS[2:], None), terminal_size=(80, 24), press=["enter"])
