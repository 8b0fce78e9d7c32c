"""The README's picture is the recorded demo as the screen draws it today."""

import asyncio
import runpy
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def texts(svg: str) -> list[str]:
    """What is written in the picture, without the identifiers that change with every export."""
    import re

    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_the_picture_is_current() -> None:
    script: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "make_screenshot.py"))
    drawn = asyncio.run(script["picture"](script["until_last_answer"](script["read"]())))
    kept = (ROOT / "appliance" / "tui" / "screen.svg").read_text(encoding="utf-8")
    assert texts(drawn) == texts(kept), "run scripts/make_screenshot.py"
    assert len(texts(kept)) > 100
