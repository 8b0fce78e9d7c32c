"""Each tier against this machine: the verdict, what to expect, what would be fetched.

Owns the walk from a config and a machine to a `Verdict`. It loads no model and opens no connection.
"""

from dataclasses import asdict, dataclass
from typing import Any

from appliance.capacity import estimate
from appliance.capacity.cap import Cap, configured, smaller
from appliance.capacity.guide import GPUS
from appliance.capacity.kv import kv_budget
from appliance.capacity.predict import Calibration, Prediction, TurnProfile, largest, predict
from appliance.capacity.text import plain_size
from appliance.config import Config, load, tiers
from appliance.errors import ConfigError, UsageError
from appliance.models.shelf import Shelf
from appliance.setup.probe import Machine
from appliance.setup.sums import TierSum, configured_sessions, named_gpu, speech_of, tier_sum

FITS, TIGHT, NO = "fits", "tight", "does not fit"
_GUESS = 1.1  # the speeds are guesses until the box is calibrated: an objective missed by less is no verdict
_TIGHT_SHARE = 0.1  # less than this of the device left over is tight


@dataclass(frozen=True, slots=True)
class Verdict:
    """One tier on this machine. `why` says what is missing, or what is tight; empty when it simply fits."""

    name: str
    summary: str
    verdict: str
    why: str
    sessions: int
    v2v_ms: float | None
    download_bytes: int
    lines: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "lines": [line.strip() for line in self.lines]}


def judge(name: str, config: Config, machine: Machine, shelf: Shelf) -> Verdict:
    """The verdict on one tier. Nothing here raises for a machine that is too small: that is an answer."""
    download = download_bytes(config, shelf)
    needs_gpu = config.llm.gpu_layers > 0 and bool(config.gpu)
    total = tier_sum(config, None, machine if not needs_gpu or machine.gpus else None, shelf)
    asr, tts = speech_of(config, shelf)
    bandwidth = _bandwidth(config, machine) if needs_gpu else 0.0
    speeds = estimate.calibration(total.geometry, machine.cores, bandwidth, asr, tts)
    sessions, expected = _expect(config, total, speeds)
    verdict, why = _verdict(config, machine, total, download, sessions, expected)
    if verdict == NO:
        return Verdict(name, config.summary, NO, why, 0, None, download, (*total.cap.lines, why))
    by_speed = Cap(sessions, "speed", (f"{sessions:>9}  sessions by speed, a guess until the box is calibrated",))
    lines = smaller(total.memory, configured(configured_sessions(config)), by_speed).lines
    if verdict == TIGHT:
        lines = (*lines, why)
    return Verdict(name, config.summary, verdict, why, sessions, round(expected.v2v_ms_p95), download, lines)


def judge_all(machine: Machine, shelf: Shelf) -> list[Verdict]:
    """Every tier, smallest first. A tier file that does not load is left to `appliance doctor`."""
    found = []
    for name in tiers():
        try:
            found.append(judge(name, load(tier=name), machine, shelf))
        except (ConfigError, UsageError) as error:
            found.append(Verdict(name, "", NO, error.message, 0, None, 0, ()))
    return found


def recommend(verdicts: list[Verdict]) -> str | None:
    """The largest tier that fits; else the largest that is tight; None when there is none."""
    for wanted in (FITS, TIGHT):
        for verdict in reversed(verdicts):
            if verdict.verdict == wanted:
                return verdict.name
    return None


def download_bytes(config: Config, shelf: Shelf) -> int:
    """Bytes of this tier's models that are not on the shelf yet."""
    known = [model for model in config.models.ids() if model in shelf.manifest.models]
    return sum(shelf.manifest.models[model].size for model in shelf.missing(known))


def _expect(config: Config, total: TierSum, speeds: Calibration) -> tuple[int, Prediction]:
    """The sessions that memory, config and speed allow, and how they will feel."""
    most = max(1, total.cap.sessions)
    objectives = config.objectives
    by_speed, prediction = largest(
        speeds,
        TurnProfile(),
        v2v_ms_p95=objectives.v2v_ms_p95 * _GUESS,
        starvation_ms_p95=objectives.starvation_ms_p95,
        most=most,
    )
    if by_speed == 0:
        # One session is served all the same, later than the tier promises; the verdict says so.
        return min(1, total.cap.sessions), predict(speeds, TurnProfile(), 1)
    return min(by_speed, total.cap.sessions), prediction


def _verdict(
    config: Config, machine: Machine, total: TierSum, download: int, sessions: int, expected: Prediction
) -> tuple[str, str]:
    missing = _missing(config, machine, total, download, expected)
    if missing:
        return NO, missing
    tight = _tightness(config, total, expected)
    if tight:
        return TIGHT, tight
    wanted = configured_sessions(config)
    return FITS, f"speed allows {sessions} of {wanted} sessions" if sessions < wanted else ""


def _missing(config: Config, machine: Machine, total: TierSum, download: int, expected: Prediction) -> str:
    """Why the tier cannot run here; empty when it can."""
    if config.gpu and config.llm.gpu_layers > 0 and not machine.gpus:
        return f"it needs a GPU such as the {config.gpu}, and none was found"
    if total.cap.sessions == 0:
        return f"{plain_size(total.cap.short_bytes)} of memory are missing for one session"
    if download > machine.disk_free_bytes:
        return f"{plain_size(download - machine.disk_free_bytes)} of disk are missing for the models"
    objective = config.objectives.v2v_ms_p95
    if expected.v2v_ms_p95 > 2 * objective:
        return f"its answers would come after about {expected.v2v_ms_p95:.0f} ms instead of {objective:.0f}"
    return ""


def _tightness(config: Config, total: TierSum, expected: Prediction) -> str:
    """What is scarce though the tier can run; empty when nothing is."""
    objective = config.objectives.v2v_ms_p95
    if expected.v2v_ms_p95 > objective * _GUESS:
        return f"one session, and its answers after about {expected.v2v_ms_p95:.0f} ms instead of {objective:.0f}"
    wanted = configured_sessions(config)
    if total.cap.sessions < wanted:
        return f"memory for {total.cap.sessions} of {wanted} sessions"
    spare = total.room.available_bytes - kv_budget(total.geometry, total.plan).total_bytes - total.room.beside_bytes
    if spare < _TIGHT_SHARE * total.room.available_bytes:
        return f"only {plain_size(spare)} are left over"
    return ""


def _bandwidth(config: Config, machine: Machine) -> float:
    """Of the GPU that is here, by its name; else of the one that the config names."""
    best = machine.best_gpu
    if best is not None:
        for gpu in GPUS:
            if gpu.name.lower() in best.name.lower():
                return gpu.bandwidth_bytes_s
    named = named_gpu(config.gpu)
    return named.bandwidth_bytes_s if named is not None else GPUS[0].bandwidth_bytes_s
