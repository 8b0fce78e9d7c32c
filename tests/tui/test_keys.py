"""Every key does what the footer says, and the screen never draws more often than it may."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from scenes import SCENES, Asked, Shelf, recorded, screen
from textual.pilot import Pilot

from appliance.events import Level, State, StateChanged, Transcribed
from appliance.store.database import Span, StoredTurn
from appliance.tui.app import HELP, ApplianceScreen, HelpScreen
from appliance.tui.detail import DetailScreen
from appliance.tui.theme import fitting


def drive(
    app: ApplianceScreen, act: Callable[[Pilot[Any]], Awaitable[None]], size: tuple[int, int] = (120, 40)
) -> None:
    async def main() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            app.tick()
            await pilot.pause()
            await act(pilot)

    asyncio.run(main())


def shown(app: ApplianceScreen) -> str:
    """The characters on the screen, without colours."""
    width = app.size.width
    return "\n".join("".join(s.text for s in strip).ljust(width) for strip in app.screen._compositor.render_strips())


@pytest.mark.parametrize(("key", "call"), [("space", "talk"), ("m", "mute"), ("i", "interrupt")])
def test_keys_that_ask_something_of_the_appliance(key: str, call: str) -> None:
    asked = Asked()

    async def act(pilot: Pilot[Any]) -> None:
        await pilot.press(key)

    drive(screen("speaking", asked=asked), act)
    assert asked.calls == [(call, "kitchen-1")]


def test_w_hides_and_shows_words() -> None:
    app = screen("speaking")

    async def act(pilot: Pilot[Any]) -> None:
        assert "And how high do they get?" in shown(app)
        await pilot.press("w")
        await pilot.pause()
        hidden = shown(app)
        assert "high" not in hidden
        assert "‹6 words hidden›" in hidden
        await pilot.press("w")
        await pilot.pause()
        assert "And how high do they get?" in shown(app)

    drive(app, act)


@pytest.mark.parametrize("scene", SCENES)
def test_hidden_words_are_nowhere_on_the_screen(scene: str) -> None:
    app = screen(scene, hide_words=True)
    said = {e.text for e in recorded(scene) if isinstance(e, Transcribed) and len(e.text) > 4}

    async def act(pilot: Pilot[Any]) -> None:
        text = shown(app)
        assert not any(words in text for words in said)

    drive(app, act)


def test_n_goes_round_the_sessions() -> None:
    app = screen("busy")

    async def act(pilot: Pilot[Any]) -> None:
        seen = [app.model.focus]
        for _ in range(4):
            await pilot.press("n")
            seen.append(app.model.focus)
        assert seen == ["kitchen-1", "lobby-2", "lobby-3", "lobby-4", "kitchen-1"]

    drive(app, act)


@pytest.mark.parametrize("key", ["question_mark", "f1"])
def test_help_opens_and_closes_and_names_every_key_of_the_footer(key: str) -> None:
    app = screen("speaking")

    async def act(pilot: Pilot[Any]) -> None:
        await pilot.press(key)
        assert isinstance(app.screen, HelpScreen)
        text = shown(app)
        assert all(does.split(":", maxsplit=1)[0].split()[0] in text for _, does in HELP)
        await pilot.press("escape")
        assert not isinstance(app.screen, HelpScreen)

    drive(app, act)


def test_l_changes_between_dark_and_light() -> None:
    app = screen("speaking")

    async def act(pilot: Pilot[Any]) -> None:
        dark = app.current_theme.dark
        await pilot.press("l")
        assert app.current_theme.dark != dark

    drive(app, act)


@pytest.mark.parametrize(("says", "dark"), [("", True), ("15;0", True), ("0;15", False), ("0;default;7", False)])
def test_a_light_terminal_gets_the_light_theme(says: str, dark: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORFGBG", says)
    assert fitting().dark == dark


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_quit(key: str) -> None:
    app = screen("speaking")

    async def main() -> None:
        async with app.run_test() as pilot:
            await pilot.press(key)
            await pilot.pause()
        assert app.return_code == 0

    asyncio.run(main())


def test_the_palette_has_the_commands() -> None:
    asked = Asked()
    app = screen("speaking", asked=asked)

    async def act(pilot: Pilot[Any]) -> None:
        await pilot.press("ctrl+p", *"interrupt")
        await app.workers.wait_for_complete()
        await pilot.pause()
        await pilot.press("down", "enter")
        await pilot.pause()

    drive(app, act)
    assert asked.calls == [("interrupt", "kitchen-1")]


def test_arrows_choose_a_turn_and_enter_opens_it() -> None:
    app = screen("end", shelf=Shelf(spans=[Span(12.0, "TurnEnded", {"reason": "score"})]))

    async def act(pilot: Pilot[Any]) -> None:
        await pilot.press("up", "up", "enter")
        await app.workers.wait_for_complete()
        await pilot.pause()
        detail = app.screen
        assert isinstance(detail, DetailScreen)
        assert detail.row.record.turn == 3
        assert "12 ms  turn over" in shown(app)
        await pilot.press("left")
        assert detail.row.record.turn == 2
        await pilot.press("right", "right", "right", "right")
        assert detail.row.record.turn == 5
        await pilot.press("escape")
        assert not isinstance(app.screen, DetailScreen)
        await pilot.press("home", "k", "j")
        assert app._main.waterfall.chosen is app.model.turns[1]
        await pilot.press("end")
        assert app._main.waterfall.chosen is app.model.turns[-1]

    drive(app, act)


@pytest.mark.parametrize(("key", "mark"), [("c", "cut off"), ("s", "too slow"), ("u", "")])
def test_marks_go_to_the_store(key: str, mark: str) -> None:
    shelf = Shelf()
    app = screen("end", shelf=shelf)

    async def act(pilot: Pilot[Any]) -> None:
        await pilot.press("enter", key)
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert (f"marked: {mark}" in shown(app)) == bool(mark)

    drive(app, act)
    assert shelf.marks == [(5, mark)]


def test_words_can_be_hidden_in_the_detail_too() -> None:
    app = screen(
        "end", shelf=Shelf(spans=[Span(1.0, "Transcribed", {"kind": "final", "text": "secret", "took_ms": 1.0})])
    )

    async def act(pilot: Pilot[Any]) -> None:
        await pilot.press("enter")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "secret" in shown(app)
        await pilot.press("w")
        await pilot.pause()
        assert "secret" not in shown(app)
        assert "fundy" not in shown(app).lower()

    drive(app, act)


def test_a_click_chooses_a_turn_and_a_double_click_opens_it() -> None:
    app = screen("end")

    async def act(pilot: Pilot[Any]) -> None:
        await pilot.click("#waterfall", offset=(10, 3))
        assert app._main.waterfall.chosen is app.model.turns[1]
        await pilot.click("#waterfall", offset=(10, 3), times=2)
        await pilot.pause()
        assert isinstance(app.screen, DetailScreen)

    drive(app, act)


def test_turns_of_the_past_are_listed_and_do_not_count() -> None:
    past = screen("end")
    for event in recorded("end"):
        past.model.take(event)
    old = [StoredTurn(row.record, True, "too slow") for row in past.model.turns]
    app = screen("listening", shelf=Shelf(turns=old))

    async def act(pilot: Pilot[Any]) -> None:
        await app.workers.wait_for_complete()
        app.tick()
        await pilot.pause()
        assert [row.live for row in app.model.turns] == [False] * 5
        assert app.model.timed() == []
        assert shown(app).count("too slow") == 5

    drive(app, act)


def test_a_store_that_cannot_be_read_is_said_and_nothing_else_breaks() -> None:
    app = screen("speaking", shelf=Shelf(broken="the store is locked"))

    async def act(pilot: Pilot[Any]) -> None:
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert any("the store is locked" in n.message for n in app._notifications)
        await pilot.press("enter")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "the store is locked" in shown(app)

    drive(app, act)


def test_what_was_said_cannot_steer_the_terminal() -> None:
    app = screen("listening")

    async def act(pilot: Pilot[Any]) -> None:
        app._feed.waiting = [  # type: ignore[attr-defined]
            Transcribed(at=1e4, session="kitchen-1", turn=1, kind="final", text="\x1b[2J\x1b]0;owned\x07[bold]hi",
                        language="en", audio_ms=1, took_ms=1)
        ]  # fmt: skip
        app.tick()
        await pilot.pause()
        strips = app.screen._compositor.render_strips()
        assert not any(ord(c) < 32 for strip in strips for segment in strip for c in segment.text)
        assert "[bold]hi" in shown(app)

    drive(app, act)


def test_a_storm_of_events_costs_one_redraw_a_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    app = screen("speaking")
    drawn: list[str] = []

    async def act(pilot: Pilot[Any]) -> None:
        for panel, name in app._main.panels():
            render = panel.render
            monkeypatch.setattr(panel, "render", lambda name=name, render=render: (drawn.append(name), render())[1])
        storm = [Level(at=1e4 + n / 1000, session="kitchen-1", input_dbfs=-n % 60, speech=n % 2) for n in range(500)]
        states = [StateChanged(at=1e4 + n, session="kitchen-1", state=s) for n in range(50) for s in State]
        app._feed.waiting = [*storm, *states]  # type: ignore[attr-defined]
        app.tick()
        await pilot.pause()
        assert drawn
        assert max(drawn.count(name) for name in drawn) == 1
        drawn.clear()
        app.tick()
        await pilot.pause()
        assert drawn == [], "nothing new, nothing drawn"

    drive(app, act)


@pytest.mark.parametrize("size", [(10, 3), (20, 8), (40, 12), (60, 16), (80, 10), (200, 60), (1, 1)])
def test_no_size_breaks_it(size: tuple[int, int]) -> None:
    async def act(pilot: Pilot[Any]) -> None:
        await pilot.press("enter", "escape", "question_mark", "escape")

    drive(screen("busy"), act, size)
