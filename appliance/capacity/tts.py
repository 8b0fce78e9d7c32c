"""From a measured safe capacity to replicas and money, and what "safe" means.

Owns the arithmetic of `appliance plan tts` and the verdict on a measured load point, which `appliance bench load`
reports too. It measures nothing itself.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from appliance.capacity.fleet import ceil
from appliance.errors import UsageError


@dataclass(frozen=True, slots=True)
class SafeLimits:
    """A load is safe when every condition holds. Starvation counts from the first byte, with no jitter buffer."""

    success: float = 0.99
    first_audio_ms_p95: float = 300.0
    starvation_ms_p95: float = 100.0


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """One measured condition: `load` requests in flight (closed loop) or arrivals a second (open loop)."""

    load: float
    requests: int
    failed: int
    first_audio_ms_p95: float
    starvation_ms_p95: float


@dataclass(frozen=True, slots=True)
class TtsPlan:
    replicas: int
    replicas_by_utilisation: int
    cost_per_hour: float
    cost_per_hour_by_utilisation: float


def is_safe(point: LoadPoint, limits: SafeLimits) -> bool:
    if point.requests <= 0:
        return False
    served = (point.requests - point.failed) / point.requests
    return (
        served >= limits.success
        and point.first_audio_ms_p95 <= limits.first_audio_ms_p95
        and point.starvation_ms_p95 <= limits.starvation_ms_p95
    )


def safe_capacity(points: Sequence[LoadPoint], limits: SafeLimits) -> float:
    """The highest load up to which every measured point is safe; 0 when none is."""
    safe = 0.0
    for point in sorted(points, key=lambda each: each.load):
        if not is_safe(point, limits):
            break
        safe = point.load
    return safe


def plan_tts(
    safe: float, target: float, *, headroom: float = 1.4, utilisation: float = 0.6, price_per_hour: float = 0.0
) -> TtsPlan:
    """Replicas for `target` requests at once, by a headroom factor and by utilisation.

    replicas = ceil(target / safe × headroom); by utilisation = ceil(target / safe / utilisation).
    Raises UsageError for numbers that make no sense.
    """
    for value, name in ((safe, "safe capacity"), (target, "target"), (headroom, "headroom")):
        if not math.isfinite(value) or value <= 0:
            raise UsageError(f"the {name} must be above 0, not {value:g}", "give a positive number")
    if headroom < 1:
        raise UsageError(f"a headroom of {headroom:g} is less than the load itself", "give a factor such as 1.4")
    if not 0 < utilisation < 1:
        raise UsageError(f"a utilisation of {utilisation:g} cannot be planned", "give a share between 0 and 1")
    if not math.isfinite(price_per_hour) or price_per_hour < 0:
        raise UsageError(f"a price of {price_per_hour:g} an hour makes no sense", "give 0 or more")
    replicas = ceil(target / safe * headroom)
    by_utilisation = ceil(target / safe / utilisation)
    return TtsPlan(replicas, by_utilisation, replicas * price_per_hour, by_utilisation * price_per_hour)
