"""What of a tier must differ on this machine: fewer threads than the tier names, fewer sessions than it holds.

Owns those few adjustments. Everything else stays as the tier says, so that a later version's better tier reaches the
user's config.
"""

from typing import Any

from appliance.config import Config
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
