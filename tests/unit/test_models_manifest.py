"""The manifest: what it accepts, what it says about mistakes, and that the one shipped is sound."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.errors import ConfigError, UsageError
from appliance.models.bundle import licence_texts
from appliance.models.manifest import (
    SCHEMES,
    load_manifest,
    models_root,
    parse_manifest,
    parse_part,
    safe_relative,
)

SHA = "0" * 64
FILE = f'[[models.files]]\nname = "a.bin"\nsha256 = "{SHA}"\nsources = ["file:a.bin"]\n'
MODEL = '[[models]]\nid = "a"\nkind = "llm"\nlicence = "MIT"\n' + FILE


@pytest.mark.parametrize(
    ("text", "place", "member"),
    [
        ("hf:owner/repo/sub/file.gguf", "owner/repo", "sub/file.gguf"),
        ("pypi:some-dist==1.0/pkg/data/x.bin", "some-dist==1.0", "pkg/data/x.bin"),
        ("pypi:some-dist==1.0", "some-dist==1.0", ""),
        ("sdist:some-dist==1.0/tests/x.wav", "some-dist==1.0", "tests/x.wav"),
        ("npm:kokoro-js@1.2.1/package/voices/a.bin", "kokoro-js@1.2.1", "package/voices/a.bin"),
        ("npm:@scope/kit@1.2.1/package/a.bin", "@scope/kit@1.2.1", "package/a.bin"),
        ("deb:some-data/usr/share/x.wav", "some-data", "usr/share/x.wav"),
        ("url:https://example.org/a/b.onnx", "https://example.org/a/b.onnx", ""),
        ("file:~/weights/b.onnx", "~/weights/b.onnx", ""),
    ],
)
def test_each_kind_of_source_is_read(text: str, place: str, member: str) -> None:
    part = parse_part(text)
    assert (part.place, part.member) == (place, member)
    assert part.text == text


@pytest.mark.parametrize("text", ["", "ftp:x", "hf:just-a-name", "pypi:dist/member", "npm:kit/member", "url:ftp://x"])
def test_a_source_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="source"):
        parse_part(text)


@given(st.text(alphabet="./\\ab\0", max_size=12))
def test_a_name_called_safe_never_leaves_its_folder(name: str) -> None:
    if safe_relative(name):
        base = Path("/shelf/model")
        assert (base / name).resolve().is_relative_to(base)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (MODEL.replace('kind = "llm"', 'kind = "lmm"'), "kind 'lmm'"),
        (MODEL.replace("licence", "license"), "unknown key 'license', did you mean 'licence'"),
        (MODEL.replace(SHA, "123"), "64 hexadecimal"),
        (MODEL.replace(f'sha256 = "{SHA}"\n', ""), "sha256 or locked_at_first_fetch"),
        (MODEL.replace('name = "a.bin"', 'name = "../a.bin"'), "plain relative path"),
        (MODEL.replace('id = "a"', 'id = "../a"'), "plain folder name"),
        (MODEL.replace('kind = "llm"\n', ""), "lacks the key 'kind'"),
        (MODEL + MODEL, "stands there twice"),
        (MODEL + '[packs]\nmine = ["b"]\n', "unknown model 'b'"),
        ("[[models", "manifest"),
    ],
)
def test_mistakes_are_named(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse_manifest(text)


def test_a_joined_source_keeps_the_order_of_its_parts() -> None:
    manifest = parse_manifest(MODEL.replace('["file:a.bin"]', '["file:a", ["file:b1", "file:b2"]]'))
    sources = manifest.models["a"].files[0].sources
    assert [[part.place for part in source] for source in sources] == [["a"], ["b1", "b2"]]


def test_expanding_packs_keeps_order_and_names_each_model_once() -> None:
    manifest = load_manifest()
    ids = [model.id for model in manifest.expand(["kokoro-voices", "kokoro", "tiny", "starter"])]
    assert ids[:2] == ["kokoro-voices", "kokoro-v1.0-int8"]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("startr", "starter"), ("whisper-bse", "whisper-base"), ("Gemma-3-4b", "gemma-3-4b-it-q4_k_m")],
)
def test_an_unknown_name_gets_the_nearest_one(name: str, nearest: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_manifest().expand([name])
    assert nearest in caught.value.hint


def test_the_shipped_manifest_is_sound() -> None:
    manifest = load_manifest()
    assert set(manifest.packs) == {"starter", "tiny", "kokoro", "recordings"}
    for model in manifest.models.values():
        assert model.title, model.id
        assert model.licence in manifest.licences, model.id
        assert model.size > 0, model.id
        for file in model.files:
            assert file.sources, file.name
            assert all(part.scheme in SCHEMES for source in file.sources for part in source)
            # An exact size is only written down for what was weighed; a rounded one never stands beside it.
            assert bool(file.bytes) != bool(file.bytes_about), (model.id, file.name)
    starter = sum(model.size for model in manifest.expand(["starter"]))
    tiny = sum(model.size for model in manifest.expand(["tiny"]))
    assert 650e6 < starter < 800e6
    assert 200e6 < tiny < 300e6


def test_every_model_of_the_packs_comes_with_its_licence_text() -> None:
    manifest = load_manifest()
    models = manifest.expand(["starter", "tiny", "kokoro", "recordings"])
    assert set(licence_texts(models)) == {model.licence for model in models}


def test_weights_lie_in_the_data_home_when_there_is_no_checkout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert models_root().name == "models"
    assert (models_root() / "manifest.toml").is_file()
    monkeypatch.setattr("appliance.models.manifest.checkout_root", lambda: None)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert models_root() == tmp_path / "appliance" / "models"
    monkeypatch.delenv("XDG_DATA_HOME")
    assert models_root() == Path.home() / ".local/share/appliance/models"


def test_a_manifest_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_manifest(tmp_path / "manifest.toml")
