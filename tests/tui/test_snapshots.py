"""Every screen in its states and sizes, as pictures of recorded events. Renew them with --snapshot-update."""

from collections.abc import Callable
from typing import Any

import pytest
from scenes import Shelf, screen
from textual.pilot import Pilot

from appliance.store.database import Span

SIZES = {"small": (80, 24), "comfortable": (120, 40), "narrow": (58, 18)}
SPANS = [
    Span(0.0, "SpeechStarted", {}),
    Span(1604.0, "SpeechPaused", {}),
    Span(1704.0, "EndpointLooked", {"silence_ms": 100.0, "audio_score": 0.41, "text_score": 0.7, "llm_score": None,
                                    "done_probability": 0.52, "wait_ms": 520.0}),
    Span(1795.0, "Transcribed", {"kind": "draft", "text": "Who wrote the first algorithm, um", "took_ms": 91.0}),
    Span(1930.0, "SpeechResumed", {}),
    Span(2222.0, "TurnEnded", {"reason": "silence", "last_speech_at": 1001.6}),
    Span(2310.0, "Transcribed", {"kind": "final", "text": "Who wrote the first algorithm, um, meant for a machine?",
                                 "took_ms": 88.0}),
    Span(2432.0, "FirstToken", {"ttft_ms": 122.0, "prompt_tokens": 19}),
    Span(2532.0, "ClauseReady", {"index": 0, "text": "Ada Lovelace did, in eighteen forty three.", "tokens": 14}),
    Span(2628.0, "ClauseSynthesized", {"index": 0, "audio_ms": 2300.0, "took_ms": 96.0}),
    Span(2650.0, "PlaybackStarted", {}),
    Span(0.0, "Levels", {"at_ms": [n * 32 for n in range(84)], "output_dbfs": [],
                         "speech": [0.96 if n % 30 < 24 else 0.05 for n in range(84)],
                         "input_dbfs": [-20.0 - n % 7 if n % 30 < 24 else -55.0 for n in range(84)]}),
]  # fmt: skip

Compare = Callable[..., bool]


async def still(pilot: Pilot[Any]) -> None:
    """Everything has been drawn."""
    await pilot.pause()
    pilot.app.tick()  # type: ignore[attr-defined]
    await pilot.pause()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scene", ["empty", "hearing", "thinking", "over-budget", "interrupted", "busy"])
def test_main_screen(snap_compare: Compare, scene: str, size: str) -> None:
    assert snap_compare(screen(scene), terminal_size=SIZES[size], run_before=still)


@pytest.mark.parametrize("size", SIZES)
def test_kiosk_hides_words(snap_compare: Compare, size: str) -> None:
    assert snap_compare(screen("speaking", hide_words=True), terminal_size=SIZES[size], run_before=still)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("state", ["over-budget", "hidden", "marked", "unknown"])
def test_detail_screen(snap_compare: Compare, state: str, size: str) -> None:
    shelf = Shelf(spans=[] if state == "unknown" else SPANS)
    app = screen("over-budget", hide_words=state == "hidden", shelf=shelf)

    async def open_it(pilot: Pilot[Any]) -> None:
        await still(pilot)
        await pilot.press("enter")
        await pilot.pause()
        if state == "marked":
            await pilot.press("s")
        await app.workers.wait_for_complete()
        await pilot.pause()

    assert snap_compare(app, terminal_size=SIZES[size], run_before=open_it)


@pytest.mark.parametrize("size", SIZES)
def test_help_screen(snap_compare: Compare, size: str) -> None:
    assert snap_compare(screen("busy"), terminal_size=SIZES[size], run_before=still, press=["question_mark"])


def test_light(snap_compare: Compare) -> None:
    assert snap_compare(screen("busy"), terminal_size=SIZES["comfortable"], run_before=still, press=["l"])


def test_no_colour(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(screen("busy"), terminal_size=SIZES["small"], run_before=still)
