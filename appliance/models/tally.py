"""How far a pull is: what has arrived of each model and of the whole, how fast, how long it will still take.

Owns sums over `Progress` steps, which come from the working thread while another one reads. Draws nothing.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from appliance.models.progress import Progress
from appliance.models.shelf import FileState, Shelf

_WINDOW_S = 5.0  # the rate is that of the last seconds: a person wants to know about now
_GRAIN_S = 0.1  # between two marks of the rate
_SURE_S = 0.5  # no rate from less than this


@dataclass(frozen=True, slots=True)
class Arrived:
    """One model. `total_bytes` is 0 while unknown."""

    model_id: str
    done_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class Standing:
    """Everything at one moment. `rate` is in bytes per second; it and `left_s` are None while they cannot be said."""

    models: tuple[Arrived, ...]
    current: str = ""  # model/file
    rate: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def done_bytes(self) -> int:
        return sum(model.done_bytes for model in self.models)

    @property
    def total_bytes(self) -> int:
        return sum(model.total_bytes for model in self.models)

    @property
    def left_s(self) -> float | None:
        missing = max(0, self.total_bytes - self.done_bytes)
        return missing / self.rate if self.rate else None


class Tally:
    """Feed it every step; ask `standing` from any thread. Models are known by id with their size beforehand."""

    def __init__(self, sizes: Iterable[Arrived], now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._guard = threading.Lock()
        known = list(sizes)
        self._here = {each.model_id: each.done_bytes for each in known}  # before the pull
        self._totals = {each.model_id: each.total_bytes for each in known}
        self._files: dict[str, dict[str, int]] = {}
        self._expected: dict[str, dict[str, int]] = {}
        self._current = ""
        self._gained = 0
        self._marks: deque[tuple[float, int]] = deque()
        self._notes: deque[str] = deque(maxlen=8)

    def feed(self, step: Progress) -> None:
        with self._guard:
            if step.note:
                self._notes.append(step.note)
                return
            self._current = f"{step.model_id}/{step.name}"
            files = self._files.setdefault(step.model_id, {})
            # What was here when a file was taken up, or is hashed from its beginning again, did not arrive now.
            self._gained += max(0, step.done_bytes - files.get(step.name, step.done_bytes))
            files[step.name] = step.done_bytes
            self._expected.setdefault(step.model_id, {})[step.name] = step.total_bytes
            self._mark()

    def standing(self) -> Standing:
        with self._guard:
            ids = dict.fromkeys((*self._totals, *self._files))
            return Standing(
                tuple(self._arrived(model_id) for model_id in ids), self._current, self._rate(), tuple(self._notes)
            )

    def _arrived(self, model_id: str) -> Arrived:
        done = self._here.get(model_id, 0) + sum(self._files.get(model_id, {}).values())
        total = self._totals.get(model_id) or sum(self._expected.get(model_id, {}).values())
        return Arrived(model_id, min(done, total) if total else done, total)

    def _mark(self) -> None:
        at = self._now()
        if not self._marks or at - self._marks[-1][0] >= _GRAIN_S:
            self._marks.append((at, self._gained))
        while len(self._marks) > 1 and at - self._marks[1][0] > _WINDOW_S:
            self._marks.popleft()

    def _rate(self) -> float | None:
        """Over the window until now: a source that stalls becomes slow, and then has none."""
        at = self._now()
        begun = next((mark for mark in self._marks if at - mark[0] <= _WINDOW_S), None)
        if begun is None or at - begun[0] < _SURE_S or self._gained == begun[1]:
            return None
        return (self._gained - begun[1]) / (at - begun[0])


def missing(shelf: Shelf, names: Iterable[str]) -> list[Arrived]:
    """The models that a pull of `names` will fetch, with what of each is here already. Hashes nothing."""
    found = []
    for model_id in shelf.missing(names):
        model = shelf.manifest.model(model_id)
        # A file whose hash has not been taken yet tells its steps itself.
        here = sum(file.size for file in model.files if shelf.glance(model, file).state is FileState.READY)
        found.append(Arrived(model_id, here, model.size))
    return found
