"""Packages as sources: real wheels, tarballs and .deb files at toy size, through pip, npm and dpkg-deb themselves."""

import base64
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from appliance.errors import ApplianceError
from appliance.models import crates as crates_module
from appliance.models import index
from appliance.models.crates import Crates
from appliance.models.fetch import Puller
from appliance.models.index import PipSettings, find_file, settings_from
from appliance.models.manifest import parse_manifest, parse_part
from appliance.models.progress import SourceError
from appliance.models.shelf import Shelf

HALVES = (b"first half " * 1000, b"second half " * 1000)
CONFIG = b'{"rate": 16000}'


def write_wheel(folder: Path, name: str, members: dict[str, bytes]) -> Path:
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as box:
        for member, data in members.items():
            box.writestr(member, data)
        box.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        box.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        box.writestr(f"{info}/RECORD", "")
    return path


def write_tar(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as box:
        for member, data in members.items():
            entry = tarfile.TarInfo(member)
            entry.size = len(data)
            box.addfile(entry, io.BytesIO(data))
    return path


@pytest.fixture
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A find-links folder with toy packages; pip is told to look nowhere else."""
    folder = tmp_path / "links"
    folder.mkdir()
    write_wheel(folder, "toy_one", {"toy_one/a.part1": HALVES[0], "toy_one/a.json": CONFIG})
    write_wheel(folder, "toy_two", {"toy_two/a.part2": HALVES[1]})
    setup = b"raise SystemExit('code of a package must never run')"
    write_tar(
        folder / "toy_src-1.0.tar.gz",
        {
            "toy_src-1.0/setup.py": setup,
            "toy_src-1.0/pyproject.toml": b"[build-system]\nrequires = []\nbuild-backend = 'setup'\n",
            "toy_src-1.0/tests/wav/one.wav": b"RIFF one",
            "toy_src-1.0/tests/wav/deep/two.wav": b"RIFF two",
            "toy_src-1.0/tests/conftest.py": b"texts = {}",
        },
    )
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def file_of(name: str, data: bytes, sources: object, extra: str = "") -> str:
    facts = f'name = "{name}"\nsha256 = "{sha(data)}"\nbytes = {len(data)}\n'
    return f"[[models.files]]\n{facts}sources = {json.dumps(sources)}\n{extra}\n"


def shelf_of(root: Path, *files: str) -> Shelf:
    head = '[[models]]\nid = "toy"\nkind = "recordings"\nlicence = "MIT"\n'
    return Shelf(root, parse_manifest(head + "".join(files)))


def pull(shelf: Shelf) -> None:
    result = Puller(shelf).pull(["toy"])
    if result.failed:
        raise result.failed["toy"]


def test_members_of_wheels_are_joined_and_each_wheel_is_downloaded_once(
    tmp_path: Path, links: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    real = Crates._pip

    def counting(self: Crates, part: object, *rest: object) -> None:
        calls.append(str(getattr(part, "place", "")))
        real(self, part, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Crates, "_pip", counting)
    shelf = shelf_of(
        tmp_path / "shelf",
        file_of(
            "a.bin", b"".join(HALVES), [["pypi:toy-one==1.0/toy_one/a.part1", "pypi:toy-two==1.0/toy_two/a.part2"]]
        ),
        file_of("a.json", CONFIG, ["pypi:toy-one==1.0/toy_one/a.json"]),
    )
    pull(shelf)
    assert shelf.path("toy").read_bytes() == b"".join(HALVES)
    assert shelf.path("toy", "a.json").read_bytes() == CONFIG
    assert calls == ["toy-one==1.0", "toy-two==1.0"]
    assert not (tmp_path / "shelf/toy/.scratch").exists()


def test_without_pip_the_index_is_asked_itself(tmp_path: Path, links: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crates_module, "has_pip", lambda: False)
    shelf = shelf_of(tmp_path / "shelf", file_of("a.json", CONFIG, ["pypi:toy-one==1.0/toy_one/a.json"]))
    pull(shelf)
    assert shelf.path("toy").read_bytes() == CONFIG


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("pypi:toy-one==1.0/toy_one/nothing", "no readable toy_one/nothing"),
        ("pypi:toy-one==9.9/toy_one/a.json", "pip"),
        ("sdist:toy-one==1.0/a.json", "no package index has"),
        ("sdist:toy-src==1.0/tests/nothing.wav", "no readable tests/nothing.wav"),
    ],
)
def test_a_package_without_the_file_is_named(tmp_path: Path, links: Path, source: str, says: str) -> None:
    with pytest.raises(ApplianceError, match=says):
        pull(shelf_of(tmp_path / "shelf", file_of("a.bin", CONFIG, [source])))


def test_a_damaged_wheel_is_a_dead_source(tmp_path: Path, links: Path) -> None:
    wheel = next(links.glob("toy_two*"))
    wheel.write_bytes(wheel.read_bytes()[:-300])
    with pytest.raises(ApplianceError, match="could not be fetched"):
        pull(shelf_of(tmp_path / "shelf", file_of("a.bin", HALVES[1], ["pypi:toy-two==1.0/toy_two/a.part2"])))


def test_a_source_distribution_is_read_and_its_code_never_runs(tmp_path: Path, links: Path) -> None:
    data = b"RIFF one"
    shelf = shelf_of(tmp_path / "shelf", file_of("one.wav", data, ["sdist:toy-src==1.0/tests/wav/one.wav"]))
    pull(shelf)
    assert shelf.path("toy").read_bytes() == data


def archive_shelf(tmp_path: Path, links: Path, unpack: str = '["tests/wav/", "tests/conftest.py"]') -> Shelf:
    data = (links / "toy_src-1.0.tar.gz").read_bytes()
    extra = f"unpack = {unpack}\nstrip = 1\n"
    return shelf_of(tmp_path / "shelf", file_of("toy_src-1.0.tar.gz", data, ["sdist:toy-src==1.0"], extra))


def test_an_archive_is_verified_and_unpacked(tmp_path: Path, links: Path) -> None:
    shelf = archive_shelf(tmp_path, links)
    pull(shelf)
    assert shelf.path("toy", "tests/wav/deep/two.wav").read_bytes() == b"RIFF two"
    assert shelf.path("toy", "tests/conftest.py").is_file()
    assert not (tmp_path / "shelf/toy/setup.py").exists()


def test_an_unpacked_member_that_was_changed_is_refused_and_pulled_again(tmp_path: Path, links: Path) -> None:
    shelf = archive_shelf(tmp_path, links)
    pull(shelf)
    path = tmp_path / "shelf/toy/tests/wav/one.wav"
    path.write_bytes(b"RIFF owe")
    with pytest.raises(ApplianceError, match="changed after it was unpacked"):
        shelf.path("toy", "tests/wav/one.wav")
    path.unlink()
    shutil.rmtree(links)
    pull(shelf)
    assert shelf.path("toy", "tests/wav/one.wav").read_bytes() == b"RIFF one"


def test_an_archive_without_the_named_members_says_so(tmp_path: Path, links: Path) -> None:
    with pytest.raises(ApplianceError, match="holds no tests/mp3/"):
        pull(archive_shelf(tmp_path, links, '["tests/mp3/"]'))


@pytest.mark.parametrize("name", ["toy_src-1.0/tests/wav/../../../../evil.wav", "toy_src-1.0/tests/wav/..\\evil.wav"])
def test_a_member_that_leads_outside_is_refused(tmp_path: Path, links: Path, name: str) -> None:
    write_tar(links / "toy_src-1.0.tar.gz", {name: b"RIFF"})
    with pytest.raises(ApplianceError, match="leads outside"):
        pull(archive_shelf(tmp_path, links, '["tests/wav/"]'))
    assert not list(tmp_path.rglob("*evil*"))


def test_a_deb_is_read_member_by_member(tmp_path: Path) -> None:
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not installed")
    tree = tmp_path / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    control = "Package: toy-data\nVersion: 1\nArchitecture: all\nMaintainer: nobody <a@b.c>\nDescription: toy\n"
    (tree / "DEBIAN/control").write_text(control, encoding="utf-8")
    (tree / "usr/share/toy").mkdir(parents=True)
    (tree / "usr/share/toy/one.wav").write_bytes(b"RIFF one")
    subprocess.run(["dpkg-deb", "-b", str(tree), str(tmp_path / "toy.deb")], check=True, capture_output=True)
    part = parse_part("deb:toy-data/usr/share/toy/one.wav")
    crates = Crates(tmp_path / "scratch")
    crates._have[part.archive] = tmp_path / "toy.deb"
    assert b"".join(crates.chunks(part, lambda count: None)) == b"RIFF one"
    with pytest.raises(SourceError, match="no readable"):
        list(crates.chunks(parse_part("deb:toy-data/usr/share/toy/two.wav"), lambda count: None))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    folder = tmp_path / "served"
    folder.mkdir()

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_npm_packages_come_through_npm(
    tmp_path: Path, served: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder, address = served
    tarball = write_tar(
        folder / "toy-1.0.0.tgz",
        {"package/package.json": b'{"name": "toy", "version": "1.0.0"}', "package/voices/a.bin": CONFIG},
    )
    digest = base64.b64encode(hashlib.sha512(tarball.read_bytes()).digest()).decode()
    version = {
        "name": "toy",
        "version": "1.0.0",
        "dist": {"tarball": f"{address}/toy-1.0.0.tgz", "integrity": f"sha512-{digest}"},
    }
    document = {"name": "toy", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    (folder / "toy").write_text(json.dumps(document), encoding="utf-8")
    monkeypatch.setenv("npm_config_registry", address)
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm-cache"))
    shelf = shelf_of(tmp_path / "shelf", file_of("a.bin", CONFIG, ["npm:toy@1.0.0/package/voices/a.bin"]))
    pull(shelf)
    assert shelf.path("toy").read_bytes() == CONFIG


@pytest.mark.parametrize(("scheme", "tool"), [("npm:toy@1.0/package/a", "npm"), ("deb:toy-data/usr/a", "deb")])
def test_a_missing_tool_is_a_dead_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, tool: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ApplianceError, match=rf"{tool}\S* is not installed"):
        pull(shelf_of(tmp_path / "shelf", file_of("a.bin", CONFIG, [scheme])))


def test_both_forms_of_a_package_index_are_read(served: tuple[Path, str]) -> None:
    folder, address = served
    (folder / "toy-src").mkdir()
    page = '<a href="../files/toy_src-1.0.tar.gz#sha256=00">x</a><a href="../files/toy_src-2.0.tar.gz">y</a>'
    (folder / "toy-src/index.html").write_text(page, encoding="utf-8")
    settings = PipSettings((f"{address}/none", address), (), "")
    assert find_file("Toy.Src==2.0", ".tar.gz", settings) == f"{address}/files/toy_src-2.0.tar.gz"
    document = json.dumps({"files": [{"filename": "toy_src-1.0.tar.gz", "url": "../f/toy_src-1.0.tar.gz"}]})
    assert index._links(document, "application/vnd.pypi.simple.v1+json") == [
        ("toy_src-1.0.tar.gz", "../f/toy_src-1.0.tar.gz")
    ]
    with pytest.raises(SourceError, match="no package index has toy-src==3"):
        find_file("toy-src==3", ".tar.gz", settings)


def test_an_index_on_disk_is_read(tmp_path: Path) -> None:
    (tmp_path / "simple/toy-src").mkdir(parents=True)
    page = '<a href="toy_src-1.0.tar.gz">toy</a>'
    (tmp_path / "simple/toy-src/index.html").write_text(page, encoding="utf-8")
    settings = PipSettings(((tmp_path / "simple").as_uri(),), (), "")
    assert find_file("toy-src==1.0", ".tar.gz", settings).endswith("simple/toy-src/toy_src-1.0.tar.gz")


def test_pips_own_settings_decide_which_index_is_read() -> None:
    listing = "global.index-url='https://a/simple'\nglobal.extra-index-url='https://b https://c'\n:env:.cert='/x'\n"
    assert settings_from(listing, {}).indexes == ("https://a/simple", "https://b", "https://c")
    assert settings_from(listing, {"PIP_INDEX_URL": "https://d"}).indexes[0] == "https://d"
    assert settings_from(listing + "download.index-url='https://e'\n", {}).indexes[0] == "https://e"
    assert settings_from(listing, {"PIP_NO_INDEX": "1"}).indexes == ()
    assert settings_from("", {"PIP_CERT": "/c.pem", "PIP_FIND_LINKS": "/l"}) == PipSettings(
        ("https://pypi.org/simple",), ("/l",), "/c.pem"
    )


def test_only_wheels_for_every_platform_are_taken() -> None:
    assert index._is_wanted("toy_one-1.0-py3-none-any.whl", "toy-one", "1.0", ".whl")
    assert not index._is_wanted("toy_one-1.0-cp311-cp311-linux_x86_64.whl", "toy-one", "1.0", ".whl")
    assert not index._is_wanted("toy_one-1.0.1-py3-none-any.whl", "toy-one", "1.0", ".whl")


def test_a_tool_that_runs_out_of_disk_is_a_full_disk(tmp_path: Path) -> None:
    crates = Crates(tmp_path)
    command = [sys.executable, "-c", "import sys; sys.exit('OSError: [Errno 28] No space left on device')"]
    with pytest.raises(OSError, match="No space left"):
        crates._run(command, tmp_path, "pypi", lambda count: None)
