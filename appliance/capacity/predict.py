"""What n sessions at once would feel: voice-to-voice and starvation at p95, from measured speeds.

Owns the queueing formula behind the speed limit. It measures nothing: a `Calibration` (what each engine does alone
on this box) and a `TurnProfile` (what a turn asks of them) go in, a `Prediction` comes out.

The formula. A session repeats a cycle: speaking, waiting (v2v), listening to the answer, a pause. Seen by one turn,
the n - 1 others are at a random place of their cycle; m of them have work of a turn under way while it waits,
m ~ Binomial(n - 1, (waited + active time of a turn) / cycle), and those are met in most of its stages. Over all m,
and for each m with the loads that so many cause, for each engine

    load of ASR, TTS      ρ = (n - 1) × work a turn / cycle
    generating in the LLM k ~ Binomial(n - 1, d), d = (prefill + tokens × step) / cycle; batch = 1 + k

Engines share the cores: while others work, a job takes max(1, (its threads + theirs) / cores) times as long, each
other engine being at work with the probability above. What else the other turns take, (n - 1) × other_cpu_s / cycle,
is taken off the cores beforehand.
ASR and TTS are one worker each, never interrupted in a job; those whom someone waits for go first. ASR's jobs are
transcripts; TTS's are pieces of a clause, of which the ear waits for the first, and while it is made that answer's
LLM pauses. So a job waits with probability ρ for the rest of the one running (uniform over its length), and for q
earlier urgent ones, q geometric with the urgent part of ρ and never more than n - 1. In the LLM there is no queue:
the rest of the present step, the prompt at prefill speed, then first-clause tokens × step(batch), stretched by the
others' prompts.

    x   = ASR wait + ASR + LLM + TTS wait + first piece's TTS        (distributions, added by convolution)
    v2v = endpoint + max(0, x - head start) + output                 head start: pause seen → turn over, if held
    starvation = what the second and the last clause are late for the end of the audio before them

v2v lengthens the cycle, which lowers the loads: the equations for the means are solved by iteration, then the
densities are added once, on a grid. Where single turns are given, each takes the place of the mean turn once, among
others that stay as they are on average, and the densities are mixed: the 95th percentile of ten different questions is
not that of their mean. No box does more work than it has cores: where n × the work of a
turn exceeds the cycle, the difference is waited for (before the answer, or, where TTS is the narrow place, within
it, because first clauses overtake later ones).
"""

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import pairwise, product

from appliance.capacity.density import Density, add, binomial, later, mix, point, quantile, queue, spread, uniform
from appliance.errors import UsageError

_ITERATIONS = 200
_LEAST_GAIN = 0.02
_LEAST_SHARE = 0.004  # of turns; rarer meetings do not move a 95th percentile
_SETTLED_S = 1e-3  # the iteration ends when the cycle moves by less


@dataclass(frozen=True, slots=True)
class Calibration:
    """What this box does, each engine alone. Measured at start or by `appliance bench load`."""

    step_ms: tuple[tuple[int, float], ...]  # (sequences in the batch, ms of one decode step), growing
    prefill_tokens_per_s: float
    asr_rtf: float  # seconds of work a second of speech, the fixed window's cost included
    tts_rtf: float  # seconds of work a second of audio
    tts_first_ms: float = 0.0  # to the first piece of a clause; 0: a clause comes in one piece
    look_ms: float = 0.0  # one look whether the turn is over; it takes a core beside the LLM's prompt
    cores: int = 2
    asr_threads: int = 2
    llm_threads: int = 2  # 0: on a device of its own
    tts_threads: int = 2
    restore_ms: float = 0.0  # to bring a parked session's KV back
    carried: int | None = None  # sessions that a load test saw the box carry, where it saw more of them fail

    def step(self, batch: float) -> float:
        """Ms of a decode step, between and beyond the measured batches along straight lines."""
        points = self.step_ms
        if batch <= points[0][0] or len(points) == 1:
            return points[0][1] * (1 if batch <= points[0][0] else batch / points[0][0])
        for (b0, t0), (b1, t1) in pairwise(points):
            if batch <= b1 or (b1, t1) == points[-1]:
                return max(0.0, t0 + (t1 - t0) * (batch - b0) / (b1 - b0))
        raise AssertionError("unreachable: the last segment takes the rest")


@dataclass(frozen=True, slots=True)
class TurnProfile:
    """What one turn asks for. `spread` is the coefficient of variation of speech and clause lengths."""

    speech_s: float = 2.5
    answer_s: float = 5.0
    pause_s: float = 2.0
    prompt_tokens: int = 28
    answer_tokens: int = 28
    first_clause_tokens: int = 9
    first_clause_s: float = 1.6
    asr_runs: float = 1.6  # drafts and the final one
    held: float = 0.9  # share of turns in which the work begun at the pause stands
    draft_after_ms: float = 80.0
    endpoint_ms: float = 200.0
    output_ms: float = 30.0
    spread: float = 0.35
    restore_share: float = 0.0  # share of turns that find their session parked
    other_cpu_s: float = 0.0  # processor seconds beside the three engines: gate, looks, work thrown away


@dataclass(frozen=True, slots=True)
class Prediction:
    """At `sessions`: p50 and p95 in ms, and how busy each engine is (0..1)."""

    sessions: int
    v2v_ms_p50: float
    v2v_ms_p95: float
    starvation_ms_p95: float
    asr_load: float
    llm_load: float
    tts_load: float


def predict(
    calibration: Calibration, profile: TurnProfile, sessions: int, turns: Sequence[TurnProfile] = ()
) -> Prediction:
    """Solve the formula above for `sessions`. `profile`: the mean turn. `turns`: single ones, equally likely, of whose
    demands until the first sound that is the mean; without them each is like it. Raises UsageError for numbers that
    make no sense.
    """
    for one in (profile, *turns):
        _check(calibration, one, sessions)
    model = _Model(calibration, profile, sessions)
    for _ in range(_ITERATIONS):
        if model.update() < _SETTLED_S:
            break
    return model.result(turns)


def engines_cpu_s(calibration: Calibration, profile: TurnProfile) -> float:
    """Processor seconds of a turn in the three engines as the formula counts them; 0 for one with a device."""
    c, p = calibration, profile
    clauses = max(1.0, p.answer_tokens / p.first_clause_tokens)
    asr = c.asr_rtf * p.speech_s * p.asr_runs * c.asr_threads
    tts = max(c.tts_first_ms / 1e3, c.tts_rtf * p.first_clause_s) * clauses * c.tts_threads
    llm = (p.prompt_tokens / c.prefill_tokens_per_s + p.answer_tokens * c.step(1) / 1e3) * c.llm_threads
    return asr + tts + llm


def largest(
    calibration: Calibration, profile: TurnProfile, *, v2v_ms_p95: float, starvation_ms_p95: float, most: int = 256
) -> tuple[int, Prediction]:
    """The most sessions whose prediction keeps both objectives (0 when even one does not), and that prediction.

    With 0 the prediction is that of one session, to show by how much it fails.
    """

    def keeps(p: Prediction) -> bool:
        return p.v2v_ms_p95 <= v2v_ms_p95 and p.starvation_ms_p95 <= starvation_ms_p95

    best = predict(calibration, profile, 1)
    if not keeps(best):
        return 0, best
    low, high = 1, max(1, most)
    while low < high:
        middle = (low + high + 1) // 2
        tried = predict(calibration, profile, middle)
        if keeps(tried):
            low, best = middle, tried
        else:
            high = middle - 1
    return low, best


@dataclass(frozen=True, slots=True)
class _Jobs:
    """One worker's jobs. Seconds: `own_s` of one that is waited for, `running_s` of the one that is found running.

    `urgent`: the share of the worker's time that goes to jobs that are waited for.
    """

    own_s: float
    running_s: float
    urgent: float


def _pieces(clause_s: float, first_s: float, clauses: float) -> _Jobs:
    """A clause's work as the voice does it: a first piece, and the rest in two of about the same length."""
    if not 0 < first_s < clause_s:
        return _Jobs(clause_s, clause_s, 1 / clauses)
    half = (clause_s - first_s) / 2
    running = (first_s**2 + 2 * half**2) / clause_s  # a longer piece is found running more often
    return _Jobs(first_s, running, first_s / (clause_s * clauses))


class _Model:
    """The unknowns of the fixed point, for one number of sessions."""

    def __init__(self, calibration: Calibration, profile: TurnProfile, sessions: int) -> None:
        self.c, self.p, self.n = calibration, profile, sessions
        self.own = profile  # the turn that is looked at, as far as its first sound; `p` is what the others are like
        self.others = sessions - 1
        self.asr_s = calibration.asr_rtf * profile.speech_s
        self.clause_s = max(calibration.tts_first_ms / 1e3, calibration.tts_rtf * profile.first_clause_s)
        self.clauses = max(1.0, profile.answer_tokens / profile.first_clause_tokens)
        self.asr = _Jobs(self.asr_s, self.asr_s, 1 / profile.asr_runs)
        self.tts = _pieces(self.clause_s, calibration.tts_first_ms / 1e3, self.clauses)
        self.cycle = profile.speech_s + profile.answer_s + profile.pause_s + 0.5
        self.gain, self.moved = 0.5, 0.0
        self.waited_s = self.active_s = 0.0  # a turn's work until its first sound, and until it has all been spoken
        self.generating = 0.0  # share of its cycle in which one session decodes
        self.asr_load = self.tts_load = 0.0

    def update(self) -> float:
        """One round of the iteration; returns by how many seconds the cycle moved."""
        c, p = self.c, self.p
        slow_tts = self._slow(c.tts_threads, asr=self.asr_load, llm=self.llm_busy)
        slow_asr = self._slow(c.asr_threads, tts=self.tts_load, llm=self.llm_busy)
        slow_llm = self._slow(c.llm_threads, asr=self.asr_load, tts=self.tts_load)
        step_s = c.step(1 + self.others * self.generating) * slow_llm / 1e3
        prompt_s = p.prompt_tokens / c.prefill_tokens_per_s * slow_llm
        generating = (prompt_s + p.answer_tokens * step_s) / self.cycle
        asr = self.others * self.asr_s * p.asr_runs * slow_asr / self.cycle
        tts = self.others * self.clause_s * self.clauses * slow_tts / self.cycle
        self.generating += self.gain * (min(1.0, generating) - self.generating)
        self.asr_load += self.gain * (min(0.98, asr) - self.asr_load)
        self.tts_load += self.gain * (min(0.98, tts) - self.tts_load)
        # An answer that cannot be written or spoken in time lasts longer than its audio.
        written, spoken = p.answer_tokens * step_s, self.clause_s * self.clauses * slow_tts / (1 - self.tts_load)
        late = max(0.0, max(written, spoken) - p.answer_s)
        work = self._mean(self.asr, self.asr_load) * slow_asr + prompt_s + self._own_look_ms() / 1e3
        work += p.first_clause_tokens * step_s + self._mean(self.tts, self.tts_load) * slow_tts
        self.waited_s = work
        self.active_s = self.asr_s * p.asr_runs * slow_asr + prompt_s + p.answer_tokens * step_s
        self.active_s += self.clause_s * self.clauses * slow_tts
        ahead = p.held * (p.endpoint_ms - p.draft_after_ms) / 1e3
        v2v = (p.endpoint_ms + p.output_ms) / 1e3 + max(0.0, work - ahead)
        moved = p.speech_s + p.answer_s + p.pause_s + v2v + late - self.cycle
        # Smaller steps whenever the answer is overshot: near saturation the iteration would swing for ever.
        if moved * self.moved < 0:
            self.gain = max(_LEAST_GAIN, self.gain * 0.8)
        self.moved = moved
        self.cycle += self.gain * moved
        return abs(moved)

    def _mean(self, jobs: "_Jobs", load: float) -> float:
        """Wait and service of an urgent job, s, while nothing else takes the cores."""
        before = min(float(self.others), load * jobs.urgent / max(0.02, 1 - load * jobs.urgent))
        return jobs.own_s + load * (0.5 * jobs.running_s + before * jobs.own_s)

    def _own_look_ms(self) -> float:
        """By how much the look at the end of turn, one thread beside the LLM's, delays the turn's own work."""
        return self.c.look_ms * max(0.0, (self.c.llm_threads + 1) / self.c.cores - 1) if self.c.llm_threads else 0.0

    def _owed_s(self) -> tuple[float, float]:
        """Seconds by which the work of n turns exceeds the cycle: waited for before the answer, and within it."""
        c, p = self.c, self.p
        batch = 1 + self.others * self.generating
        asr, tts = self.asr_s * p.asr_runs, self.clause_s * self.clauses
        llm = p.prompt_tokens / c.prefill_tokens_per_s + p.answer_tokens * c.step(batch) / batch / 1e3
        cores = (asr * c.asr_threads + tts * c.tts_threads + llm * c.llm_threads + p.other_cpu_s) / c.cores
        before = max(0.0, self.n * max(asr, llm, cores) - self.cycle)
        return before, max(0.0, self.n * tts - self.cycle - before)

    @property
    def llm_busy(self) -> float:
        """The probability that at least one other session is generating."""
        return float(1 - (1 - min(1.0, self.generating)) ** self.others)

    @property
    def cores(self) -> float:
        """The cores that are left for the engines by whatever else the other turns take."""
        taken = (self.n - 1) * self.p.other_cpu_s / self.cycle
        return max(self.c.cores / 4, self.c.cores - taken)

    def _slow(self, threads: int, **busy: float) -> float:
        """The mean of max(1, threads at work / cores) while a job of `threads` runs."""
        return sum(share * factor for share, factor in self._slowdowns(threads, **busy))

    def _slowdowns(self, threads: int, **busy: float) -> list[tuple[float, float]]:
        """Probability and slowdown for each combination of other engines at work."""
        if threads == 0:
            return [(1.0, 1.0)]
        width = {"asr": self.c.asr_threads, "llm": self.c.llm_threads, "tts": self.c.tts_threads}
        found = []
        for states in product((False, True), repeat=len(busy)):
            share, at_work = 1.0, float(threads)
            for on, (engine, probability) in zip(states, busy.items(), strict=True):
                share *= probability if on else 1 - probability
                at_work += width[engine] if on else 0
            if share > 0:
                found.append((share, max(1.0, at_work / self.cores)))
        return found

    def _v2v(self) -> Density:
        """Over how many other turns overlap with this one: whoever does is at work in most of its stages."""
        met = min(1.0, (self.waited_s + self.active_s) / self.cycle)
        meetings = [(share, m) for m, share in enumerate(binomial(self.others, met)) if share > _LEAST_SHARE]
        found = mix([(share, self._meeting(m, met)._v2v_among()) for share, m in meetings])
        return later(found, self._owed_s()[0] * 1e3)

    def _asking(self, turn: TurnProfile) -> "_Model":
        """This model as `turn` meets it."""
        model = copy(self)
        model.own = turn
        model.asr = replace(self.asr, own_s=self.c.asr_rtf * turn.speech_s)
        first_s = self.c.tts_first_ms / 1e3
        clause_s = max(first_s, self.c.tts_rtf * turn.first_clause_s)
        model.tts = replace(self.tts, own_s=_pieces(clause_s, first_s, self.clauses).own_s)
        return model

    def _meeting(self, others: int, met: float) -> "_Model":
        """This model with `others` turns that overlap with it, each as busy as all are, seen while they do."""
        model = copy(self)
        seen = others / (max(1, self.others) * max(met, 1e-9))
        model.others = others
        model.asr_load, model.tts_load = min(0.98, self.asr_load * seen), min(0.98, self.tts_load * seen)
        model.generating = min(1.0, self.generating / max(met, 1e-9))
        return model

    def _v2v_among(self) -> Density:
        p, own = self.p, self.own
        asr = self._job(self.asr, self.asr_load, self.c.asr_threads, tts=self.tts_load, llm=self.llm_busy)
        llm = self._llm(own.prompt_tokens, own.first_clause_tokens)
        work = later(add(asr, llm, self._sound()), self._own_look_ms())
        if self.c.restore_ms and p.restore_share:
            work = mix([(p.restore_share, add(work, point(self.c.restore_ms))), (1 - p.restore_share, work)])
        ahead = later(work, -(own.endpoint_ms - own.draft_after_ms))
        both = mix([(own.held, ahead), (1 - own.held, work)])
        return later(both, own.endpoint_ms + own.output_ms)

    def _sound(self, *, own: float = 0.0) -> Density:
        """To the first piece of a clause; `own`: how surely this answer's own LLM is at work meanwhile."""
        llm = 1 - (1 - own) * (1 - self.llm_busy)
        return self._job(self.tts, self.tts_load, self.c.tts_threads, asr=self.asr_load, llm=llm)

    def _job(self, jobs: "_Jobs", load: float, threads: int, **busy: float) -> Density:
        """Wait and service of one urgent job in a worker that is `load` busy with others' jobs."""
        parts = []
        for share, slow in self._slowdowns(threads, **busy):
            service = spread(jobs.own_s * slow * 1e3, self.own.spread)
            rest = add(uniform(jobs.running_s * slow * 1e3), queue(service, load * jobs.urgent, self.others))
            wait = mix([(1 - load, point(0.0)), (load, rest)])
            parts.append((share, add(wait, service)))
        return mix(parts)

    def _llm(self, prompt: int, tokens: int) -> Density:
        """The rest of the present step, the prompt, and `tokens` decode steps."""
        c = self.c
        parts = []
        others_prompts = min(0.9, self.others * self.p.prompt_tokens / c.prefill_tokens_per_s / self.cycle)
        for share, slow in self._slowdowns(c.llm_threads, asr=self.asr_load, tts=self.tts_load):
            for k, probability in enumerate(binomial(self.others, min(1.0, self.generating))):
                if share * probability < 1e-6:
                    continue
                step = c.step(1 + k) * slow
                ms = (prompt / c.prefill_tokens_per_s * 1e3 * slow + tokens * step) / (1 - others_prompts)
                done = later(uniform(step), ms) if k else point(ms)
                parts.append((share * probability, done))
        return mix(parts)

    def _starvation(self) -> float:
        """The larger p95 of what the second and the last clause are late."""
        p = self.p
        late = 0.0
        if self.clauses > 1:
            second = add(self._llm(0, p.first_clause_tokens), self._sound(own=1.0))
            late = quantile(second, 0.95) - p.first_clause_s * 1e3
            rest = max(0, p.answer_tokens - p.first_clause_tokens)
            last = add(self._llm(0, rest), self._sound(own=1.0))
            late = max(late, quantile(last, 0.95) - (p.answer_s - p.first_clause_s) * 1e3)
        return max(0.0, late)

    def result(self, turns: Sequence[TurnProfile]) -> Prediction:
        v2v = mix([(1 / len(turns), self._asking(turn)._v2v()) for turn in turns]) if turns else self._v2v()
        return Prediction(
            sessions=self.n,
            v2v_ms_p50=quantile(v2v, 0.5),
            v2v_ms_p95=quantile(v2v, 0.95),
            starvation_ms_p95=self._starvation() + self._owed_s()[1] * 1e3,
            asr_load=self.asr_load,
            llm_load=self.llm_busy,
            tts_load=self.tts_load,
        )


def _check(c: Calibration, p: TurnProfile, sessions: int) -> None:
    positive: tuple[tuple[float, str], ...] = (
        (sessions, "sessions"),
        (c.prefill_tokens_per_s, "prefill speed"),
        (c.cores, "cores"),
        (p.speech_s, "speech"),
        (p.first_clause_tokens, "first clause"),
        (p.asr_runs, "ASR runs"),
    )
    for value, name in positive:
        if not math.isfinite(value) or value <= 0:
            raise UsageError(f"a prediction needs a positive number for {name}, not {value:g}", "calibrate again")
    batches = [batch for batch, _ in c.step_ms]
    if not batches or batches != sorted(set(batches)) or batches[0] < 1 or any(ms <= 0 for _, ms in c.step_ms):
        raise UsageError("decode steps must be measured at growing batches", "calibrate again")
    if not 0 <= p.held <= 1 or p.spread < 0:
        raise UsageError("the turn profile's shares must lie between 0 and 1", "use the defaults")
