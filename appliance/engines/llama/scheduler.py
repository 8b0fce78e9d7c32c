"""What the next step evaluates. Pure: lanes and limits in, token counts out.

Every answer being written gets one token; what is left of the batch goes to prompts, in a budget that shrinks while
someone is being spoken to or waits for sound. It does not know models, sessions or time; the caller tells how many
tokens a step can take in the time a listener would not notice.
"""

from collections.abc import Sequence
from dataclasses import dataclass

URGENT, DRAFT, IDLE = 0, 1, 2
PATIENCE = 8  # steps after which a skipped answer is served before all others


@dataclass(frozen=True, slots=True)
class Lane:
    """One turn that wants work. `prompt` tokens are still to be read; 0 means that it is writing.

    `rows` of logits are needed at most in one step (2 for a prompt that also asks for the end of turn). `fresh`: its
    first clause is not out yet. `skipped`: steps since it last advanced. `arrival` orders equals.
    """

    key: int
    prompt: int
    urgency: int = URGENT
    arrival: int = 0
    rows: int = 1
    fresh: bool = False
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """`batch` tokens and `rows` of logits a step. Prompt budgets in tokens: `quiet` while no answer is being
    written, `busy` while one is, and of these at most `background` for drafts and idle work (a quarter of it while
    someone waits for sound). `later_every`: while someone waits for a first clause, older answers advance in every
    n-th step only.
    """

    batch: int
    rows: int
    quiet: int
    busy: int
    background: int
    later_every: int = 1


@dataclass(frozen=True, slots=True)
class Share:
    key: int
    tokens: int


def plan(lanes: Sequence[Lane], limits: Limits) -> list[Share]:
    """The next step: at most `batch` tokens and `rows` rows; writing lanes first. Empty when there is no work."""
    writing = [lane for lane in lanes if lane.prompt == 0]
    prompts = [lane for lane in lanes if lane.prompt > 0]
    waited_for = any(
        lane.urgency == URGENT and (lane.fresh if lane.prompt == 0 else True) for lane in (*writing, *prompts)
    )
    shares, room, rows = [], limits.batch, limits.rows
    for lane in sorted(writing, key=_writing_order):
        every = 1
        if waited_for and not (lane.fresh and lane.urgency == URGENT):
            every = PATIENCE if lane.urgency == IDLE else limits.later_every
        if lane.skipped + 1 < every or room < 1 or rows < lane.rows:
            continue
        shares.append(Share(lane.key, 1))
        room, rows = room - 1, rows - lane.rows
    budget = min(room, limits.busy if any(lane.urgency != IDLE for lane in writing) else limits.quiet)
    background = max(1, limits.background // 4) if waited_for else limits.background
    for urgency in (URGENT, DRAFT, IDLE):
        equals = [lane for lane in prompts if lane.urgency == urgency]
        granted = _among(equals, budget if urgency == URGENT else min(budget, background), rows)
        used = sum(share.tokens for share in granted)
        budget -= used
        background -= used if urgency != URGENT else 0
        rows -= sum(lane.rows for lane in equals if any(share.key == lane.key for share in granted))
        shares += granted
    return shares


def _writing_order(lane: Lane) -> tuple[bool, int, bool, int, int]:
    return (lane.skipped < PATIENCE, lane.urgency, not lane.fresh, -lane.skipped, lane.arrival)


def _among(equals: Sequence[Lane], budget: int, rows: int) -> list[Share]:
    """The oldest prompt has half of the budget and the rest goes to the shortest first: short turns answer quickly,
    and the oldest always advances.
    """
    if not equals:
        return []
    oldest = min(equals, key=lambda lane: lane.arrival)
    order = [oldest, *sorted(equals, key=lambda lane: (lane.prompt, lane.arrival)), oldest]
    granted: dict[int, int] = {}
    for place, lane in enumerate(order):
        if budget < 1:
            break
        if lane.key not in granted:
            if rows < lane.rows:
                continue
            rows -= lane.rows
            granted[lane.key] = 0
        most = (budget + 1) // 2 if place == 0 and len(equals) > 1 else budget
        tokens = min(lane.prompt - granted[lane.key], most)
        granted[lane.key] += tokens
        budget -= tokens
    return [Share(key, tokens) for key, tokens in granted.items() if tokens]
