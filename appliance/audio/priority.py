"""Ask the system not to let sound wait behind other work. Owns nothing; where it is not allowed, nothing happens."""

import contextlib
import os
import threading

_REALTIME = 5  # of 1..99: before everything ordinary, behind what a sound server takes for itself
_NICE = -11  # what sound servers use where real-time scheduling is refused


def prefer_this_thread(*, realtime: bool) -> None:
    """Raise the calling thread: to real-time round robin, else to a better nice value. Linux only.

    Allowed to root, or with RLIMIT_RTPRIO (systemd: LimitRTPRIO) and RLIMIT_NICE.
    """
    if realtime and hasattr(os, "sched_setscheduler"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(_REALTIME))
            return
    if hasattr(os, "setpriority"):
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
