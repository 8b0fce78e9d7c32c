"""`appliance setup` and `appliance doctor`.

They own the order of things, tables and JSON; questions are asked in `setup_ask`; probing, judging, writing and
examining are done in `appliance.setup`. Setup is, with `models pull`, the one command that opens a connection, and
only after its tier was found to fit.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from appliance.errors import MissingError, UsageError

if TYPE_CHECKING:
    from appliance.models.shelf import Shelf
    from appliance.setup.audio_doctor import Loopback
    from appliance.setup.devices import Chosen
    from appliance.setup.doctor import Finding
    from appliance.setup.probe import Machine
    from appliance.setup.verdicts import Verdict
    from appliance.setup.write import Written

Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]


def setup(
    tier: Annotated[str, typer.Option("--tier", metavar="NAME", help="Choose this tier.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing; the recommended tier if none is named.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Look and judge; write and fetch nothing.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Put an edited config aside and write a new one.")] = False,
    as_json: Json = False,
) -> None:
    """Look at this machine, show what each tier would do on it, write the config and fetch the models.

    On a terminal tier, microphone and speaker are chosen on screens.

    Example: appliance setup --tier starter --yes
    """
    from appliance.cli.setup_ask import ask_tier, on_screens
    from appliance.config import tier_path, user_config_path
    from appliance.models.shelf import Shelf
    from appliance.setup.probe import probe
    from appliance.setup.verdicts import judge_all, recommend
    from appliance.setup.write import edited

    if tier:
        tier_path(tier)
    shelf = Shelf()
    machine = probe(shelf.root)
    verdicts = judge_all(machine, shelf)
    recommended = recommend(verdicts)
    if as_json:
        _print_json(machine, verdicts, recommended)
    else:
        _print_machine(machine, to_stdout=dry_run)
        _print_verdicts(verdicts, recommended, to_stdout=dry_run)
    if dry_run:
        if tier:
            _chosen(verdicts, tier)
        return
    guided = not (tier or yes or as_json)
    name = tier or (recommended if yes else ask_tier(verdicts, recommended))
    if not name:
        raise MissingError("no tier fits this machine", "appliance plan tiers shows what each one needs")
    verdict = _chosen(verdicts, name)
    path = user_config_path()
    by_hand = edited(path)
    if by_hand and not replace and not yes and sys.stdin.isatty():
        replace = typer.confirm(f"{path} was edited. Put it aside and write a new one?", default=False, err=True)
    devices = _devices(path, name, ask=guided and (replace or not by_hand), keep=not by_hand)
    written = _write(path, name, machine, devices, replace=replace)
    _say(f"config: {written.path}" + ("" if written.changed else " (as it was)"))
    if written.backup is not None:
        _say(f"the one before: {written.backup}")
    _pull(name, verdict, shelf, screen=guided and on_screens())
    _say("ready: appliance run, or first appliance doctor")


def doctor(
    tier: Annotated[str, typer.Option("--tier", metavar="NAME", help="Examine this tier.")] = "",
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Examine this config.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Do not load the engines.")] = False,
    sound: Annotated[bool, typer.Option(help="Check devices; plays a soft sweep for a second.")] = True,
    write: Annotated[bool, typer.Option("--write", help="Write the measured echo delay into the config.")] = False,
    as_json: Json = False,
) -> None:
    """Check config, models, memory, disk, permissions, sound, and load each engine in a process of its own.

    Example: appliance doctor --quick --write
    """
    from appliance.setup.doctor import Result, examine

    if write and (tier or not sound):
        raise UsageError("--write wants a config and its sound", "leave out --tier and --no-sound")
    findings = []
    swept: dict[str, Loopback] = {}
    for finding in examine(config, tier or None, engines=not quick, sound=sound, measured=swept.__setitem__):
        findings.append(finding)
        if not as_json:
            _print_finding(finding)
    failed = sum(finding.result is Result.FAILED for finding in findings)
    if as_json:
        print(json.dumps({"ok": failed == 0, "findings": [asdict(finding) for finding in findings]}))
    if write:
        _write_echo(config, swept)
    if failed:
        raise typer.Exit(1)


def _write_echo(config_file: Path | None, swept: "dict[str, Loopback]") -> None:
    """The measured delay of each station into its config, and half duplex where the sweep said so."""
    from appliance.config import load, user_config_path
    from appliance.setup.fit import spelled
    from appliance.setup.write import write_echo

    path = config_file or user_config_path()
    for name, loopback in swept.items():
        stations = load(path).stations
        now = next(station.echo.mode for station in stations if station.name == name)
        echo: dict[str, float | str] = {"delay_ms": float(round(loopback.delay_ms))}
        if loopback.advice == "half-duplex":
            echo["mode"] = loopback.advice
        elif now == "half-duplex":
            echo["mode"] = "auto"
        written = write_echo(path, name, echo, spelled(stations))
        if written.backup is not None:
            _say(f"the config before: {written.backup}")
    _say(f"config: {path}" if swept else "config: as it was, no echo was heard")


def _chosen(verdicts: "list[Verdict]", name: str) -> "Verdict":
    """The verdict on `name`. Raises MissingError when it does not fit: nothing is fetched for such a tier."""
    from appliance.setup.verdicts import NO

    verdict = next((each for each in verdicts if each.name == name), None)
    if verdict is None:
        raise UsageError(f"there is no tier {name!r}", f"one of {', '.join(each.name for each in verdicts)}")
    if verdict.verdict == NO:
        raise MissingError(f"tier {name} does not fit this machine: {verdict.why}", "appliance setup --dry-run")
    return verdict


def _devices(path: Path, tier: str, *, ask: bool, keep: bool) -> "Chosen":
    """Microphone and speaker: those of the config at `path`, unless a person who is asked says otherwise.

    Unasked they hold for another tier too, but a config that was edited is put aside whole.
    """
    from appliance.cli.setup_ask import ask_devices
    from appliance.config import load
    from appliance.setup.devices import of, present

    usual, there = of(load(tier=tier)), present(path)
    if ask:
        return ask_devices(there or usual)
    return there if keep and there is not None else usual


def _write(path: Path, name: str, machine: "Machine", devices: "Chosen", *, replace: bool) -> "Written":
    from appliance.config import load
    from appliance.setup.devices import echo_of
    from appliance.setup.fit import differences, stations
    from appliance.setup.write import write_config

    config = load(tier=name)
    differing = {**differences(config, machine), "stations": stations(config, devices, echo_of(path, devices))}
    return write_config(path, name, differing, replace_edited=replace)


def _pull(name: str, verdict: "Verdict", shelf: "Shelf", *, screen: bool) -> None:
    from appliance.capacity.text import plain_size
    from appliance.cli.models import pull
    from appliance.cli.setup_ask import fetch
    from appliance.config import load

    ids = list(load(tier=name).models.ids())
    if screen and shelf.missing(ids):
        fetch(shelf, name, ids)
        return
    if verdict.download_bytes:
        _say(f"fetching {plain_size(verdict.download_bytes)}")
    pull(ids, None)


def _print_json(machine: "Machine", verdicts: "list[Verdict]", recommended: str | None) -> None:
    facts: dict[str, Any] = asdict(machine)
    print(
        json.dumps(
            {"machine": facts, "tiers": [verdict.as_dict() for verdict in verdicts], "recommended": recommended},
            ensure_ascii=False,
        )
    )


def _print_machine(machine: "Machine", *, to_stdout: bool) -> None:
    from appliance.capacity.text import plain_size

    audio = "no sound library" if machine.inputs is None else f"{machine.inputs} inputs, {machine.outputs} outputs"
    gpus = ", ".join(f"{gpu.name} with {plain_size(gpu.free_bytes)} free" for gpu in machine.gpus) or "no GPU"
    line = (
        f"{machine.system}, {machine.cores} cores, {plain_size(machine.ram_free_bytes)} of "
        f"{plain_size(machine.ram_total_bytes)} RAM free, {plain_size(machine.disk_free_bytes)} of disk free, "
        f"{gpus}, {audio}"
    )
    print(line, file=sys.stdout if to_stdout else sys.stderr)


def _print_verdicts(verdicts: "list[Verdict]", recommended: str | None, *, to_stdout: bool) -> None:
    from rich.console import Console

    from appliance.capacity.text import plain_size

    console = Console(stderr=not to_stdout, highlight=False)
    for verdict in verdicts:
        star = "  (recommended)" if verdict.name == recommended else ""
        console.print(f"\n[bold]{verdict.name}[/bold]: {verdict.verdict}{star}", soft_wrap=True)
        if verdict.summary:
            console.print(f"  {verdict.summary}", markup=False, soft_wrap=True)
        for line in verdict.lines:
            console.print(f"  {line}", markup=False, soft_wrap=True)
        if verdict.v2v_ms is not None:
            people = "1 session" if verdict.sessions == 1 else f"{verdict.sessions} sessions"
            expected = f"about {verdict.v2v_ms:.0f} ms voice to voice at p95"
            fetch = f"{plain_size(verdict.download_bytes)} to fetch" if verdict.download_bytes else "nothing to fetch"
            console.print(f"  expected: {people}, {expected}; {fetch}", markup=False, soft_wrap=True)
    console.print()


def _print_finding(finding: "Finding") -> None:
    print(f"{finding.result.value:>7}  {finding.check}: {finding.detail}", flush=True)
    if finding.hint:
        print(f"         hint: {finding.hint}", flush=True)


def _say(text: str) -> None:
    print(text, file=sys.stderr)
