"""The ledger of KV cells: who holds how many, who was promised how many, what is left.

Pure arithmetic. A session's hold is the larger of what it uses and what its running turn was promised; the shared
prefix counts once. It does not know where cells lie or what they mean.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class _Hold:
    used: int = 0
    reserved: int = 0

    @property
    def cells(self) -> int:
        return max(self.used, self.reserved)


class Cells:
    """`total` cells, `prefix` of them shared by all, at most `share` for one session beside the prefix."""

    def __init__(self, total: int, prefix: int, share: int) -> None:
        self.total, self.prefix, self.share = total, prefix, share
        self._holds: dict[str, _Hold] = {}
        self._sum = 0

    @property
    def used(self) -> int:
        """Private cells in use, the prefix not counted."""
        return sum(hold.used for hold in self._holds.values())

    @property
    def reserved(self) -> int:
        """Cells promised beyond those in use."""
        return self._sum - self.used

    @property
    def free(self) -> int:
        return self.total - self.prefix - self._sum

    def held(self, name: str) -> int:
        hold = self._holds.get(name)
        return hold.cells if hold else 0

    def holds(self) -> tuple[tuple[str, int], ...]:
        """Everyone who holds any cells, and how many."""
        return tuple((name, hold.cells) for name, hold in self._holds.items() if hold.cells)

    def reserve(self, name: str, cells: int) -> bool:
        """Promise `name` room for `cells` in all; False (and nothing changed) when they are not there."""
        if cells > self.share:
            return False
        hold = self._holds.get(name) or _Hold()
        growth = max(hold.used, cells) - hold.cells
        if growth > self.free:
            return False
        hold.reserved = cells
        self._holds[name] = hold
        self._sum += growth
        return True

    def release(self, name: str) -> None:
        """The turn is over: only what `name` uses stays held."""
        self._change(name, reserved=0)

    def use(self, name: str, cells: int) -> None:
        """`name` now uses `cells`."""
        self._change(name, used=cells)

    def forget(self, name: str) -> None:
        hold = self._holds.pop(name, None)
        if hold is not None:
            self._sum -= hold.cells

    def _change(self, name: str, *, used: int | None = None, reserved: int | None = None) -> None:
        hold = self._holds.setdefault(name, _Hold())
        before = hold.cells
        if used is not None:
            hold.used = used
        if reserved is not None:
            hold.reserved = reserved
        self._sum += hold.cells - before
