"""Tiers load; a person's file is layered over its tier; what is wrong is named with the nearest right thing."""

from pathlib import Path

import pytest

from appliance.config import load, tiers, user_config_path
from appliance.errors import ConfigError


@pytest.mark.parametrize("name", tiers())
def test_every_tier_loads(name: str) -> None:
    config = load(tier=name)
    assert config.tier == name
    assert config.summary
    assert config.models.ids()


def test_the_kiosk_is_the_starter_with_other_manners() -> None:
    kiosk, starter = load(tier="kiosk"), load(tier="starter")
    assert kiosk.models == starter.models
    assert kiosk.visits.wipe
    assert kiosk.screen.hide_words
    assert kiosk.stations[0].wake_word
    assert "kiosk" not in tiers()


def test_only_what_differs_is_written(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('tier = "tiny"\n[llm]\nthreads = 1\n[[stations]]\nname = "left"\n[[stations]]\nname = "right"\n')
    mine, tiny = load(path), load(tier="tiny")
    assert mine.llm.threads == 1
    assert mine.llm.share_tokens == tiny.llm.share_tokens
    assert [s.name for s in mine.stations] == ["left", "right"]


def test_the_users_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert load().tier == "starter"
    user_config_path().parent.mkdir(parents=True)
    user_config_path().write_text('tier = "tiny"\n')
    assert load().tier == "tiny"
    assert load(tier="starter").tier == "starter"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[llm]\ntreads = 3", "no key 'llm.treads'", "llm.threads"),
        ("[lmm]\nthreads = 3", "no key 'lmm'", "llm"),
        ('[llm]\nthreads = "three"', "llm.threads is 'three'", "a whole number"),
        ('[llm]\nthreads = "3"', "llm.threads is '3'", "a whole number"),
        ("[llm]\nthreads = 2.5", "llm.threads is 2.5", "a whole number"),
        ("[budget]\ntotal_ms = true", "budget.total_ms is True", "a number"),
        ('[talk.endpoint]\npatience = "bold"', "patience is one of quick, normal, patient", "talk.endpoint"),
        ('[[stations]]\nnane = "x"', "no key 'stations.nane'", "stations.name"),
        ("[llm\n", "not valid TOML", "configs/"),
        ('tier = "nosuch"', "no tier 'nosuch'", "known here"),
        ('tier = "stater"', "no tier 'stater'", "starter"),
        ('llm = "small"', "llm is 'small'", "a table"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str, hint: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.exit_code == 2


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    binary = tmp_path / "x.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path, message in ((tmp_path / "none.toml", "does not exist"), (tmp_path, "folder"), (binary, "not a text")):
        with pytest.raises(ConfigError, match=message):
            load(path)
