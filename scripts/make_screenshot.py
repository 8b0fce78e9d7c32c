"""Makes the README's picture of the screen, appliance/tui/screen.svg, from a recorded demo.

    python scripts/make_screenshot.py            draws the recording tests/tui/demo.jsonl again
    python scripts/make_screenshot.py --record   holds the demo anew first, with real models and the starter pack

The picture shows the last answer of the demo being spoken. A test compares it with the recording.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from appliance.config import load
from appliance.events import CapacitySnapshot, Event, Heard, Level, TurnFinished
from appliance.telemetry.wire import from_json, to_json
from appliance.tui.app import ApplianceScreen
from appliance.tui.link import NoControls, NoTurns, ScreenClock, ScreenSettings

ROOT = Path(__file__).resolve().parent.parent
RECORDING = ROOT / "tests" / "tui" / "demo.jsonl"
PICTURE = ROOT / "appliance" / "tui" / "screen.svg"
SIZE = (120, 40)


class Recorded:
    """A feed of what is in a file."""

    status = ""

    def __init__(self, events: list[Event]) -> None:
        self._events = events

    def renewed(self) -> bool:
        return False

    def drain(self) -> list[Event]:
        events, self._events = self._events, []
        return events


class ClockOfRecording(ScreenClock):
    """Stands still at the last event; the time of day is counted from the first."""

    def __init__(self, events: list[Event]) -> None:
        self._first, self._last = events[0].at, events[-1].at

    def now(self) -> float:
        return self._last

    def wall(self, at: float) -> str:
        seconds = int(at - self._first)
        return f"12:{seconds // 60 % 60:02}:{seconds % 60:02}"


def until_last_answer(events: list[Event]) -> list[Event]:
    """Everything up to the middle of the last answer, so that the picture shows one being spoken."""
    last = max(n for n, event in enumerate(events) if isinstance(event, TurnFinished))
    heard = [n for n, event in enumerate(events[:last]) if isinstance(event, Heard) and event.turn == events[last].turn]
    return events[: heard[len(heard) // 2] + 1] if heard else events[:last]


async def picture(events: list[Event]) -> str:
    """The screen after `events`, as SVG."""
    settings = ScreenSettings(title="starter", budget=load(tier="starter").budget)
    screen = ApplianceScreen(Recorded(events), NoControls(), NoTurns(), settings, ClockOfRecording(events))
    async with screen.run_test(size=SIZE) as pilot:
        await pilot.pause()
        screen.tick()
        await pilot.pause()
        return screen.export_screenshot(title="appliance demo --tui")


def read() -> list[Event]:
    lines = RECORDING.read_text(encoding="utf-8").splitlines()
    return [event for event in map(from_json, lines) if event is not None]


async def record() -> None:
    """Hold the demo and write down what the screen would have been told, five levels a second."""
    from appliance.app import Appliance
    from appliance.converse import Talk, hold_in
    from appliance.demo import questions
    from appliance.service.calibrate import calibration
    from appliance.service.ceiling import ceiling
    from appliance.setup.sums import tier_sum
    from appliance.telemetry.metrics import LoopLag

    config = load(tier="starter")
    async with Appliance(config) as box:
        with tempfile.TemporaryDirectory() as folder:
            cap = ceiling(config, tier_sum(config), await calibration(box, path=Path(folder) / "calibration.json"))
        lag = LoopLag()
        lines: list[str] = []
        told = box.bus.subscribe(limit=4096, durable=True)

        async def write_down() -> None:
            next_level = 0.0
            async for event in told:
                if isinstance(event, Level) and event.at < next_level:
                    continue
                if isinstance(event, Level):
                    next_level = event.at + 0.2
                lines.append(to_json(event))

        async def figures() -> None:
            while True:
                await asyncio.sleep(0.5)
                assert box.loaded is not None
                now, lag_ms = box.clock.now(), round(lag.p95_ms or 0.0, 1)
                box.bus.publish(await box.loaded.llama.stats())
                box.bus.publish(
                    CapacitySnapshot(
                        at=now,
                        cap=cap.sessions,
                        limited_by=cap.limited_by,
                        sessions=1,
                        queued=0,
                        refused=0,
                        ladder_level=0,
                        ladder_name="everything",
                        loop_lag_ms=lag_ms,
                        sum_lines=cap.lines,
                    )
                )

        tasks = [asyncio.create_task(work) for work in (write_down(), figures(), lag.run())]
        await hold_in(box, Talk([q.open() for q in questions()], keep=False), session="demo")
        for task in tasks[1:]:
            task.cancel()
        told.close()
        await tasks[0]
    RECORDING.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="hold the demo anew first")
    if parser.parse_args().record:
        asyncio.run(record())
    PICTURE.write_text(asyncio.run(picture(until_last_answer(read()))), encoding="utf-8")
    print(f"{PICTURE.relative_to(ROOT)} drawn", file=sys.stderr)


if __name__ == "__main__":
    main()
