"""What a conversation knows, as the pure policies of `turns` want it: one place where evidence becomes a decision.

Owns the policies of one session and what they remember of earlier turns: what was last said to the person, in which
language, and how patient the session has become. It starts nothing and cuts nothing.
"""

from appliance.conversation.answering import Answering
from appliance.conversation.attempt import Leave
from appliance.conversation.desk import Desk
from appliance.conversation.hearing import Hearing
from appliance.engines.ports import BLOCK, RATE, Audio, Transcript
from appliance.events import EndpointLooked, TurnRecord
from appliance.turns.bargein import BargeIn, Overlap, Verdict
from appliance.turns.combine import done_probability, fitted
from appliance.turns.completeness import TextLook, read
from appliance.turns.endpoint import Decision, Endpoint, Look
from appliance.turns.guards import measure, worth_transcribing
from appliance.turns.language import KeptLanguage
from appliance.turns.patience import Patience
from appliance.turns.questions import is_question, is_yes_no_question

_BLOCK_MS = BLOCK * 1000 / RATE


class Judgement:
    def __init__(self, desk: Desk) -> None:
        settings = desk.settings
        self.patience = Patience(settings.patience)
        self._desk = desk
        self._endpoint = Endpoint(settings.endpoint)
        self._barge_in = BargeIn(settings.barge_in)
        self._last_reply = ""
        self._language = "en"
        self._kept = KeptLanguage()

    @property
    def heard_in(self) -> str | None:
        """The language in which to transcribe; None: as configured, or detected."""
        return self._kept.language if self._desk.keep_language else None

    def remember(self, record: TurnRecord, transcript: Transcript | None) -> None:
        """What the next turn's policies want to know of a finished one."""
        if transcript is not None and transcript.text:
            self._kept.heard(transcript.language, transcript.language_sure)
        self._last_reply, self._language = record.spoken, record.language

    def decide(self, hearing: Hearing) -> Decision:
        """Is the turn over, as far as is known by now?"""
        asked = is_question(self._last_reply)
        return self._endpoint.decide(
            Look(
                silence_ms=hearing.silence_ms + _BLOCK_MS / 2,  # of the decisions, one a block, the nearest to the wait
                audio_score=hearing.audio_score,
                text=self._read(hearing),
                llm_score=hearing.llm_score,
                over=hearing.over_since is not None,
                yes_no=asked and is_yes_no_question(self._last_reply, self._language),
                patience=self.patience.factor,
                voiced_ms=hearing.voiced_blocks * _BLOCK_MS,
            )
        )

    def looked(self, hearing: Hearing, decision: Decision, *, at: float) -> EndpointLooked:
        """`decision` and what it rests on, for those who look on; `text_score` is P(done) by the words alone."""
        text = self._read(hearing)
        return EndpointLooked(
            at=at,
            session=self._desk.session,
            turn=hearing.turn,
            silence_ms=hearing.silence_ms,
            audio_score=hearing.audio_score,
            text_score=None if text is None else done_probability(fitted(), None, text, None),
            llm_score=hearing.llm_score,
            done_probability=decision.done_probability,
            wait_ms=decision.wait_ms,
        )

    def _read(self, hearing: Hearing) -> TextLook | None:
        words = hearing.draft.text if hearing.draft is not None else ""  # a partial's do not go as far as the pause
        return read(words, self._language, asked=is_question(self._last_reply)) if words else None

    def next_look_ms(self, silence_ms: float) -> float:
        return self._endpoint.next_look_ms(silence_ms)

    def look_due(self, hearing: Hearing, decision: Decision) -> bool:
        """Is another look worth the core that it takes for longer than a block?

        None beside a draft, whose words tell more, but for the first, nor while the language model reads them, which
        takes both cores; none that could not change the end any more, or that would hold up the answer to a turn that
        is over.
        """
        if hearing.silence_ms < hearing.next_look_ms or decision.end:
            return False
        if hearing.words_coming or hearing.opinion_coming:
            return False
        return decision.wait_ms > self.next_look_ms(hearing.silence_ms)

    def leave(self, hearing: Hearing, decision: Decision) -> Leave:
        """What may the LLM do with the draft: is it likely enough that this was the end, and nobody being answered?"""
        speculation = self._desk.settings.speculation
        if not speculation.enabled or hearing.over_answer or not self._desk.conduct().speculate:
            return Leave.WAIT
        if hearing.tries_ahead >= speculation.tries:
            return Leave.WAIT
        return Leave.ANSWER if decision.done_probability >= speculation.min_done else Leave.READ

    def interruption(self, hearing: Hearing, answering: Answering, position: int) -> Verdict:
        """What the speech over an answer is, as heard up to sample `position`."""
        return self._barge_in.decide(
            Overlap(
                speaking=answering.audible,
                since_ms=(position - hearing.first_sample) * 1000 / RATE,
                voiced_ms=hearing.voiced_blocks * _BLOCK_MS,
                silence_ms=hearing.silence_ms,
                probability=hearing.voiced_sum / max(1, hearing.voiced_blocks),
                words=hearing.words,
                logprob=hearing.logprob,
                language=self._language,
                pending=hearing.words_coming,
            )
        )

    def not_speech(self, hearing: Hearing, audio: Audio) -> str:
        """Why nobody need be asked for the words in `audio`; "" when there may be some."""
        return worth_transcribing(measure(audio, hearing.voiced_blocks * _BLOCK_MS), self._desk.settings.guards)
