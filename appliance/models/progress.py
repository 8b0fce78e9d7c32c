"""What a fetch tells whoever watches it, and the two ways a source can let it down.

Owns small values only; it draws nothing and fetches nothing.
"""

import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import ApplianceError, DiskFullError


@dataclass(frozen=True, slots=True)
class Progress:
    """One step of a pull, bundle or import. `total_bytes` is 0 while unknown; `note` is a sentence worth a line of its
    own (a source that failed, a wait for another pull) and is empty otherwise."""

    model_id: str
    name: str
    done_bytes: int
    total_bytes: int
    note: str = ""


Watch = Callable[[Progress], None]
"""Called often from the working thread. May raise `Cancelled` to stop; the work then cleans up after itself."""


def unwatched(progress: Progress) -> None:
    """A watch that looks away."""


class SourceError(Exception):
    """A source did not deliver; the next one may. `dead` names a host or registry not worth asking again."""

    def __init__(self, reason: str, dead: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.dead = dead


def disk_trouble(error: OSError, what: str, folder: Path) -> ApplianceError | None:
    """The error for a disk that takes no more, or that takes nothing at all; None when it is something else."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFullError(f"no space is left in {folder} for {what}", _room_hint(folder))
    if error.errno == errno.EFBIG:
        return DiskFullError(
            f"the file system of {folder} takes no file as large as {what}",
            "a stick formatted as FAT stops at 4 GB: use exFAT or ext4",
        )
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return ApplianceError(
            f"{folder} cannot be written", "choose another folder with --root, or mend its permissions"
        )
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return ApplianceError(f"{error.filename or folder} is not a folder", "remove it, or choose another with --root")
    return None


def _room_hint(folder: Path) -> str:
    try:
        free = shutil.disk_usage(existing(folder)).free
    except OSError:
        return "make room"
    return f"{human_bytes(free)} are free there; make room and pull again"


def existing(folder: Path) -> Path:
    """The nearest folder above `folder` that exists."""
    folder = Path(os.path.abspath(folder))  # noqa: PTH100 - resolve() would follow links that may not exist yet
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def human_bytes(count: int) -> str:
    """1234567 -> "1.2 MB"."""
    size = float(count)
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{count} bytes" if unit == "bytes" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB" if size < 100 else f"{size:.0f} GB"
