"""What the next step evaluates. Pure: lanes and limits in, token counts out.

Every answer being written gets one token; what is left of the batch goes to prompts, in a budget that shrinks while
someone is being spoken to. It does not know models, sessions or time; the caller tells how many tokens a step can
take in the time a listener would not notice.
"""

from collections.abc import Sequence
from dataclasses import dataclass

URGENT, DRAFT, IDLE = 0, 1, 2
_PATIENCE = 8  # steps after which a skipped answer is served before all others


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
    """`batch` tokens and `rows` of logits a step. `idle` and `busy` are prompt budgets; `busy` holds while anyone
    is being spoken to. `later_every`: while someone waits for a first clause, older answers advance every n-th step.
    """

    batch: int
    rows: int
    idle: int
    busy: int
    later_every: int = 1


@dataclass(frozen=True, slots=True)
class Share:
    key: int
    tokens: int


def plan(lanes: Sequence[Lane], limits: Limits) -> list[Share]:
    """The next step: at most `batch` tokens and `rows` rows; writing lanes first. Empty when there is no work."""
    writing = [lane for lane in lanes if lane.prompt == 0]
    prompts = [lane for lane in lanes if lane.prompt > 0]
    waited_for = any(lane.fresh for lane in writing) or any(lane.urgency == URGENT for lane in prompts)
    shares, room, rows = [], limits.batch, limits.rows
    for lane in sorted(writing, key=_writing_order):
        late = waited_for and not lane.fresh and lane.skipped + 1 < limits.later_every
        if late or room < 1 or rows < lane.rows:
            continue
        shares.append(Share(lane.key, 1))
        room, rows = room - 1, rows - lane.rows
    budget = min(room, limits.busy if writing else limits.idle)
    return shares + _prompts(prompts, budget, rows)


def _writing_order(lane: Lane) -> tuple[bool, bool, int, int]:
    return (lane.skipped < _PATIENCE, not lane.fresh, -lane.skipped, lane.arrival)


def _prompts(prompts: Sequence[Lane], budget: int, rows: int) -> list[Share]:
    """Urgent before drafts before idle work. Among equals the oldest has half of what is left and the rest goes to
    the shortest first: short turns answer quickly, and the oldest always advances.
    """
    granted: dict[int, int] = {}
    for urgency in sorted({lane.urgency for lane in prompts}):
        equals = [lane for lane in prompts if lane.urgency == urgency]
        oldest = min(equals, key=lambda lane: lane.arrival)
        order = [oldest, *sorted(equals, key=lambda lane: (lane.prompt, lane.arrival)), oldest]
        for turn, lane in enumerate(order):
            if budget < 1:
                break
            if lane.key not in granted:
                if rows < lane.rows:
                    continue
                rows -= lane.rows
                granted[lane.key] = 0
            most = (budget + 1) // 2 if turn == 0 and len(equals) > 1 else budget
            tokens = min(lane.prompt - granted[lane.key], most)
            granted[lane.key] += tokens
            budget -= tokens
    return [Share(key, tokens) for key, tokens in granted.items() if tokens]
