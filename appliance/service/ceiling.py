"""How many sessions this box may hold with these settings: memory and speed, whichever is smaller.

It joins the memory sum of set-up with the speed limit of a calibration and with what a load test saw. It loads nothing.
"""

from appliance.capacity.cap import Cap, smaller
from appliance.capacity.predict import Calibration, TurnProfile, largest
from appliance.config import Config
from appliance.setup.sums import TierSum


def ceiling(config: Config, memory: TierSum, calibration: Calibration) -> Cap:
    """The cap with its sum written out. `memory`: taken before anything was loaded."""
    objectives = config.objectives
    sessions, at = largest(
        calibration,
        TurnProfile(),
        v2v_ms_p95=objectives.v2v_ms_p95,
        starvation_ms_p95=objectives.starvation_ms_p95,
    )
    line = (
        f"{sessions:>9}  sessions by speed: predicted voice-to-voice p95 {at.v2v_ms_p95:.0f} ms of "
        f"{objectives.v2v_ms_p95:.0f}, starvation p95 {at.starvation_ms_p95:.0f} ms"
    )
    # One person is always let in: a slow box is slow, not closed.
    limits = [Cap(max(1, sessions), "speed", (line,))]
    if calibration.carried is not None:
        seen = f"{calibration.carried:>9}  sessions by load test: with more of them it missed its objective"
        limits.append(Cap(max(1, calibration.carried), "load test", (seen,)))
    return smaller(memory.cap, *limits)
