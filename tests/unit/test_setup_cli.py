"""`appliance setup` and `appliance doctor` on the command line: nothing is fetched before the verdict."""

import functools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.cli import models as models_cli
from appliance.cli import setup as cli
from appliance.config import load, user_config_path
from appliance.errors import ApplianceError, MissingError, UsageError
from appliance.models.shelf import Shelf
from appliance.setup import probe as probing
from appliance.setup import verdicts
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
