"""Words to tokens: the chat format in tokens, prompts for one turn, settled turns.

Owns every tokenisation of a conversation. It reads a seat's turns but changes nothing, and knows no KV.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from appliance.engines.llama.binding import Model
from appliance.engines.llama.seat import Job, Seat, Turn
from appliance.engines.llama.settings import LlamaSettings
from appliance.engines.llama.template import CHATML, chat_format
from appliance.engines.llama.words import merge, same_words, split_end, spoken_end
from appliance.engines.ports import Message
from appliance.errors import ModelFileError, UsageError

# After a person's last word, these say "that was all".
_END_MARKS = (".", "?", "!", "\n", ".\n", "?\n", "!\n", "\n\n", ".\n\n", "?\n\n", "!\n\n")


@dataclass(frozen=True, slots=True)
class Prompt:
    """Private tokens of a turn. `probe`, `words_end` and `note_end` are places in them (see `Job`)."""

    tokens: list[int]
    words: str
    probe: int
    words_end: int
    note_end: int


class Prompts:
    """The chat format of one model with one system prompt. Raises ModelFileError or UsageError when it has none."""

    def __init__(self, model: Model, settings: LlamaSettings) -> None:
        self._model = model
        if settings.chat_format not in ("", "chatml"):
            raise UsageError(f"unknown chat_format {settings.chat_format!r}", 'use "" or "chatml"')
        template = CHATML if settings.chat_format == "chatml" else model.chat_template()
        if not template:
            raise ModelFileError(
                f"{model.path.name} has no chat template", 'choose a chat model, or set chat_format = "chatml"'
            )
        bos, eos = model.special_text(model.bos), model.special_text(model.eos)
        form = chat_format(template, settings.system_prompt, bos=bos, eos=eos)
        head = form.head if not model.adds_bos or form.head.startswith(bos) else bos + form.head
        self.head = model.tokenize(head, special=True)
        self.middle = model.tokenize(form.middle, special=True)
        self.between = model.tokenize(form.between, special=True)
        # A SentencePiece vocabulary may put the space before words by itself.
        self._lead = "" if b"".join(map(model.piece, model.tokenize("a"))).startswith(b" ") else form.lead
        # A model that opens the next turn itself has ended its own.
        self.stops = frozenset([token for token in self.between if model.is_control(token)][:2])
        marks = [tokens[0] for tokens in map(model.tokenize, _END_MARKS) if len(tokens) == 1]
        ends = [token for token in (model.eos, *self.between[:1]) if token >= 0 and model.ends(token)]
        self.turn_ends = sorted(set(marks + ends))

    def compose(self, seat: Seat, words: str, note: str, *, answering: bool) -> Prompt:
        """The private tokens wanted for `words`: up to the last word, or to where an answer begins."""
        text = merge(seat.draft, words)
        tokens, stem = self.word_tokens(f"{seat.open_words} {text}".strip())
        want = seat.base()
        probe = len(want) + stem if stem else 0
        want += tokens
        if not answering:
            return Prompt(want[:probe] if probe else want, text, probe, len(want), len(want))
        words_end = note_end = len(want)
        if note.strip():
            want += self._model.tokenize(f"\n{note.strip()}")
            note_end = len(want)
        return Prompt(want + self.middle, text, probe, words_end, note_end)

    def word_tokens(self, text: str) -> tuple[list[int], int]:
        """Tokens of a person's words, and how many of them reach to the end of the last word."""
        if not text:
            return [], 0
        stem, tail = split_end(text)
        stem_tokens = self._model.tokenize(self._lead + stem)
        if not tail:
            return stem_tokens, len(stem_tokens)
        whole = self._model.tokenize(self._lead + stem + tail)
        if whole[: len(stem_tokens)] != stem_tokens:
            whole = stem_tokens + self._model.tokenize(tail)
        return whole, len(stem_tokens)

    def turn(self, seat: Seat, heard: str, reply: str, air: Job | None = None) -> Turn:
        """A settled exchange, in the tokens that lie in the KV (`air`) wherever they say the same."""
        words, text = heard.strip(), reply.strip()
        if air is not None and same_words(air.words, words):
            tokens = air.want[len(seat.base()) : air.words_end]
        else:
            tokens, _ = self.word_tokens(f"{seat.open_words} {words}".strip())
        said = self._reply_tokens(text, air)
        return Turn(f"{seat.open_words} {words}".strip(), text, tokens + self.middle + said + self.between)

    def _reply_tokens(self, spoken: str, air: Job | None) -> list[int]:
        """Whole tokens of the answer as far as it was spoken; what ends inside a token is written anew."""
        if air is None or not air.drawn:
            return self._model.tokenize(spoken)
        pieces = [self._model.piece(token) for token in air.drawn]
        generated = b"".join(pieces).decode("utf-8", "replace")
        end = spoken_end(generated, spoken)
        if end is None:
            return self._model.tokenize(spoken)
        said = generated[:end].encode()
        size = kept = 0
        while kept < len(pieces) and size + len(pieces[kept]) <= len(said):
            size += len(pieces[kept])
            kept += 1
        rest = said[size:].decode("utf-8", "replace")
        tail, own = split_end(spoken)[1], split_end(generated[:end])[1]
        rest += tail.removeprefix(own) if tail.startswith(own) else ""
        return air.drawn[:kept] + (self._model.tokenize(rest) if rest else [])


def pairs(history: Sequence[Message]) -> list[tuple[str, str]]:
    """Messages as (words, reply), whatever their order: equal roles in a row are joined."""
    out: list[tuple[str, str]] = []
    for message in history:
        words, reply = out[-1] if out else ("", "")
        if message.role == "assistant":
            if not out:
                out.append(("", ""))
            out[-1] = (words, f"{reply} {message.text}".strip())
        elif out and not reply:
            out[-1] = (f"{words} {message.text}".strip(), "")
        else:
            out.append((message.text.strip(), ""))
    return out
