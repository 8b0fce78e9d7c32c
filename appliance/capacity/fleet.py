"""From monthly users to GPUs: every step of a sizing estimate, as plain functions and one walk through them.

Owns the arithmetic of `appliance plan fleet`. It knows nothing of this machine or of a running appliance; the
defaults of `FleetAssumptions` are a published worked example (an 8B model in 16 bits on 80 GB accelerators).
"""

import math
from dataclasses import dataclass, fields

from appliance.capacity.text import plain_size
from appliance.errors import UsageError

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class FleetAssumptions:
    """Everything the estimate rests on. Shares are 0..1."""

    monthly_users: float = 1_000_000
    daily_share: float = 0.20  # of the monthly users come on a day
    sessions_per_user: float = 1.5  # a day
    peak_hour_share: float = 0.10  # of the day's sessions begin in the busiest hour
    session_s: float = 240.0
    turn_s: float = 20.0
    llm_s: float = 1.5  # of a turn the LLM is busy
    asr_s: float = 0.3  # of a turn one ASR worker is busy
    tts_s: float = 0.8  # of a turn one TTS worker is busy
    layers: int = 32
    heads_kv: int = 8
    head_length: int = 128
    kv_element_bytes: float = 2.0
    tokens_per_request: int = 4000
    mean_tokens_held: int = 2000  # a request's context is on average this full while it decodes
    shared_prefix_tokens: int = 2500
    weights_bytes: float = 16e9
    gpu_bytes: float = 80e9
    gpu_kv_bytes: float = 57.5e9  # left for K/V on each GPU beside weights and buffers: 55 to 60 GB of 80
    bandwidth_bytes_s: float = 3.35e12
    tokens_per_s: float = 30.0  # at least, for each request: faster than speech
    utilisation: float = 0.65  # planned at the expected peak
    routed_share: float = 0.70  # of turns that a small model answers
    routed_size: float = 0.25  # the small model's size as a share of the large one's
    peak_ratio: float = 0.01  # rule of thumb: share of daily users present at once
    sessions_per_gpu: float = 100.0  # rule of thumb, from a measured box
    price_per_hour: float = 0.0  # of one GPU


@dataclass(frozen=True, slots=True)
class Pool:
    """One kind of worker, sized on its own. `waiting` is the mean wait in service times at the planned load."""

    name: str
    duty: float
    busy: float
    replicas: int
    waiting: float


@dataclass(frozen=True, slots=True)
class FleetPlan:
    daily_users: float
    sessions_per_day: float
    peak_sessions_per_hour: float
    arrivals_per_s: float
    live_sessions: float
    llm_duty: float
    in_flight: float
    kv_bytes_per_token: float
    kv_gib_per_request: float
    kv_gib_total: float
    shared_private_tokens: int
    shared_saving: float
    kv_gib_total_shared: float
    decode_steps_per_s: float
    gpus_for_memory: int
    gpus_for_speed: int
    gpus: int
    routed_in_flight_large: float
    routed_in_flight_small: float
    answer_hold_s: float
    simple_rule_gpus: int
    cost_per_hour: float
    pools: tuple[Pool, ...]


def live_sessions(arrivals_per_s: float, session_s: float) -> float:
    """Little's law, L = λ W."""
    return arrivals_per_s * session_s


def kv_bytes_per_token(layers: int, heads_kv: int, head_length: int, element_bytes: float) -> float:
    """K and V of one token in a plain GQA model."""
    return 2 * layers * heads_kv * head_length * element_bytes


def decode_steps_per_s(bandwidth_bytes_s: float, weights_bytes: float, kv_bytes: float) -> float:
    """A decode step reads the weights and every live request's K/V once; memory bandwidth bounds it."""
    return bandwidth_bytes_s / (weights_bytes + kv_bytes)


def waiting(utilisation: float) -> float:
    """Mean wait in service times of an M/M/1 queue: ρ / (1 - ρ). Raises UsageError outside 0..1."""
    if not 0 <= utilisation < 1:
        raise UsageError(f"a utilisation of {utilisation:g} cannot be served", "give a share below 1, such as 0.65")
    return utilisation / (1 - utilisation)


def hold_s(tokens: float, tokens_per_s: float) -> float:
    """How long an answer holds its K/V."""
    return tokens / tokens_per_s


def simple_rule(daily_users: float, peak_ratio: float, sessions_per_gpu: float) -> int:
    """The rule of thumb: peak concurrent = daily users × peak ratio; GPUs = ceil(peak / sessions a GPU)."""
    return ceil(daily_users * peak_ratio / sessions_per_gpu)


def ceil(value: float) -> int:
    """Round up, forgiving the last bits of binary fractions: 100 × 1.4 is 140, not 141."""
    return math.ceil(value - 1e-9 * max(1.0, abs(value)))


def plan_fleet(a: FleetAssumptions) -> FleetPlan:
    """Walk the estimate from users to GPUs. Raises UsageError naming the assumption that makes no sense."""
    _check(a)
    daily = a.monthly_users * a.daily_share
    per_day = daily * a.sessions_per_user
    peak = per_day * a.peak_hour_share
    arrivals = peak / 3600
    live = live_sessions(arrivals, a.session_s)
    duty = a.llm_s / a.turn_s
    in_flight = live * duty
    token = kv_bytes_per_token(a.layers, a.heads_kv, a.head_length, a.kv_element_bytes)
    kv_total = in_flight * a.tokens_per_request * token
    private = a.tokens_per_request - a.shared_prefix_tokens
    kv_shared = (in_flight * private + a.shared_prefix_tokens) * token
    for_memory = max(1, ceil(kv_total / a.gpu_kv_bytes))
    for_speed = _gpus_for_speed(a, in_flight, token)
    with_headroom = max(1, ceil(kv_total / a.gpu_kv_bytes / a.utilisation))
    gpus = max(with_headroom, for_speed)
    steps = decode_steps_per_s(
        a.bandwidth_bytes_s, a.weights_bytes, in_flight / for_memory * a.mean_tokens_held * token
    )
    return FleetPlan(
        daily_users=daily,
        sessions_per_day=per_day,
        peak_sessions_per_hour=peak,
        arrivals_per_s=arrivals,
        live_sessions=live,
        llm_duty=duty,
        in_flight=in_flight,
        kv_bytes_per_token=token,
        kv_gib_per_request=a.tokens_per_request * token / GIB,
        kv_gib_total=kv_total / GIB,
        shared_private_tokens=private,
        shared_saving=1 - private / a.tokens_per_request,
        kv_gib_total_shared=kv_shared / GIB,
        decode_steps_per_s=steps,
        gpus_for_memory=for_memory,
        gpus_for_speed=for_speed,
        gpus=gpus,
        routed_in_flight_large=in_flight * (1 - a.routed_share),
        routed_in_flight_small=in_flight * a.routed_share,
        answer_hold_s=hold_s(400, a.tokens_per_s),
        simple_rule_gpus=simple_rule(daily, a.peak_ratio, a.sessions_per_gpu),
        cost_per_hour=gpus * a.price_per_hour,
        pools=tuple(_pool(a, name, busy_s, live) for name, busy_s in _pool_seconds(a)),
    )


def _pool_seconds(a: FleetAssumptions) -> tuple[tuple[str, float], ...]:
    return (("asr", a.asr_s), ("llm", a.llm_s), ("tts", a.tts_s))


def _pool(a: FleetAssumptions, name: str, busy_s: float, live: float) -> Pool:
    duty = busy_s / a.turn_s
    busy = live * duty
    return Pool(name, duty, busy, max(1, ceil(busy / a.utilisation)), waiting(a.utilisation))


def _gpus_for_speed(a: FleetAssumptions, in_flight: float, token: float) -> int:
    """Fewest GPUs on which each step is still quick enough for everyone: bandwidth / (weights + n K/V) ≥ rate."""
    readable = a.bandwidth_bytes_s / a.tokens_per_s - a.weights_bytes
    if readable <= 0:
        raise UsageError(
            f"one GPU cannot read these weights {a.tokens_per_s:g} times a second",
            "give a smaller model, a slower answer or more bandwidth",
        )
    return max(1, ceil(in_flight * a.mean_tokens_held * token / readable))


def _check(a: FleetAssumptions) -> None:
    may_be_zero = {"price_per_hour", "routed_share", "routed_size", "shared_prefix_tokens", "mean_tokens_held"}
    shares = {"daily_share", "peak_hour_share", "routed_share", "routed_size", "peak_ratio"}
    for field in fields(a):
        value, name = getattr(a, field.name), field.name.replace("_", " ")
        if not math.isfinite(value) or value < 0 or (value == 0 and field.name not in may_be_zero):
            raise UsageError(f"the assumption {name} cannot be {value:g}", "give a positive number")
        if field.name in shares and value > 1:
            raise UsageError(f"the assumption {name} is a share, and {value:g} is above 1", "give a number from 0 to 1")
    waiting(a.utilisation)
    if a.shared_prefix_tokens >= a.tokens_per_request:
        raise UsageError(
            f"a shared prefix of {a.shared_prefix_tokens} leaves nothing of {a.tokens_per_request} tokens a request",
            "give a shorter prefix or a longer request",
        )
    if a.gpu_kv_bytes > a.gpu_bytes:
        raise UsageError(
            f"{plain_size(a.gpu_kv_bytes)} for K/V do not fit a GPU of {plain_size(a.gpu_bytes)}",
            "give less for K/V or a larger GPU",
        )
    for name, busy_s in _pool_seconds(a):
        if busy_s > a.turn_s:
            raise UsageError(f"the {name} cannot be busy {busy_s:g} s of a {a.turn_s:g} s turn", "give a longer turn")


ASSUMPTION_HELP = {
    "monthly_users": "People who come at least once a month.",
    "daily_share": "Share of them on a day.",
    "sessions_per_user": "Sessions of one person a day.",
    "peak_hour_share": "Share of the day's sessions that begin in the busiest hour.",
    "session_s": "Length of a session, seconds.",
    "turn_s": "Length of one turn and its answer, seconds.",
    "llm_s": "Seconds of a turn in which the LLM works.",
    "asr_s": "Seconds of a turn in which an ASR worker works.",
    "tts_s": "Seconds of a turn in which a TTS worker works.",
    "layers": "Layers of the model.",
    "heads_kv": "K/V heads.",
    "head_length": "Elements of a head.",
    "kv_element_bytes": "Bytes of one K/V element: 2 for f16, 1.0625 for q8_0.",
    "tokens_per_request": "Tokens a request holds at most.",
    "mean_tokens_held": "Tokens a request holds on average while it decodes.",
    "shared_prefix_tokens": "Tokens of a prefix that all requests share.",
    "weights_bytes": "Bytes of the model's weights.",
    "gpu_bytes": "Memory of one GPU, bytes.",
    "gpu_kv_bytes": "Of it left for K/V, bytes.",
    "bandwidth_bytes_s": "Memory bandwidth of one GPU, bytes a second.",
    "tokens_per_s": "Tokens a second that each request needs.",
    "utilisation": "Planned share of capacity at the expected peak.",
    "routed_share": "Share of turns answered by a small model.",
    "routed_size": "The small model's size as a share of the large one's.",
    "peak_ratio": "Rule of thumb: share of daily users present at once.",
    "sessions_per_gpu": "Rule of thumb: sessions one GPU holds.",
    "price_per_hour": "Price of one GPU and hour.",
}
