"""`appliance models`: list, pull, verify, bundle and import model files.

Owns the words and bars a person sees; the work is done in `appliance.models`. `pull` is the one command of the
appliance, with `setup`, that opens a connection.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from appliance.errors import ApplianceError, ModelFileError

if TYPE_CHECKING:
    from appliance.models.digest import Tick
    from appliance.models.fetch import PullResult
    from appliance.models.progress import Progress, Watch
    from appliance.models.shelf import FileReport, Shelf

app = typer.Typer(
    help="Fetch, check and carry model files.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_ROOT = typer.Option(None, "--root", metavar="DIR", help="Where weights lie; by default the place the appliance uses.")
_JSON = typer.Option(False, "--json", help="Print JSON on stdout.")
_NAMES = typer.Argument(None, metavar="[ID|PACK]...", help="Models and packs; `appliance models list` shows them.")
_OUT = typer.Argument(..., metavar="OUT.tar", help="The file to write.")
_BUNDLE = typer.Argument(..., metavar="BUNDLE", help="A file that `models bundle` wrote.")


@app.command("list", epilog="Example: appliance models list tiny --json")
def list_models(names: list[str] | None = _NAMES, root: Path | None = _ROOT, as_json: bool = _JSON) -> None:
    """Show models and packs, and which of them are here."""
    shelf = _shelf(root)
    manifest = shelf.manifest
    models = manifest.expand(names) if names else list(manifest.models.values())
    rows: list[dict[str, Any]] = []
    for model in models:
        reports = [shelf.glance(model, file) for file in model.files]
        packs = [pack for pack, ids in manifest.packs.items() if model.id in ids]
        rows.append(
            {
                "id": model.id,
                "kind": model.kind,
                "title": model.title,
                "licence": model.licence,
                "languages": list(model.languages),
                "packs": packs,
                "bytes": model.size,
                "here": _together([report.state.value for report in reports]),
                "files": [_file_row(report) for report in reports],
            }
        )
    if as_json:
        print(json.dumps({"root": str(shelf.root), "packs": manifest.packs, "models": rows}))
        return
    _print_table(
        ("id", "kind", "size", "here", "packs", "licence"),
        [
            (row["id"], row["kind"], _size(row["bytes"]), row["here"], " ".join(row["packs"]), row["licence"])
            for row in rows
        ],
    )
    print(f"weights lie in {shelf.root}", file=sys.stderr)


@app.command(epilog="Examples: appliance models pull; appliance models pull tiny kokoro; "
             "appliance models pull gemma-3-4b-it-q4_k_m")  # fmt: skip
def pull(names: list[str] | None = _NAMES, root: Path | None = _ROOT) -> None:
    """Fetch models that are not here yet, by default the pack `starter`.

    Interrupted pulls go on where they stopped; damaged files are fetched again.
    """
    from appliance.models.fetch import Puller

    shelf = _shelf(root)
    with _watching(shelf) as watch:
        result = Puller(shelf, watch).pull(names or ["starter"])
    tell(result)


def tell(result: "PullResult") -> None:
    """Say what became of a pull. Raises ApplianceError with the first failure when there was one."""
    for model_id in result.fetched:
        _say(f"{model_id}: fetched")
    for model_id in result.already:
        _say(f"{model_id}: already here")
    if result.failed:
        first = next(iter(result.failed.values()))
        others = len(result.failed) - 1
        also = f" ({others} more: {', '.join(list(result.failed)[1:])})" if others else ""
        raise ApplianceError(first.message + also, first.hint)


@app.command(epilog="Example: appliance models verify starter")
def verify(names: list[str] | None = _NAMES, root: Path | None = _ROOT, as_json: bool = _JSON) -> None:
    """Hash every byte of the models that are here, or of the ones named, and say what is wrong."""
    from appliance.models.shelf import FileState

    shelf = _shelf(root)
    everything = not names
    models = shelf.manifest.expand(names) if names else list(shelf.manifest.models.values())
    reports: list[FileReport] = []
    with _watching(shelf, quiet=True) as watch:
        for model in models:
            seen = [shelf.glance(model, file).state for file in model.files]
            if everything and all(state is FileState.ABSENT for state in seen):
                continue
            for file in model.files:
                reports.append(shelf.examine(model, file, _ticker(watch, model.id, file.name, file.size)))
    if as_json:
        good = all(report.state is FileState.READY for report in reports)
        print(json.dumps({"root": str(shelf.root), "ok": good, "files": [_file_row(report) for report in reports]}))
    else:
        for report in reports:
            print(f"{report.model_id}/{report.name}: {report.state.value}")
    bad = [report for report in reports if report.state is not FileState.READY]
    if bad:
        also = f" ({len(bad) - 1} more files are not right either)" if len(bad) > 1 else ""
        complaint = shelf.complaint(bad[0])
        raise ModelFileError(complaint.message + also, complaint.hint)
    if not reports:
        _say(f"nothing is in {shelf.root} yet")


@app.command(epilog="Example: appliance models bundle /media/stick/appliance.tar starter")
def bundle(
    out: Path = _OUT,
    names: list[str] | None = _NAMES,
    root: Path | None = _ROOT,
) -> None:
    """Write models, manifest and licences into one file for a USB stick, by default the pack `starter`."""
    from appliance.models.bundle import write_bundle

    shelf = _shelf(root)
    with _watching(shelf) as watch:
        size = write_bundle(shelf, out, names or ["starter"], watch)
    _say(f"{out}: {_size(size)}; install it elsewhere with: appliance models import {out.name}")


@app.command("import", epilog="Example: appliance models import /media/stick/appliance.tar")
def import_models(
    bundle_file: Path = _BUNDLE,
    root: Path | None = _ROOT,
) -> None:
    """Install models from a bundle, without network. Every hash is checked against this version's manifest."""
    from appliance.models.bundle import read_bundle

    shelf = _shelf(root)
    with _watching(shelf) as watch:
        result = read_bundle(shelf, bundle_file, watch)
    for model_id in result.fetched:
        _say(f"{model_id}: installed")
    for model_id in result.already:
        _say(f"{model_id}: already here")


def _shelf(root: Path | None) -> "Shelf":
    from appliance.models.shelf import Shelf

    return Shelf(root)


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def _size(count: int) -> str:
    from appliance.models.progress import human_bytes

    return human_bytes(count)


def _together(states: list[str]) -> str:
    """One word for a model whose files are in these states."""
    if all(state == "ready" for state in states):
        return "yes"
    if all(state == "absent" for state in states):
        return "no"
    return next((state for state in ("altered", "truncated", "absent", "unchecked") if state in states), states[0])


def _file_row(report: "FileReport") -> dict[str, Any]:
    return {
        "model": report.model_id,
        "name": report.name,
        "state": report.state.value,
        "bytes": report.bytes,
        "expected_bytes": report.expected_bytes,
        "path": str(report.path),
    }


def _print_table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Plain aligned columns: they survive a pipe into grep and a narrow terminal alike."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    for row in [header, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _ticker(watch: "Watch", model_id: str, name: str, total: int) -> "Tick":
    from appliance.models.progress import Progress

    done = 0

    def tick(count: int) -> None:
        nonlocal done
        done += count
        watch(Progress(model_id, name, done, total))

    return tick


@contextmanager
def _watching(shelf: "Shelf", quiet: bool = False) -> Iterator["Watch"]:
    """A bar a model on a terminal, a line a model elsewhere (none when `quiet`); notes always get their own line. All
    of it on stderr."""
    if not sys.stderr.isatty():
        yield _lines(shelf, quiet)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Bars(*columns, TimeRemainingColumn(), console=console) as bars:
        tasks: dict[str, Any] = {}
        done: dict[str, dict[str, int]] = {}

        def watch(step: "Progress") -> None:
            if step.note:
                bars.console.print(step.note, markup=False, highlight=False)
                return
            files = done.setdefault(step.model_id, {})
            files[step.name] = step.done_bytes
            if step.model_id not in tasks:
                tasks[step.model_id] = bars.add_task(step.model_id, total=_whole(shelf, step) or None)
            bars.update(tasks[step.model_id], completed=sum(files.values()))

        yield watch


def _whole(shelf: "Shelf", step: "Progress") -> int:
    model = shelf.manifest.models.get(step.model_id)
    return model.size if model else step.total_bytes


def _lines(shelf: "Shelf", quiet: bool) -> "Watch":
    seen: set[str] = set()

    def watch(step: "Progress") -> None:
        if step.note:
            _say(step.note)
        elif step.model_id not in seen and not quiet:
            seen.add(step.model_id)
            _say(f"{step.model_id}: {_size(_whole(shelf, step))} …")

    return watch
