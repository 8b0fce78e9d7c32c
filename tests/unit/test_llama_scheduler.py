"""The step planner's promises, for any set of lanes."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from appliance.engines.llama.scheduler import DRAFT, IDLE, PATIENCE, URGENT, Lane, Limits, plan

LIMITS = Limits(batch=512, rows=40, quiet=256, busy=128, background=64, later_every=2)


@st.composite
def lanes(draw: st.DrawFn, most: int = 12) -> list[Lane]:
    count = draw(st.integers(0, most))
    return [
        Lane(
            key=key,
            prompt=draw(st.one_of(st.just(0), st.integers(1, 3000))),
            urgency=draw(st.sampled_from([URGENT, DRAFT, IDLE])),
            arrival=draw(st.integers(0, 100)),
            rows=draw(st.integers(1, 2)),
            fresh=draw(st.booleans()),
            skipped=draw(st.integers(0, 20)),
        )
        for key in range(count)
    ]


@st.composite
def limits(draw: st.DrawFn) -> Limits:
    return Limits(
        batch=draw(st.integers(1, 600)),
        rows=draw(st.integers(2, 40)),
        quiet=draw(st.integers(1, 600)),
        busy=draw(st.integers(1, 300)),
        background=draw(st.integers(1, 300)),
        later_every=draw(st.integers(1, 4)),
    )


@given(lanes(), limits())
def test_never_over_the_batch_nor_the_rows(some: list[Lane], limit: Limits) -> None:
    shares = plan(some, limit)
    by_key = {lane.key: lane for lane in some}
    assert sum(share.tokens for share in shares) <= limit.batch
    assert sum(by_key[share.key].rows for share in shares) <= limit.rows
    assert len({share.key for share in shares}) == len(shares)


@given(lanes(), limits())
def test_nobody_gets_more_than_asked_and_answers_get_one(some: list[Lane], limit: Limits) -> None:
    by_key = {lane.key: lane for lane in some}
    for share in plan(some, limit):
        lane = by_key[share.key]
        assert 1 <= share.tokens <= max(1, lane.prompt)


@given(lanes(), limits())
def test_prompts_stay_within_the_budget_of_the_moment(some: list[Lane], limit: Limits) -> None:
    by_key = {lane.key: lane for lane in some}
    prompts = [s for s in plan(some, limit) if by_key[s.key].prompt > 0]
    spoken_to = any(lane.prompt == 0 and lane.urgency != IDLE for lane in some)
    assert sum(s.tokens for s in prompts) <= (limit.busy if spoken_to else limit.quiet)
    behind = [s for s in prompts if by_key[s.key].urgency != URGENT]
    assert sum(s.tokens for s in behind) <= limit.background


@given(lanes(), limits())
def test_there_is_a_step_whenever_there_is_work(some: list[Lane], limit: Limits) -> None:
    waiting_idle = [lane for lane in some if not (lane.prompt == 0 and lane.urgency == IDLE)]
    if any(lane.urgency == URGENT for lane in waiting_idle):
        assert plan(some, limit)


@given(lanes(most=8).filter(bool))
def test_nobody_urgent_starves(some: list[Lane]) -> None:
    """Run the plan until every urgent lane has advanced: within a handful of steps, whatever the others want."""
    now = [replace(lane, skipped=0) for lane in some]
    waiting = {lane.key for lane in now if lane.urgency == URGENT}
    longest = PATIENCE + sum(-(-lane.prompt // (LIMITS.busy // 2)) for lane in now if lane.prompt) + len(now)
    for _ in range(longest):
        shares = {share.key: share.tokens for share in plan(now, LIMITS)}
        waiting -= shares.keys()
        if not waiting:
            return
        now = [
            replace(
                lane,
                prompt=lane.prompt - shares.get(lane.key, 0) if lane.prompt else 0,
                skipped=0 if lane.key in shares else lane.skipped + 1,
            )
            for lane in now
        ]
    raise AssertionError(f"{waiting} never advanced")


def test_every_answer_advances_in_a_step_of_its_own_kind() -> None:
    some = [Lane(i, 0, arrival=i) for i in range(8)]
    assert {share.key for share in plan(some, LIMITS)} == set(range(8))


def test_first_clauses_go_before_later_text() -> None:
    old, new = Lane(0, 0), Lane(1, 0, fresh=True)
    assert [s.key for s in plan([old, new], LIMITS)] == [1]
    assert {s.key for s in plan([replace(old, skipped=1), new], LIMITS)} == {0, 1}


def test_the_oldest_prompt_keeps_half_and_the_shortest_comes_next() -> None:
    long, short, middle = Lane(0, 2000, arrival=0), Lane(1, 20, arrival=1), Lane(2, 100, arrival=2)
    shares = {s.key: s.tokens for s in plan([long, short, middle], LIMITS)}
    assert shares[0] >= LIMITS.quiet // 2
    assert shares[1] == 20
    assert sum(shares.values()) == LIMITS.quiet


def test_drafts_get_a_trickle_while_someone_waits() -> None:
    shares = {s.key: s.tokens for s in plan([Lane(0, 0, fresh=True), Lane(1, 500, DRAFT)], LIMITS)}
    assert shares[1] == LIMITS.background // 4
