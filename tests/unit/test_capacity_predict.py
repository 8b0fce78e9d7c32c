"""The speed prediction against a discrete-event simulation of the same box: engines, queues and shared cores."""

import heapq
import itertools
import math
import random
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.capacity.predict import Calibration, TurnProfile, engines_cpu_s, largest, predict
from appliance.errors import UsageError

# Speeds in the order of two cores with the tiny pack and with the starter pack, and of a GPU box.
TINY = Calibration(((1, 10.0), (4, 24.0), (8, 36.0)), 350.0, asr_rtf=0.06, tts_rtf=0.11, tts_first_ms=65.0)
STARTER = Calibration(((1, 23.0), (4, 42.0), (8, 80.0)), 130.0, asr_rtf=0.11, tts_rtf=0.11, tts_first_ms=75.0)
GPU = Calibration(
    ((1, 6.0), (8, 8.0), (32, 14.0)), 4000.0, 0.03, 0.03, 40.0, cores=16, asr_threads=4, llm_threads=0, tts_threads=4
)


@dataclass
class Turn:
    session: int
    ended: float
    held: bool
    started: float = 0.0
    tokens: int = 0
    prompt: int = 0
    paused: bool = False  # the first clause is being spoken
    ready: list[float] = field(default_factory=list)


@dataclass
class Job:
    kind: str  # "asr", "tts"
    turn: Turn | None  # None: a draft that is thrown away
    left: float
    sound: bool = True  # the first piece of a clause, which can be played


class Simulation:
    """n sessions in a closed loop. Time in seconds. Engines run jobs to their end; all share the cores."""

    def __init__(self, c: Calibration, p: TurnProfile, sessions: int, seed: int) -> None:
        self.c, self.p, self.random = c, p, random.Random(seed)
        self.now, self.order = 0.0, itertools.count()
        self.timers: list[tuple[float, int, object]] = []
        self.queues: dict[str, list[tuple[int, int, Job]]] = {"asr": [], "tts": []}
        self.running: dict[str, Job | float] = {}  # the LLM's entry is what is left of its step
        self.stepping: list[Turn] = []
        self.chunk: list[Turn] = []
        self.generating: list[Turn] = []
        self.v2v: list[float] = []
        self.starved: list[float] = []
        for session in range(sessions):
            self.at(self.random.uniform(0, 8), lambda s=session: self.speak(s))

    def at(self, when: float, what: object) -> None:
        heapq.heappush(self.timers, (when, next(self.order), what))

    def vary(self, mean: float) -> float:
        sigma = math.sqrt(math.log1p(self.p.spread**2))
        return self.random.lognormvariate(math.log(mean) - sigma**2 / 2, sigma) if self.p.spread else mean

    def speak(self, session: int) -> None:
        p = self.p
        spoken = self.vary(p.speech_s)
        ended = self.now + spoken
        for _ in range(int(p.asr_runs - 1) + (self.random.random() < (p.asr_runs - 1) % 1)):
            self.at(
                self.now + self.random.uniform(0.3, 1) * spoken, lambda: self.queue(Job("asr", None, self.asr()), 10)
            )
        turn = Turn(session, ended, self.random.random() < p.held)
        begin = p.draft_after_ms if turn.held else p.endpoint_ms
        self.at(ended + begin / 1e3, lambda: self.queue(Job("asr", turn, self.asr()), 0))

    def asr(self) -> float:
        return self.vary(self.c.asr_rtf * self.p.speech_s)

    def queue(self, job: Job, priority: int) -> None:
        heapq.heappush(self.queues[job.kind], (priority, next(self.order), job))

    def start(self) -> None:
        for kind in ("asr", "tts"):
            if kind not in self.running and self.queues[kind]:
                self.running[kind] = heapq.heappop(self.queues[kind])[2]
        if "llm" not in self.running and self.generating:
            self.stepping = [turn for turn in self.generating if turn.prompt == 0 and not turn.paused]
            budget, self.chunk = 128, []
            for turn in self.generating:
                if turn.prompt and budget > 0:
                    turn.tokens = -min(budget, turn.prompt)  # negative while it is the prompt that is evaluated
                    budget += turn.tokens
                    self.chunk.append(turn)
            took = sum(-turn.tokens for turn in self.chunk) / self.c.prefill_tokens_per_s
            if self.stepping or self.chunk:
                self.running["llm"] = took + (self.c.step(len(self.stepping)) / 1e3 if self.stepping else 0.0)

    def finish(self, engine: str) -> None:
        job = self.running.pop(engine)
        if engine == "llm":
            self.step_done()
        elif isinstance(job, Job) and job.turn is not None:
            if engine == "asr":
                self.heard(job.turn)
            elif job.sound:
                self.spoken(job.turn)

    def heard(self, turn: Turn) -> None:
        turn.prompt = self.p.prompt_tokens
        self.generating.append(turn)

    def step_done(self) -> None:
        for turn in self.chunk:
            turn.prompt += turn.tokens
            turn.tokens = 0
        for turn in self.stepping:
            turn.tokens += 1
            first, every = self.p.first_clause_tokens, self.p.first_clause_tokens
            done = turn.tokens >= self.p.answer_tokens
            if turn.tokens == first or (turn.tokens > first and (turn.tokens - first) % every == 0) or done:
                work = max(self.c.tts_first_ms / 1e3, self.c.tts_rtf * self.p.first_clause_s)
                if turn.tokens % every and done:
                    work *= (turn.tokens % every) / every
                urgency = 0 if turn.tokens == first else 20
                turn.paused = turn.tokens == first
                work = self.vary(work)
                sound = min(work, self.vary(self.c.tts_first_ms / 1e3) if self.c.tts_first_ms else work)
                self.queue(Job("tts", turn, sound), urgency)
                for _ in range(2 if work > sound else 0):
                    self.queue(Job("tts", turn, (work - sound) / 2, sound=False), max(urgency, 10))
            if done:
                self.generating.remove(turn)

    def spoken(self, turn: Turn) -> None:
        turn.paused = False
        turn.ready.append(self.now)
        if len(turn.ready) == -(-self.p.answer_tokens // self.p.first_clause_tokens):
            self.finished(turn)

    def finished(self, turn: Turn) -> None:
        p = self.p
        begin = max(turn.ready[0], turn.ended + p.endpoint_ms / 1e3) + p.output_ms / 1e3
        self.v2v.append((begin - turn.ended) * 1e3)
        end, starved = begin, 0.0
        for i, ready in enumerate(turn.ready):
            gap = max(0.0, ready - end) if i else 0.0
            starved += gap
            length = p.first_clause_s if i < len(turn.ready) - 1 else max(0.1, p.answer_s - p.first_clause_s * i)
            end = max(end, ready if i else end) + length
        self.starved.append(starved * 1e3)
        self.at(max(self.now, end) + self.vary(p.pause_s), lambda: self.speak(turn.session))

    def run(self, until: float) -> "Simulation":
        width = {"asr": self.c.asr_threads, "llm": self.c.llm_threads, "tts": self.c.tts_threads}
        while self.now < until:
            self.start()
            at_work = sum(width[engine] for engine in self.running)
            speed = {e: 1.0 if width[e] == 0 else min(1.0, self.c.cores / max(at_work, 1)) for e in self.running}
            left = {e: (j.left if isinstance(j, Job) else j) for e, j in self.running.items()}
            ends = {e: left[e] / speed[e] for e in self.running}
            soonest = min(ends, key=lambda e: ends[e]) if ends else None
            timer = self.timers[0][0] - self.now if self.timers else float("inf")
            dt = min(timer, ends[soonest]) if soonest else timer
            self.now += dt
            for engine, job in list(self.running.items()):
                rest = left[engine] - dt * speed[engine]
                if isinstance(job, Job):
                    job.left = rest
                else:
                    self.running[engine] = rest
            if soonest and ends[soonest] <= timer:
                self.finish(soonest)
            else:
                heapq.heappop(self.timers)[2]()  # type: ignore[operator]
        return self


def p95(values: list[float]) -> float:
    return sorted(values)[int(0.95 * len(values))]


@pytest.mark.parametrize(
    ("box", "sessions"),
    [("tiny", 1), ("tiny", 2), ("tiny", 4), ("tiny", 6), ("starter", 1), ("starter", 2), ("starter", 3), ("starter", 4),
     ("gpu", 1), ("gpu", 8), ("gpu", 16)],
)  # fmt: skip
def test_predicted_p95_is_within_25_percent_of_the_simulated_one(box: str, sessions: int) -> None:
    calibration = {"tiny": TINY, "starter": STARTER, "gpu": GPU}[box]
    profile = TurnProfile()
    predicted = predict(calibration, profile, sessions)
    simulated = Simulation(calibration, profile, sessions, seed=sessions).run(6000 / sessions)
    assert len(simulated.v2v) > 200
    measured = p95(simulated.v2v)
    assert predicted.v2v_ms_p95 == pytest.approx(measured, rel=0.25)
    # The same verdict at the 100 ms line, or near it; where they differ the prediction is the cautious one.
    starved = p95(simulated.starved)
    starvation = predicted.starvation_ms_p95
    assert (starvation > 100) == (starved > 100) or 0 < starvation - starved < 350


SPEEDS = st.builds(
    lambda one, more, prefill, asr, tts, cores: Calibration(
        ((1, one), (8, one * (1 + more))), prefill, asr, tts, tts_first_ms=50.0, cores=cores
    ),
    st.floats(2, 200),
    st.floats(0.1, 7),
    st.floats(20, 5000),
    st.floats(0.01, 0.8),
    st.floats(0.01, 0.9),
    st.integers(1, 32),
)


@settings(max_examples=40, deadline=None)
@given(SPEEDS, st.integers(1, 40))
def test_one_more_session_never_makes_it_quicker(calibration: Calibration, sessions: int) -> None:
    fewer, more = (predict(calibration, TurnProfile(), n) for n in (sessions, sessions + 1))
    # The grid and the iteration leave a few hundredths of noise; far beyond any objective the cycle itself is late.
    if fewer.v2v_ms_p95 > 5000 or fewer.starvation_ms_p95 > 2000:
        return
    # Where the voice is the narrow place, waiting moves from before the answer into it: both count.
    lateness = more.v2v_ms_p95 + more.starvation_ms_p95, fewer.v2v_ms_p95 + fewer.starvation_ms_p95
    assert lateness[0] >= lateness[1] * 0.95 - 20
    assert 0 <= more.asr_load <= 1
    assert 0 <= more.llm_load <= 1
    assert 0 <= more.tts_load <= 1
    assert more.v2v_ms_p50 <= more.v2v_ms_p95


def test_a_turn_given_singly_is_the_mean_turn_when_all_are_alike() -> None:
    for sessions in (1, 4):
        assert predict(TINY, TurnProfile(), sessions, [TurnProfile()] * 3).v2v_ms_p95 == pytest.approx(
            predict(TINY, TurnProfile(), sessions).v2v_ms_p95, rel=1e-6
        )


@pytest.mark.parametrize("sessions", [1, 4])
def test_the_slowest_of_ten_turns_shows_in_the_95th_percentile_and_hardly_in_the_50th(sessions: int) -> None:
    mean = TurnProfile()
    slow = replace(mean, endpoint_ms=900.0, speech_s=6.0, first_clause_tokens=14)
    usual, mixed = predict(TINY, mean, sessions), predict(TINY, mean, sessions, [mean] * 9 + [slow])
    alone = predict(TINY, mean, sessions, [slow])
    assert mixed.v2v_ms_p50 == pytest.approx(usual.v2v_ms_p50, rel=0.08)
    assert usual.v2v_ms_p95 * 1.1 < mixed.v2v_ms_p95 < alone.v2v_ms_p95
    assert mixed.starvation_ms_p95 == usual.starvation_ms_p95  # how the others are does not change


def test_the_limit_is_the_largest_number_inside_both_objectives() -> None:
    best, prediction = largest(TINY, TurnProfile(), v2v_ms_p95=1300, starvation_ms_p95=100)
    assert best > 1
    assert prediction.v2v_ms_p95 <= 1300 < predict(TINY, TurnProfile(), best + 1).v2v_ms_p95
    none, alone = largest(STARTER, TurnProfile(), v2v_ms_p95=800, starvation_ms_p95=100)
    assert none == 0
    assert alone.sessions == 1
    assert alone.v2v_ms_p95 > 800


def test_what_else_turns_take_of_the_cores_slows_only_company() -> None:
    plain, full = TurnProfile(), TurnProfile(other_cpu_s=0.9)
    assert predict(TINY, full, 1) == predict(TINY, plain, 1)
    slower = [predict(TINY, full, n).v2v_ms_p95 / predict(TINY, plain, n).v2v_ms_p95 for n in (2, 4, 8)]
    assert slower == sorted(slower)
    assert slower[-1] > 1.2


def test_processor_seconds_of_a_turn_are_those_of_its_three_engines() -> None:
    profile = TurnProfile(speech_s=2.0, asr_runs=1.5, prompt_tokens=35, answer_tokens=20, first_clause_tokens=10)
    asr, llm, tts = 2 * 0.06 * 2.0 * 1.5, 2 * (35 / 350 + 20 * 0.010), 2 * 2 * 0.11 * profile.first_clause_s
    assert engines_cpu_s(TINY, profile) == pytest.approx(asr + llm + tts)


def test_a_parked_session_pays_for_its_restore() -> None:
    kept = predict(TINY, TurnProfile(), 1)
    parked = predict(replace(TINY, restore_ms=400.0), TurnProfile(restore_share=1.0), 1)
    assert parked.v2v_ms_p95 == pytest.approx(kept.v2v_ms_p95 + 400, abs=30)


@pytest.mark.parametrize(
    "broken",
    [
        replace(TINY, step_ms=()),
        replace(TINY, step_ms=((4, 50.0), (1, 19.0))),
        replace(TINY, prefill_tokens_per_s=0.0),
        replace(TINY, cores=0),
        replace(TINY, prefill_tokens_per_s=math.nan),
    ],
)
def test_a_broken_calibration_is_refused(broken: Calibration) -> None:
    with pytest.raises(UsageError):
        predict(broken, TurnProfile(), 2)
    with pytest.raises(UsageError):
        predict(TINY, TurnProfile(), 0)


def test_steps_lie_on_straight_lines_between_and_beyond_the_measured_batches() -> None:
    assert TINY.step(1) == 10
    assert TINY.step(2.5) == pytest.approx(17)
    assert TINY.step(12) == pytest.approx(48)
    assert replace(TINY, step_ms=((2, 30.0),)).step(4) == 60
