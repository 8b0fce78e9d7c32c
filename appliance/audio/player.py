"""One answer on its way to the ear: which words were heard, and when.

Owns the ledger of an answer's clauses at a sink: positions, texts, word times. Knows nothing of where clauses
come from or why an answer is cut. Everything it reports is what the sink says was heard, never what was sent.
"""

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from appliance.audio.levels import SILENCE_DBFS, first_audible
from appliance.audio.ports import Sink
from appliance.audio.resample import LiveResampler
from appliance.clock import Clock
from appliance.engines.ports import Spoken, Word

_POLL_S = 0.01
_CHAR_S = 0.065  # a character of speech at an ordinary pace, while a clause's length is not known yet


@runtime_checkable
class AnswerBorders(Protocol):
    """A sink that wants to know where one answer ends and the next begins."""

    def next_answer(self) -> None: ...


@runtime_checkable
class MayVanish(Protocol):
    """A sink whose device may go away for good."""

    def gone(self) -> bool: ...


@runtime_checkable
class Metered(Protocol):
    """A sink that knows how loud it is being heard."""

    @property
    def level_dbfs(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Cut:
    """What was heard of an answer that was stopped."""

    spoken: str
    heard_chars: int
    at: float  # the instant of silence
    played_ms: float


@dataclass(slots=True)
class _Clause:
    text: str
    begin: int  # character offset of the reply before this clause
    end: int
    position: int  # of its first sample
    samples: int = 0
    words: list[Word] = field(default_factory=list)
    complete: bool = False


class Player:
    """Plays one answer at a time on a sink that stays open.

    begin(turn) -> play(...) for every piece of audio -> end(); or stop() at any moment, after which further
    pieces of that answer are ignored until the next begin.
    """

    def __init__(self, sink: Sink, clock: Clock) -> None:
        self._sink = sink
        self._clock = clock
        self._open = False
        self.turn = 0
        self._reset()

    def _reset(self) -> None:
        self._clauses: list[_Clause] = []
        self._resampler: LiveResampler | None = None
        self._written = 0  # position behind the last written sample of this answer
        self._begin: int | None = None  # position of the first
        self._audible: int | None = None  # position of the first audible one
        self._writes: list[tuple[int, int]] = []  # position, samples
        self._cut: Cut | None = None
        self._paused_at: float | None = None
        self._pauses: list[tuple[float, float]] = []

    def begin(self, turn: int) -> None:
        """Start the answer of `turn`. An answer still playing is not cut: its samples are heard first."""
        self.resume()
        self._reset()
        self.turn = turn
        self._open = True
        if isinstance(self._sink, AnswerBorders):
            self._sink.next_answer()

    def play(self, spoken: Spoken, end: int) -> None:
        """Queue a piece of the current clause.

        `end`: how many characters of the reply are out once this clause has been heard. Ignored after `stop`.
        """
        if not self._open:
            return
        clause = self._clause(spoken, end)
        if self._resampler is None or self._resampler.rate_in != spoken.sample_rate:
            self._resampler = LiveResampler(spoken.sample_rate, self._sink.sample_rate)
        audio = self._resampler.push(spoken.audio, last=spoken.last)
        position = self._sink.write(audio)
        if clause.samples == 0:
            clause.position = position
        if self._begin is None:
            self._begin = position
        if self._audible is None and (index := first_audible(audio)) is not None:
            self._audible = position + index
        if len(audio):
            self._writes.append((position, len(audio)))
        self._written = position + len(audio)
        clause.samples += len(audio)
        clause.complete = spoken.last

    def end(self) -> None:
        """No more clauses follow."""
        self._open = False

    def pause(self) -> None:
        """Silence at once, keeping what is queued."""
        if self._paused_at is None:
            self._paused_at = self._clock.now()
            self._sink.pause(True)

    def resume(self) -> None:
        """Go on where `pause` stopped."""
        if self._paused_at is not None:
            self._pauses.append((self._paused_at, self._clock.now()))
            self._paused_at = None
            self._sink.pause(False)

    def stop(self) -> Cut:
        """Silence at once and drop the rest. Idempotent: later calls return the first cut."""
        if self._cut is None:
            position = self._sink.flush()
            self._open = False
            self._written = min(self._written, position)
            self._cut = Cut(self._spoken(position), self._heard(position), self._clock.now(), self._ms(position))
            self.resume()
        return self._cut

    @property
    def active(self) -> bool:
        """Whether the answer is still being queued or heard."""
        return self._open or self._sink.played() < self._written

    @property
    def paused(self) -> bool:
        return self._paused_at is not None

    @property
    def spoken(self) -> str:
        """The text heard so far, cut at a word: clause texts as given in `Spoken.text`, joined by a space."""
        return self._cut.spoken if self._cut else self._spoken(self._sink.played())

    @property
    def heard_chars(self) -> int:
        """How many characters of the reply have been heard.

        Exact at clause ends and where a clause's text is the reply's own. Where the clause was rewritten for
        speech ("$3.50") it is scaled by length: cut the reply at the word that holds this offset.
        """
        return self._cut.heard_chars if self._cut else self._heard(self._sink.played())

    @property
    def played_ms(self) -> float:
        """How much of the answer's audio has been heard, pauses and gaps not counted."""
        return self._cut.played_ms if self._cut else self._ms(self._sink.played())

    @property
    def first_audible_at(self) -> float | None:
        """The instant of the first sample above -50 dBFS, None while it has not been heard."""
        return None if self._audible is None else self._sink.audible_at(self._audible)

    @property
    def output_dbfs(self) -> float:
        """How loud the sink sounds now, where it knows; else -120."""
        return self._sink.level_dbfs if isinstance(self._sink, Metered) else SILENCE_DBFS

    @property
    def runs_dry_at(self) -> float:
        """The instant at which nothing is left to play, as things stand; never in the past.

        What the next clause's synthesis has to beat. During a pause the clock stands still for it.
        """
        waiting = max(0, self._written - self._sink.played())
        return self._clock.now() + waiting / self._sink.sample_rate

    @property
    def starvation_ms(self) -> float:
        """Time the sink ran dry between this answer's first sample and its newest audible one.

        No jitter buffer is counted, nor time spent in a pause.
        """
        rate = self._sink.sample_rate
        dry, dry_since = 0.0, None
        for position, samples in self._writes:
            at = self._sink.audible_at(position)
            if at is None:
                break
            if dry_since is not None and at > dry_since + 1.5 / rate:
                dry += max(0.0, at - dry_since - self._paused_within(dry_since, at))
            dry_since = max(at, dry_since or at) + samples / rate
            last = self._sink.audible_at(position + samples - 1)
            if last is not None:
                dry_since = max(dry_since, last + 1 / rate)
        return dry * 1000.0

    async def started(self) -> float | None:
        """Wait for the first audible sample; its instant, or None when the answer ended without one."""
        while (at := self.first_audible_at) is None and self.active:
            await self._clock.sleep_until(self._clock.now() + _POLL_S)
        return at

    async def drained(self) -> None:
        """Return when everything queued has been heard or dropped; an answer whose device is gone is stopped."""
        while self._sink.played() < self._written:
            if isinstance(self._sink, MayVanish) and self._sink.gone():
                self.stop()
                return
            left = self.runs_dry_at - self._clock.now()
            await self._clock.sleep_until(self._clock.now() + (_POLL_S if self.paused else max(0.001, left)))

    def _clause(self, spoken: Spoken, end: int) -> _Clause:
        """The clause this piece belongs to, extended by its word times."""
        if not self._clauses or self._clauses[-1].complete:
            begin = self._clauses[-1].end if self._clauses else 0
            self._clauses.append(_Clause(spoken.text, begin, end, self._written))
        clause = self._clauses[-1]
        clause.end = end
        clause.words.extend(spoken.words)
        return clause

    def _spoken(self, position: int) -> str:
        texts = (clause.text[: self._chars(clause, position)].strip() for clause in self._clauses)
        return " ".join(text for text in texts if text)

    def _heard(self, position: int) -> int:
        heard = 0
        for clause in self._clauses:
            chars = self._chars(clause, position)
            if chars >= len(clause.text):
                heard = clause.end
            elif chars:
                share = chars / len(clause.text)
                return clause.begin + round(share * (clause.end - clause.begin))
        return heard

    def _chars(self, clause: _Clause, position: int) -> int:
        """How many characters of the clause's text were heard, at a word's end.

        A word counts once half of it has sounded, since that is when a listener has it.
        """
        rate = self._sink.sample_rate
        heard = (position - clause.position) / rate
        if heard <= 0 or clause.samples == 0:
            return 0
        length = clause.samples / rate
        if clause.complete and heard >= length:
            return len(clause.text)
        if clause.words:
            return _timed(clause, heard)
        if not clause.complete:
            length = max(length, _CHAR_S * len(clause.text))
        return _proportional(clause.text, heard / length)

    def _ms(self, position: int) -> float:
        if self._begin is None:
            return 0.0
        return max(0, min(position, self._written) - self._begin) / self._sink.sample_rate * 1000.0

    def _paused_within(self, start: float, end: float) -> float:
        return sum(max(0.0, min(end, b) - max(start, a)) for a, b in self._pauses)


def _timed(clause: _Clause, heard_s: float) -> int:
    """Characters up to the last word whose middle has sounded; words are found in the text in order."""
    at = 0
    for word in clause.words:
        if (word.start + word.end) / 2 > heard_s:
            return at
        found = clause.text.find(word.text, at)
        if found >= 0:
            at = found + len(word.text)
    while at < len(clause.text) and not clause.text[at].isspace():
        at += 1  # the punctuation behind the last word
    return at


def _proportional(text: str, share: float) -> int:
    """Characters up to the last word of which at least half lies within `share` (0..1) of the text."""
    reach = share * len(text)
    at = 0
    for word in text.split():
        begin = text.index(word, at)
        if begin + len(word) / 2 > reach:
            break
        at = begin + len(word)
    return at
