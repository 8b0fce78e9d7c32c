"""Where a Python package index keeps one exact file.

Owns the reading of a simple index (PEP 503 HTML or PEP 691 JSON) with the index, extra indexes, find-links folders and
certificate that pip is configured with. It exists because pip itself cannot download a source distribution without
running that package's build code. It downloads nothing but index pages.
"""

import ast
import json
import os
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from appliance.models.http import read_text
from appliance.models.progress import SourceError

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_DEFAULT_INDEX = "https://pypi.org/simple"


@dataclass(frozen=True, slots=True)
class PipSettings:
    """What pip would use: index addresses in order, local find-links folders, and a certificate bundle ("" = the
    system's)."""

    indexes: tuple[str, ...]
    find_links: tuple[str, ...]
    cafile: str


def has_pip() -> bool:
    return subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0


def pip_settings() -> PipSettings:
    """Read pip's merged configuration, files and environment; without pip only the environment."""
    done = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False)
    return settings_from(done.stdout if done.returncode == 0 else "", dict(os.environ))


def settings_from(listing: str, environment: dict[str, str]) -> PipSettings:
    """Settings from the lines of `pip config list` (section.key='value') and PIP_* variables, which win."""
    values: dict[str, str] = {}
    for section in ("global", "download"):
        for line in listing.splitlines():
            key, _, quoted = line.partition("=")
            if key.startswith(f"{section}."):
                values[key.removeprefix(f"{section}.")] = _unquote(quoted)
    for key in ("index-url", "extra-index-url", "find-links", "cert", "no-index"):
        variable = environment.get("PIP_" + key.upper().replace("-", "_"))
        if variable:
            values[key] = variable
    indexes = (
        []
        if values.get("no-index") in ("1", "true", "True", "yes", "on")
        else [values.get("index-url", _DEFAULT_INDEX), *values.get("extra-index-url", "").split()]
    )
    return PipSettings(tuple(indexes), tuple(values.get("find-links", "").split()), values.get("cert", ""))


def _unquote(quoted: str) -> str:
    try:
        return str(ast.literal_eval(quoted))
    except (ValueError, SyntaxError):
        return quoted


def find_file(requirement: str, suffix: str, settings: PipSettings) -> str:
    """The address of `dist==version` with that suffix (".tar.gz" or ".whl"). Raises SourceError."""
    dist, _, version = requirement.partition("==")
    for folder in settings.find_links:
        base = Path(urllib.request.url2pathname(folder.removeprefix("file://")))
        if base.is_dir():
            for path in sorted(base.iterdir()):
                if _is_wanted(path.name, dist, version, suffix):
                    return path.absolute().as_uri()
    troubles = []
    for index in settings.indexes:
        page = f"{index.rstrip('/')}/{_normal(dist)}/"
        if page.startswith("file:"):
            page += "index.html"
        try:
            text, kind = read_text(page, _ACCEPT, settings.cafile)
        except SourceError as error:
            troubles.append(error)
            continue
        for name, href in _links(text, kind):
            if _is_wanted(name, dist, version, suffix):
                return urllib.parse.urljoin(page, href)
    dead = "pypi" if troubles and all(trouble.dead for trouble in troubles) else ""
    reason = troubles[0].reason if dead else f"no package index has {requirement} as {suffix}"
    raise SourceError(reason, dead=dead)


def _links(text: str, kind: str) -> list[tuple[str, str]]:
    if "json" in kind:
        try:
            return [(file["filename"], file["url"]) for file in json.loads(text)["files"]]
        except (ValueError, KeyError, TypeError) as error:
            raise SourceError("the package index sent a page that cannot be read") from error
    parser = _Anchors()
    parser.feed(text)
    return parser.links


class _Anchors(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if tag == "a" and href:
            name = urllib.parse.unquote(urllib.parse.urlsplit(href).path.rpartition("/")[2])
            self.links.append((name, href.partition("#")[0]))


def _is_wanted(filename: str, dist: str, version: str, suffix: str) -> bool:
    if not filename.endswith(suffix):
        return False
    stem = filename.removesuffix(suffix)
    if suffix == ".whl":
        # Weights are data: only a wheel for every platform is meant.
        name, _, rest = stem.partition("-")
        return _normal(name) == _normal(dist) and rest.startswith(f"{version}-") and rest.endswith("-none-any")
    name, _, found = stem.rpartition("-")
    return _normal(name) == _normal(dist) and found == version


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
