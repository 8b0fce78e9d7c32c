"""The cell ledger's arithmetic."""

from hypothesis import given
from hypothesis import strategies as st

from appliance.engines.llama.cells import Cells

OPS = st.lists(
    st.tuples(st.sampled_from(["reserve", "release", "use", "forget"]), st.sampled_from("abc"), st.integers(0, 80)),
    max_size=40,
)


@given(OPS)
def test_the_sum_always_adds_up(ops: list[tuple[str, str, int]]) -> None:
    cells = Cells(total=200, prefix=20, share=70)
    used: dict[str, int] = {}
    reserved: dict[str, int] = {}
    for op, name, count in ops:
        if op == "reserve":
            others = sum(max(used.get(n, 0), reserved.get(n, 0)) for n in "abc" if n != name)
            fits = count <= 70 and others + max(used.get(name, 0), count) <= 180
            # What is held already never has to be found again.
            fits = fits or (count <= 70 and max(used.get(name, 0), count) <= cells.held(name))
            assert cells.reserve(name, count) == fits
            if fits:
                reserved[name] = count
        elif op == "release":
            cells.release(name)
            reserved[name] = 0
        elif op == "use":
            used[name] = min(count, cells.held(name))  # an engine uses what it was promised
            cells.use(name, used[name])
        else:
            cells.forget(name)
            used.pop(name, None)
            reserved.pop(name, None)
        holds = {n: max(used.get(n, 0), reserved.get(n, 0)) for n in "abc"}
        assert cells.free == 180 - sum(holds.values()) >= 0
        assert cells.used == sum(used.values())
        assert dict(cells.holds()) == {name: count for name, count in holds.items() if count}
        assert cells.used + cells.reserved + cells.free + cells.prefix == cells.total


def test_a_promise_over_the_share_is_refused() -> None:
    cells = Cells(total=1000, prefix=0, share=100)
    assert not cells.reserve("a", 101)
    assert cells.free == 1000
    assert cells.reserve("a", 100)


def test_releasing_keeps_what_is_used() -> None:
    cells = Cells(total=100, prefix=10, share=90)
    assert cells.reserve("a", 60)
    cells.use("a", 25)
    cells.release("a")
    assert (cells.free, cells.held("a")) == (65, 25)
