"""Admission against its promises: nobody admitted is ended, nobody waits beyond the bound, the sum always adds up."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from appliance.capacity.limiter import Admitted, CapacitySettings, Limiter, Queued, Refused, Wake, too_long
from appliance.errors import UsageError

SETTINGS = CapacitySettings(queue_length=2, queue_wait_s=100.0, session_s=60.0)


def test_admits_to_the_cap_then_queues_then_refuses() -> None:
    limiter = Limiter(SETTINGS, cap=2)
    assert limiter.ask(0, "a") == Admitted("a")
    assert limiter.ask(0, "b") == Admitted("b")
    # Departures come every 60 / 2 seconds.
    assert limiter.ask(0, "c") == Queued("c", 1, 30.0)
    assert limiter.ask(0, "d") == Queued("d", 2, 60.0)
    refused = limiter.ask(0, "e")
    assert isinstance(refused, Refused)
    assert "queue is full" in refused.reason
    assert refused.retry_after_s == 90.0
    assert limiter.refused == 1


def test_asking_again_repeats_the_answer() -> None:
    limiter = Limiter(SETTINGS, cap=1)
    assert limiter.ask(0, "a") == limiter.ask(5, "a") == Admitted("a")
    assert limiter.ask(6, "b") == limiter.ask(7, "b") == Queued("b", 1, 60.0)
    assert (limiter.sessions, limiter.queued) == (1, 1)


def test_a_place_that_comes_free_goes_to_the_first_in_the_queue() -> None:
    limiter = Limiter(SETTINGS, cap=1)
    for name in "abc":
        limiter.ask(0, name)
    assert limiter.release(10, "a") == ("b",)
    assert limiter.ask(10, "b") == Admitted("b")
    assert limiter.ask(10, "c").position == 1  # type: ignore[union-attr]
    # Giving up in the queue admits nobody, and moves the others up.
    limiter.ask(10, "d")
    assert limiter.release(11, "c") == ()
    assert limiter.ask(11, "d").position == 1  # type: ignore[union-attr]


def test_a_wait_beyond_the_bound_is_refused_at_once() -> None:
    limiter = Limiter(CapacitySettings(queue_length=50, queue_wait_s=25.0, session_s=60.0), cap=6)
    for i in range(6):
        limiter.ask(0, f"in{i}")
    assert [type(limiter.ask(0, f"w{i}")) for i in range(3)] == [Queued, Queued, Refused]
    refused = limiter.ask(0, "late")
    assert isinstance(refused, Refused)
    assert refused.reason == "the wait would be about 30 seconds"


def test_whoever_has_waited_too_long_is_told() -> None:
    limiter = Limiter(SETTINGS, cap=1)
    limiter.ask(0, "a")
    limiter.ask(1, "b")
    assert limiter.expire(101) == ()
    expired = limiter.expire(102)
    assert [refused.session for refused in expired] == ["b"]
    assert limiter.queued == 0
    assert limiter.oldest_wait_s(102) == 0


def test_closing_refuses_newcomers_and_ends_nobody() -> None:
    limiter = Limiter(SETTINGS, cap=2)
    limiter.ask(0, "a")
    limiter.close("the appliance is being stopped")
    refused = limiter.ask(1, "b")
    assert isinstance(refused, Refused)
    assert refused.reason == "the appliance is being stopped"
    assert limiter.begin_turn("a") == Wake(restore=False)
    assert limiter.reopen(2) == ()
    assert limiter.ask(3, "b") == Admitted("b")


def test_a_smaller_cap_ends_nobody_and_a_larger_one_admits() -> None:
    limiter = Limiter(SETTINGS, cap=2)
    for name in "abc":
        limiter.ask(0, name)
    assert limiter.set_cap(1, 1) == ()
    assert limiter.sessions == 2
    assert limiter.release(2, "a") == ()  # still as many as the cap allows
    assert limiter.set_cap(3, 2) == ("c",)


def test_no_room_at_all_is_a_refusal() -> None:
    refused = Limiter(SETTINGS, cap=0).ask(0, "a")
    assert isinstance(refused, Refused)
    assert "no room" in refused.reason


def test_the_longest_idle_session_is_parked_for_a_turn_and_restored_for_its_own() -> None:
    limiter = Limiter(CapacitySettings(hot_factor=2.0), cap=2)
    for name in "abc":
        assert limiter.ask(0, name) == Admitted(name)
    for name in "ab":
        assert limiter.begin_turn(name) == Wake(restore=False)
        assert limiter.end_turn(name) == ()
    assert limiter.begin_turn("c") == Wake(restore=False, park=("a",))
    assert limiter.begin_turn("a") == Wake(restore=True, park=("b",))
    # All hot sessions are in a turn: nothing can be parked, and the turn is not refused.
    assert limiter.begin_turn("b") == Wake(restore=True)
    assert limiter.hot == 3
    assert limiter.end_turn("c") == ("c",)
    assert limiter.hot == 2
    limiter.end_turn("a")
    assert limiter.idle() == ("a",)
    limiter.parked("a")
    assert limiter.begin_turn("a").restore


def test_the_installers_own_cap_counts() -> None:
    assert Limiter(CapacitySettings(max_sessions=3, hot_factor=4.0), cap=2).live_cap == 3


def test_measured_sessions_change_the_expected_wait_slowly() -> None:
    limiter = Limiter(SETTINGS, cap=1)
    limiter.ask(0, "a")
    limiter.release(10, "a")
    limiter.ask(10, "b")
    assert limiter.ask(10, "c") == Queued("c", 1, 50.0)  # 60 + 0.2 × (10 - 60)


def test_sessions_that_hold_more_than_their_share_come_longest_first() -> None:
    held = {"a": 2048, "b": 4097, "c": 5000, "d": 10}
    assert too_long(held, 2048, CapacitySettings(long_shares=2.0)) == ("c", "b")


@pytest.mark.parametrize(
    "broken", [CapacitySettings(hot_factor=0.5), CapacitySettings(queue_length=-1), CapacitySettings(session_s=0)]
)
def test_senseless_settings_are_refused(broken: CapacitySettings) -> None:
    with pytest.raises(UsageError):
        Limiter(broken, 2)


class Service(RuleBasedStateMachine):
    """Any order of arrivals, departures, turns and changes of the cap."""

    names = st.sampled_from([f"s{i}" for i in range(9)])

    def __init__(self) -> None:
        super().__init__()
        self.settings = CapacitySettings(queue_length=3, queue_wait_s=50.0, session_s=30.0, hot_factor=1.5)
        self.limiter = Limiter(self.settings, 3)
        self.now = 0.0
        self.admitted: set[str] = set()
        self.waiting: list[str] = []
        self.in_turn: set[str] = set()
        self.parked: set[str] = set()
        self.closed = False

    @rule(seconds=st.floats(0, 30))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(name=names)
    def somebody_asks(self, name: str) -> None:
        known = name in self.admitted or name in self.waiting
        decision = self.limiter.ask(self.now, name)
        if isinstance(decision, Admitted):
            assert name in self.admitted or not self.waiting, "nobody overtakes the queue"
            assert known or not self.closed
            self.admitted.add(name)
        elif isinstance(decision, Queued):
            if name not in self.waiting:
                self.waiting.append(name)
            assert self.waiting.index(name) == decision.position - 1
            assert known or decision.expected_wait_s <= self.settings.queue_wait_s
        else:
            assert not known, "whoever was let in or queued is not refused by asking again"
            assert decision.retry_after_s > 0
            assert decision.reason

    @rule(name=names)
    def somebody_leaves(self, name: str) -> None:
        came = self.limiter.release(self.now, name)
        self.admitted.discard(name)
        self.in_turn.discard(name)
        self.parked.discard(name)
        if name in self.waiting:
            self.waiting.remove(name)
        self.let_in(came)

    @rule(cap=st.integers(0, 5))
    def the_cap_moves(self, cap: int) -> None:
        self.let_in(self.limiter.set_cap(self.now, cap))

    @rule()
    def the_door_closes(self) -> None:
        self.limiter.close("closed")
        self.closed = True

    @rule()
    def the_door_opens(self) -> None:
        self.closed = False
        self.let_in(self.limiter.reopen(self.now))

    @rule()
    def patience_ends(self) -> None:
        for refused in self.limiter.expire(self.now):
            self.waiting.remove(refused.session)

    @precondition(lambda self: self.admitted)
    @rule(data=st.data())
    def a_turn_begins(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.admitted)))
        wake = self.limiter.begin_turn(name)
        assert wake.restore == (name in self.parked)
        self.in_turn.add(name)
        self.parked.discard(name)
        self.park(wake.park)

    @precondition(lambda self: self.in_turn)
    @rule(data=st.data())
    def a_turn_ends(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.in_turn)))
        self.in_turn.discard(name)
        self.park(self.limiter.end_turn(name))

    def park(self, names: tuple[str, ...]) -> None:
        assert not set(names) & self.in_turn, "nobody is parked while they are being answered"
        assert not set(names) & self.parked
        self.parked |= set(names)

    def let_in(self, names: tuple[str, ...]) -> None:
        assert list(names) == self.waiting[: len(names)], "first come, first served"
        assert not names or not self.closed
        self.waiting = self.waiting[len(names) :]
        self.admitted |= set(names)

    @invariant()
    def the_books_agree(self) -> None:
        assert self.limiter.sessions == len(self.admitted)
        assert self.limiter.queued == len(self.waiting) <= self.settings.queue_length
        assert self.limiter.oldest_wait_s(self.now) >= 0


Service.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestService = Service.TestCase
