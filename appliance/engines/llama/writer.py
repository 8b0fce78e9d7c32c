"""An answer's tokens: drawn, said, and where they end; and those that an earlier try had drawn already, said again.

Owns what a job's answer looks like. It evaluates nothing and knows no cells.
"""

from collections.abc import Callable

from appliance.engines.llama.binding import Floats, Model
from appliance.engines.llama.sampling import Sampler
from appliance.engines.llama.seat import Job
from appliance.engines.llama.stream import LlamaGeneration, TextOut
from appliance.engines.ports import Piece, Sampling


class Writer:
    """`stops` end an answer besides the model's own ends. `say` takes the pieces of answers that somebody streams."""

    def __init__(self, model: Model, stops: frozenset[int], say: Callable[[LlamaGeneration, Piece], None]) -> None:
        self._model, self._stops, self._say = model, stops, say

    def begin(self, job: Job, sampling: Sampling, earlier: Job | None = None) -> None:
        """`job` gets an answer, which goes on from what `earlier`, a try at the same prompt, has drawn.

        Raises UsageError when the sampling's grammar does not compile.
        """
        job.sampling, job.out = sampling, TextOut(sampling.stop)
        job.sampler, job.answer_at = Sampler(self._model, sampling), len(job.want)
        if earlier is None or earlier.sampling != sampling or sampling.json_schema or sampling.grammar:
            return
        if earlier.want[: earlier.answer_at] == job.want:
            job.recalled = list(earlier.drawn)
            job.want += job.recalled
            if job.generation is not None and earlier.generation is not None:
                job.generation.turn_end = earlier.generation.turn_end

    def recall(self, job: Job, now: float) -> str:
        """Say again what an earlier try has drawn, as far as it is wanted; the rest is forgotten. Returns as `draw`."""
        tokens, job.recalled = job.recalled, []
        end = ""
        for token in tokens:
            if end or job.halted:
                break
            end = self._add(job, token, now)
        if job.sampler is not None:
            job.sampler.recall(job.drawn)
        if job.generation is not None:
            job.generation.recalled = len(job.drawn)
        del job.want[job.answer_at + len(job.drawn) :]
        return end

    def draw(self, job: Job, row: Floats, now: float) -> str:
        """The next token, from one row of logits (vocabulary,). Returns how the answer ends with it: "stop", "length",
        or "" where it goes on. Raises ApplianceError where a grammar leaves no token.
        """
        assert job.sampling is not None
        if job.sampler is None:
            self.begin(job, job.sampling)
        assert job.sampler is not None
        assert job.out is not None
        token = job.sampler.draw(row)
        if self._model.ends(token) or token in self._stops:
            self._emit(job, job.out.add(b"", last=True), 0, now)
            return "stop"
        return self._add(job, token, now)

    def _add(self, job: Job, token: int, now: float) -> str:
        assert job.sampling is not None
        assert job.out is not None
        job.drawn.append(token)
        job.next = token
        full = len(job.drawn) >= job.sampling.max_tokens
        self._emit(job, job.out.add(self._model.piece(token), last=full), 1, now)
        return "stop" if job.out.stopped else "length" if full else ""

    def _emit(self, job: Job, text: str, tokens: int, now: float) -> None:
        if job.sink is not None:
            job.sink(text)
        elif job.generation is not None and (text or tokens):
            job.pieces += 1
            job.halted = job.generation.halt is not None and job.generation.halt(text)
            self._say(job.generation, Piece(text, tokens, now))
