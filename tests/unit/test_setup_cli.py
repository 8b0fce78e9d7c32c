"""`appliance setup` and `appliance doctor` on the command line: nothing is fetched before the verdict."""

import functools
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from appliance.audio.catalog import DeviceInfo
from appliance.cli import models as models_cli
from appliance.cli import setup as cli
from appliance.cli import setup_ask
from appliance.config import load, user_config_path
from appliance.errors import ApplianceError, Cancelled, MissingError, UsageError
from appliance.models.fetch import PullResult
from appliance.models.shelf import Shelf
from appliance.setup import devices as trying
from appliance.setup import probe as probing
from appliance.setup import verdicts
from appliance.setup.devices import Chosen, offered
from appliance.setup.probe import Machine
from appliance.setup.verdicts import judge_all

BOX = Machine("Linux x86_64", 2, 8 * 10**9, 7 * 10**9, 200 * 10**9, (), 1, 1)


@functools.cache
def _judge_on(machine: Machine) -> list[verdicts.Verdict]:
    """The verdicts take about a second, and the tests ask for the same machine again and again."""
    return judge_all(machine, Shelf())


def _judge_once(machine: Machine, _: Shelf) -> list[verdicts.Verdict]:
    return _judge_on(machine)


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """Set-up on a box with two cores, in a home of its own; what it would have fetched."""
    calls: list[list[str]] = []
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(probing, "probe", lambda *_, **__: BOX)
    monkeypatch.setattr(verdicts, "judge_all", _judge_once)
    monkeypatch.setattr(models_cli, "pull", lambda names, root: calls.append(names))
    monkeypatch.setattr(trying, "look", lambda kept: offered([], kept))
    return calls


def setup(**options: Any) -> None:
    defaults: dict[str, Any] = {"tier": "", "yes": False, "dry_run": False, "replace": False, "as_json": False}
    cli.setup(**{**defaults, **options})


def test_a_script_names_its_tier(fetched: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    setup(tier="starter", yes=True)
    assert fetched == [list(load(tier="starter").models.ids())]
    assert load(user_config_path()).tier == "starter"
    out, err = capsys.readouterr()
    assert out == ""
    assert "left for K/V" in err
    assert "ready" in err


def test_without_a_name_the_recommended_tier_is_taken(fetched: list[list[str]]) -> None:
    setup(yes=True)
    assert load(user_config_path()).tier == "starter"
    assert len(fetched) == 1


def test_a_tier_that_does_not_fit_is_refused_before_anything_is_fetched(fetched: list[list[str]]) -> None:
    with pytest.raises(MissingError, match="tier pro does not fit this machine") as refused:
        setup(tier="pro", yes=True)
    assert refused.value.hint
    assert refused.value.exit_code == 3
    assert fetched == []
    assert not user_config_path().exists()


def test_a_dry_run_writes_and_fetches_nothing(fetched: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    setup(dry_run=True)
    assert fetched == []
    assert not user_config_path().exists()
    out = capsys.readouterr().out
    for words in ("starter: fits  (recommended)", "pro: does not fit", "LLM weights", "sessions in all"):
        assert words in out
    with pytest.raises(MissingError):
        setup(dry_run=True, tier="flagship")


def test_json(fetched: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    setup(dry_run=True, as_json=True)
    answer = json.loads(capsys.readouterr().out)
    assert answer["recommended"] == "starter"
    assert answer["machine"]["cores"] == 2
    assert [tier["name"] for tier in answer["tiers"]][:2] == ["tiny", "starter"]
    for tier in answer["tiers"]:
        assert {"name", "verdict", "sessions", "v2v_ms", "download_bytes"} <= set(tier)


def test_an_unknown_tier_is_named_with_the_nearest(fetched: list[list[str]]) -> None:
    with pytest.raises(ApplianceError, match="startr") as refused:
        setup(tier="startr", yes=True)
    assert "starter" in refused.value.hint
    assert fetched == []


def test_an_edited_config_is_not_replaced_by_a_script(fetched: list[list[str]]) -> None:
    setup(tier="tiny", yes=True)
    path = user_config_path()
    path.write_text(path.read_text() + "# mine\n")
    with pytest.raises(UsageError, match="edited by hand"):
        setup(tier="starter", yes=True)
    assert len(fetched) == 1
    setup(tier="starter", yes=True, replace=True)
    assert load(path).tier == "starter"
    assert path.with_name("config.toml.bak1").read_text().endswith("# mine\n")


def test_a_person_is_asked(fetched: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    questions: list[str] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)

    def prompt(text: str, **options: Any) -> str:
        questions.append(f"{text} [{options['default']}]")
        return "tiny"

    monkeypatch.setattr(cli.typer, "prompt", prompt)
    setup()
    assert questions == ["Which tier (tiny, starter) [starter]"]
    assert load(user_config_path()).tier == "tiny"
    path = user_config_path()
    path.write_text(path.read_text() + "# mine\n")
    monkeypatch.setattr(cli.typer, "confirm", lambda *_, **__: False)
    with pytest.raises(UsageError):
        setup()
    monkeypatch.setattr(cli.typer, "confirm", lambda *_, **__: True)
    setup()
    assert not path.read_text().endswith("# mine\n")


MICROPHONES = [
    DeviceInfo(0, "HDA Intel PCH: ALC257 Analog (hw:0,0)", "ALSA", 2, 2, 44_100, default_input=True),
    DeviceInfo(1, "USB PnP Sound Device: Audio (hw:1,0)", "ALSA", 1, 0, 48_000),
]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What a person types at the questions that begin so, one answer after another; the default where none is left."""
    left: dict[str, list[str]] = {}

    def prompt(text: str, *, default: str, err: bool) -> str:
        given = next((given for begin, given in left.items() if text.startswith(begin)), [])
        return given.pop(0) if given else default

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(trying, "look", lambda kept: offered(MICROPHONES, kept))
    monkeypatch.setattr(cli.typer, "prompt", prompt)
    return left


def station() -> tuple[str, str]:
    first = load(user_config_path()).stations[0]
    return first.input.device, first.output.device


def test_a_person_is_asked_for_devices_in_plain_lines(
    fetched: list[list[str]], answers: dict[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    answers.update({"Which microphone": ["7", "usb"], "Which speaker": ["2"]})
    setup()
    assert station() == ("USB PnP Sound Device: Audio", "HDA Intel PCH: ALC257 Analog")
    out, err = capsys.readouterr()
    assert out == ""
    assert "   1  default (now HDA Intel PCH: ALC257 Analog)" in err
    assert "7 is not one microphone of these" in err
    assert len(fetched) == 1


def test_default_devices_need_no_answer_and_no_line(fetched: list[list[str]], answers: dict[str, list[str]]) -> None:
    setup()
    assert station() == ("default", "default")
    assert "stations" not in user_config_path().read_text()


def test_devices_once_chosen_stay(fetched: list[list[str]], answers: dict[str, list[str]]) -> None:
    answers["Which microphone"] = ["usb"]
    setup()
    chosen = station()
    setup()  # asked again, with the answer of last time offered
    assert station() == chosen
    setup(tier="tiny", yes=True)  # and not asked at all
    assert load(user_config_path()).tier == "tiny"
    assert station() == chosen
    user_config_path().write_text(user_config_path().read_text() + "# mine\n")
    setup(tier="tiny", yes=True, replace=True)  # put aside whole
    assert station() == ("default", "default")


def test_a_script_is_not_asked_for_devices(
    fetched: list[list[str]], answers: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(kept: Any) -> Any:
        raise AssertionError("nobody asked for devices")

    monkeypatch.setattr(trying, "look", look)
    for options in ({"yes": True}, {"tier": "tiny"}, {"as_json": True}):
        setup(**options)
    assert len(fetched) == 3


def test_no_device_is_one_sentence_and_one_goes_on(
    fetched: list[list[str]], answers: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    lack = "The PortAudio library is not installed on this machine."
    monkeypatch.setattr(
        trying, "look", lambda kept: replace(offered([], kept), trouble={"input": lack, "output": lack})
    )
    setup()
    assert capsys.readouterr().err.count(lack) == 1
    assert station() == ("default", "default")


@pytest.fixture
def screens(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A terminal, whose screens a person passes through with Enter; which ones they were."""
    from appliance.tui import choose, fetch
    from appliance.tui import devices as devices_screen

    seen: list[str] = []

    def chosen_tier(all_of: list[verdicts.Verdict], recommended: str | None) -> str | None:
        seen.append("tier")
        return recommended

    def chosen_devices(kept: Chosen) -> Chosen:
        seen.append("devices")
        return Chosen("USB PnP Sound Device: Audio", kept.output)

    def arrived(title: str, pull: Any, begin: Any) -> PullResult:
        seen.append(title)
        return PullResult(fetched=["whisper-base"])

    monkeypatch.setattr(setup_ask, "on_screens", lambda: True)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(choose, "choose_tier", chosen_tier)
    monkeypatch.setattr(devices_screen, "choose_devices", chosen_devices)
    monkeypatch.setattr(fetch, "fetch_on_screen", arrived)
    monkeypatch.setattr(Shelf, "missing", lambda self, ids: list(ids)[:1])
    return seen


def test_the_screens_in_their_order(
    fetched: list[list[str]], screens: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    setup()
    assert screens == ["tier", "devices", "fetching the models of starter"]
    assert station() == ("USB PnP Sound Device: Audio", "default")
    assert fetched == []
    err = capsys.readouterr().err
    assert "whisper-base: fetched" in err
    assert err.splitlines()[-1] == "ready: appliance run, or first appliance doctor"


def test_nothing_to_fetch_has_no_screen(
    fetched: list[list[str]], screens: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Shelf, "missing", lambda self, ids: [])
    setup()
    assert screens == ["tier", "devices"]
    assert len(fetched) == 1  # which looks whether they are whole


def test_a_screen_that_is_left_leaves_everything_as_it_was(
    fetched: list[list[str]], screens: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import typer

    from appliance.tui import choose
    from appliance.tui import devices as devices_screen

    monkeypatch.setattr(devices_screen, "choose_devices", lambda kept: None)
    with pytest.raises(typer.Abort):
        setup()
    monkeypatch.setattr(choose, "choose_tier", lambda *_: None)
    with pytest.raises(typer.Abort):
        setup()
    assert not user_config_path().exists()
    assert fetched == []


def test_a_download_called_off_says_that_it_goes_on_later(
    fetched: list[list[str]], screens: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import typer

    from appliance.tui import fetch

    def called_off(*_: Any) -> PullResult:
        raise Cancelled

    monkeypatch.setattr(fetch, "fetch_on_screen", called_off)
    with pytest.raises(typer.Exit) as ended:
        setup()
    assert ended.value.exit_code == 130
    assert "goes on from there" in capsys.readouterr().err.splitlines()[-1]


def test_with_a_tier_or_json_nothing_is_shown_on_a_screen(fetched: list[list[str]], screens: list[str]) -> None:
    setup(tier="tiny")
    setup(yes=True)
    assert screens == []
    assert len(fetched) == 2


@pytest.mark.parametrize("deaf", ["stdin", "stdout", "stderr", "TERM"])
def test_a_screen_needs_a_whole_terminal(monkeypatch: pytest.MonkeyPatch, deaf: str) -> None:
    for name in ("stdin", "stdout", "stderr"):
        stream = SimpleNamespace(isatty=functools.partial(bool, name != deaf))
        monkeypatch.setattr(setup_ask.sys, name, stream)
    monkeypatch.setenv("TERM", "dumb" if deaf == "TERM" else "xterm-256color")
    drawn = setup_ask.on_screens()
    monkeypatch.undo()
    assert not drawn


def test_without_a_terminal_it_says_how_to_go_on(fetched: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(UsageError, match="not a terminal") as refused:
        setup()
    assert "--yes" in refused.value.hint
    # JSON alone is a question about the machine, not leave to fetch gigabytes.
    with pytest.raises(UsageError, match="not a terminal"):
        setup(as_json=True)
    assert fetched == []


def test_a_machine_that_holds_no_tier(fetched: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "probe", lambda *_, **__: replace(BOX, ram_free_bytes=100_000_000))
    with pytest.raises(MissingError, match="no tier fits"):
        setup(yes=True)
    assert fetched == []


def test_doctor_as_json_ends_with_1_when_something_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import typer

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    broken = tmp_path / "broken.toml"
    broken.write_text("tier = 3\n")
    with pytest.raises(typer.Exit) as ended:
        cli.doctor(tier="", config=broken, quick=True, as_json=True)
    assert ended.value.exit_code == 1
    answer = json.loads(capsys.readouterr().out)
    assert not answer["ok"]
    assert answer["findings"][0]["hint"]
