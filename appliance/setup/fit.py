"""What of a tier must differ on this machine: fewer threads than the tier names, fewer sessions than it holds.

Owns those few adjustments, and the stations where a person chose their devices. Everything else stays as the tier
says, so that a later version's better tier reaches the user's config.
"""

from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from typing import Any

from appliance.audio.settings import EchoSettings, StationSettings
from appliance.config import Config
from appliance.setup.devices import Chosen
from appliance.setup.probe import Machine
from appliance.setup.sums import tier_sum

_MOST_THREADS = 8  # more only share the same memory bandwidth


def differences(config: Config, machine: Machine) -> dict[str, dict[str, Any]]:
    """Tables of keys that differ from the tier; empty tables are left out."""
    llm: dict[str, Any] = {}
    on_gpu = config.llm.gpu_layers > 0
    for key in ("threads", "threads_batch"):
        threads = getattr(config.llm, key)
        best = threads if on_gpu else min(_MOST_THREADS, machine.cores)
        if threads != best:
            llm[key] = best
    fit = tier_sum(config, None, machine).cap.sessions
    if 0 < fit < config.llm.sessions:
        llm["sessions"] = fit
    found: dict[str, dict[str, Any]] = {"llm": llm}
    for table in ("asr", "piper", "kokoro", "end_of_turn"):
        if getattr(config, table).threads > machine.cores:
            found[table] = {"threads": machine.cores}
    return {table: keys for table, keys in found.items() if keys}


def stations(config: Config, chosen: Chosen, echo: EchoSettings | None = None) -> list[dict[str, Any]]:
    """The stations of the user's config with the chosen devices in the first; empty where the tier's are the same.

    `echo` is what the doctor wrote of these devices.
    A list in the user's file replaces the tier's, so all of them stand there with everything that is not a default.
    """
    first, *others = config.stations or (StationSettings(),)
    mine = replace(
        first,
        input=replace(first.input, device=chosen.input),
        output=replace(first.output, device=chosen.output),
        echo=echo or first.echo,
    )
    return [] if mine == first else spelled((mine, *others))


def spelled(stations: Iterable[StationSettings]) -> list[dict[str, Any]]:
    """Stations as the user's file has them: everything that is not a default."""
    return [_differing(station, StationSettings()) for station in stations]


def _differing(value: Any, default: Any) -> dict[str, Any]:
    """The fields of a settings dataclass that differ from the default's, nested as the dataclasses are."""
    found: dict[str, Any] = {}
    for each in fields(value):
        mine, usual = getattr(value, each.name), getattr(default, each.name)
        if mine != usual:
            found[each.name] = _differing(mine, usual) if is_dataclass(mine) else mine
    return found
