"""The user's config: what set-up writes loads, is layered over its tier, and replaces no edits unasked."""

from dataclasses import replace
from pathlib import Path

import pytest

from appliance.config import load
from appliance.errors import ApplianceError, UsageError
from appliance.setup.devices import Chosen, echo_of, of, present
from appliance.setup.fit import spelled, stations
from appliance.setup.write import edited, render, write_config, write_echo


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "appliance" / "config.toml"


def test_it_loads_over_its_tier_with_only_what_differs(path: Path) -> None:
    written = write_config(path, "starter", {"llm": {"threads": 1, "sessions": 3}, "piper": {"threads": 1}})
    assert written.changed
    assert written.backup is None
    config, tier = load(path), load(tier="starter")
    assert (config.llm.threads, config.llm.sessions, config.piper.threads) == (1, 3, 1)
    assert config.llm.system_prompt == tier.llm.system_prompt
    assert config.models == tier.models
    assert "system_prompt" not in path.read_text()


def test_the_same_again_changes_nothing(path: Path) -> None:
    write_config(path, "tiny", {})
    again = write_config(path, "tiny", {})
    assert not again.changed
    assert again.backup is None
    assert [file.name for file in path.parent.iterdir()] == ["config.toml"]


def test_another_tier_keeps_a_backup(path: Path) -> None:
    write_config(path, "tiny", {})
    before = path.read_text()
    written = write_config(path, "starter", {})
    assert written.backup is not None
    assert written.backup.read_text() == before
    third = write_config(path, "tiny", {})
    assert third.backup != written.backup
    assert load(path).tier == "tiny"


@pytest.mark.parametrize("edit", ["\n[llm]\nthreads = 7\n", " ", "# a remark\n"])
def test_an_edited_file_is_left_alone_unless_asked(path: Path, edit: str) -> None:
    write_config(path, "tiny", {})
    assert not edited(path)
    path.write_text(path.read_text() + edit)
    mine = path.read_text()
    assert edited(path)
    with pytest.raises(UsageError, match="edited by hand") as refused:
        write_config(path, "starter", {})
    assert "--replace" in refused.value.hint
    assert path.read_text() == mine
    written = write_config(path, "starter", {}, replace_edited=True)
    assert written.backup is not None
    assert written.backup.read_text() == mine


def test_a_file_of_somebody_else_counts_as_edited(path: Path) -> None:
    assert not edited(path)
    path.parent.mkdir()
    path.write_text('tier = "tiny"\n')
    assert edited(path)
    path.write_bytes(b"\xff\xfe")
    assert edited(path)


def test_a_folder_that_cannot_be_written_is_an_error_with_a_hint(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(ApplianceError, match="cannot be written") as failed:
        write_config(blocker / "config.toml", "tiny", {})
    assert failed.value.hint


def test_values_survive_the_way_through_toml() -> None:
    import tomllib

    keys = {"a": 'a "quoted" \\ word', "b": True, "c": 3, "d": 0.5}
    assert tomllib.loads(render("tiny", {"x": keys, "top": 1, "none": {}})) == {"tier": "tiny", "top": 1, "x": keys}
    with pytest.raises(TypeError):
        render("tiny", {"x": {"a": None}})


def test_nothing_is_left_half_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_config(path, "tiny", {})
    before = path.read_text()

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(ApplianceError, match="No space left"):
        write_config(path, "starter", {})
    assert path.read_text() == before
    assert not list(path.parent.glob(".*"))


def test_chosen_devices_load_in_the_first_station_of_the_tier(path: Path) -> None:
    names = Chosen('USB "PnP" \\ Sound\x7f\t: Audio', "Speaker é")
    tables = stations(load(tier="starter"), names)
    assert tables == [{"input": {"device": names.input}, "output": {"device": names.output}}]
    write_config(path, "starter", {"llm": {"threads": 1}, "stations": tables})
    (station,) = load(path).stations
    assert (station.input.device, station.output.device) == (names.input, names.output)
    assert present(path) == names
    assert load(path).llm.threads == 1


def test_the_other_settings_of_a_tiers_stations_stay(path: Path) -> None:
    kiosk = load(tier="kiosk")
    (tables,) = stations(kiosk, Chosen(input="USB"))
    assert tables["input"] == {"device": "USB"}
    assert "output" not in tables
    write_config(path, "kiosk", {"stations": [tables]})
    (before,), (after,) = kiosk.stations, load(path).stations
    assert after == replace(before, input=replace(before.input, device="USB"))
    assert after.wake_word


def test_default_devices_are_not_written(path: Path) -> None:
    assert stations(load(tier="starter"), Chosen()) == []
    assert of(load(tier="starter")) == Chosen()
    assert present(path) is None
    path.parent.mkdir()
    path.write_text("tier = 3\n")
    assert present(path) is None


def test_the_doctor_writes_a_delay_into_what_set_up_wrote(path: Path) -> None:
    write_config(path, "kiosk", {})
    written = write_echo(path, "counter", {"delay_ms": 47.0}, spelled(load(path).stations))
    assert written.changed
    assert not edited(path)  # so that set-up may write it again…
    counter = load(path).stations[0]
    assert counter == replace(load(tier="kiosk").stations[0], echo=replace(counter.echo, delay_ms=47.0))
    devices = of(load(path))
    kept = stations(load(tier="kiosk"), devices, echo_of(path, devices))
    write_config(path, "kiosk", {"stations": kept})
    assert load(path).stations[0].echo.delay_ms == 47.0  # …and keeps it…
    assert echo_of(path, Chosen("another microphone", devices.output)) is None  # …for these devices


def test_the_doctor_leaves_an_edited_config_as_it_is_but_for_the_delay(path: Path) -> None:
    path.parent.mkdir()
    mine = (
        '# mine\ntier = "tiny"  # small\n\n[[stations]]\nname = "a"\necho.mode = "cancel"\n\n'
        '[[stations]]\nname = "b"\n[stations.input]\ndevice = "USB" # left\n'
    )
    path.write_text(mine)
    write_echo(path, "a", {"delay_ms": 31.0}, [])
    written = write_echo(path, "b", {"delay_ms": 52.0, "mode": "half-duplex"}, [])
    assert written.backup is not None
    first, second = load(path).stations
    assert (first.echo.mode, first.echo.delay_ms) == ("cancel", 31.0)
    assert (second.echo.mode, second.echo.delay_ms, second.input.device) == ("half-duplex", 52.0, "USB")
    assert set(mine.splitlines()) <= set(path.read_text().splitlines())
    assert edited(path)


def test_a_delay_without_a_config_or_a_station_is_refused(path: Path) -> None:
    with pytest.raises(UsageError, match="no config") as refused:
        write_echo(path, "default", {"delay_ms": 1.0}, [])
    assert "setup" in refused.value.hint
    write_config(path, "tiny", {"stations": [{"name": "a"}]})
    with pytest.raises(UsageError, match="no station 'b'"):
        write_echo(path, "b", {"delay_ms": 1.0}, [])
