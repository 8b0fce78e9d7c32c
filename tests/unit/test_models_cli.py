"""`appliance models` as a person and a script see it: stdout, stderr, exit codes."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from appliance.cli.models import app
from appliance.errors import ApplianceError, ModelFileError, UsageError
from appliance.models import shelf as shelf_module
from appliance.models.manifest import load_manifest

MODEL = """
[packs]
starter = ["one", "two"]

[licences]
MIT = "https://spdx.org/licenses/MIT.html"
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shelf folder, and a manifest of two small models whose sources are files."""
    text = MODEL
    for name in ("one", "two"):
        data = name.encode() * 100
        (tmp_path / f"{name}.bin").write_bytes(data)
        text += f'[[models]]\nid = "{name}"\nkind = "llm"\nlicence = "MIT"\n[[models.files]]\nname = "{name}.gguf"\n'
        text += f'sha256 = "{hashlib.sha256(data).hexdigest()}"\nbytes = {len(data)}\nsources = ["file:{name}.bin"]\n'
    path = tmp_path / "manifest.toml"
    path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(shelf_module, "load_manifest", lambda: load_manifest(path))
    return tmp_path / "weights"


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_day_with_models(root: Path, tmp_path: Path) -> None:
    pulled = run("pull", "--root", root)
    assert pulled.exit_code == 0
    assert pulled.stdout == ""
    assert "one: fetched" in pulled.stderr
    assert "two: already here" in run("pull", "two", "--root", root).stderr

    verified = run("verify", "--root", root)
    assert verified.stdout.splitlines() == ["one/one.gguf: ready", "two/two.gguf: ready"]

    stick = tmp_path / "stick.tar"
    assert "import stick.tar" in run("bundle", stick, "--root", root).stderr
    imported = run("import", stick, "--root", tmp_path / "elsewhere")
    assert imported.exit_code == 0
    assert "two: installed" in imported.stderr


def test_list_shows_what_is_here_and_what_is_not(root: Path) -> None:
    run("pull", "one", "--root", root)
    listed = json.loads(run("list", "--root", root, "--json").stdout)
    assert listed["root"] == str(root)
    assert listed["packs"] == {"starter": ["one", "two"]}
    assert {row["id"]: row["here"] for row in listed["models"]} == {"one": "yes", "two": "no"}
    assert listed["models"][0]["files"][0]["state"] == "ready"
    table = run("list", "two", "--root", root).stdout
    assert table.startswith("id ")
    assert "one" not in table


def test_verify_says_what_is_wrong_and_fails(root: Path) -> None:
    run("pull", "--root", root)
    path = root / "one" / "one.gguf"
    path.write_bytes(path.read_bytes()[:-1])
    (root / "two" / "two.gguf").unlink()
    bad = run("verify", "starter", "--root", root, "--json")
    report = json.loads(bad.stdout)
    assert report["ok"] is False
    assert [file["state"] for file in report["files"]] == ["truncated", "absent"]
    assert isinstance(bad.exception, ModelFileError)
    assert "299 of 300 bytes" in bad.exception.message
    assert "1 more" in bad.exception.message
    assert bad.exception.hint == "appliance models pull one"


def test_verify_of_an_empty_shelf_says_so(root: Path) -> None:
    empty = run("verify", "--root", root)
    assert empty.exit_code == 0
    assert "nothing is in" in empty.stderr


@pytest.mark.parametrize("command", ["list", "pull", "verify"])
def test_an_unknown_name_gets_the_nearest_one(root: Path, command: str) -> None:
    error = run(command, "startr", "--root", root).exception
    assert isinstance(error, UsageError)
    assert (error.exit_code, error.hint) == (2, "did you mean starter?")


def test_a_failed_pull_names_the_file_and_keeps_the_rest(root: Path, tmp_path: Path) -> None:
    (tmp_path / "one.bin").unlink()
    failed = run("pull", "--root", root)
    assert isinstance(failed.exception, ApplianceError)
    assert "one/one.gguf could not be fetched" in failed.exception.message
    assert "two: fetched" in failed.stderr


def test_a_folder_that_cannot_be_made_is_one_sentence(root: Path) -> None:
    root.write_text("a file")
    error = run("pull", "--root", root).exception
    assert isinstance(error, ApplianceError)
    assert "is not a folder" in error.message


@pytest.mark.parametrize("command", ["list", "pull", "verify", "bundle", "import"])
def test_every_help_shows_an_example(command: str) -> None:
    shown = run(command, "--help")
    assert shown.exit_code == 0
    assert f"appliance models {command}" in shown.stdout
