"""What a model writes, minus what nobody should hear: markdown, links, code, tables, emoji, HTML, <think>.

Owns the cleaning while the text streams in. It holds back only what cannot be judged yet: the last unfinished word,
an open link, tag, code block or table row. Words are kept as they are; reading them out is the normaliser's.
"""

import re

_THINK_OPEN = re.compile(r"<\s*(think|thinking|reasoning|scratchpad)\s*>", re.I)
_THINK_CLOSE = re.compile(r"<\s*/\s*(think|thinking|reasoning|scratchpad)\s*>", re.I)
_FENCE = re.compile(r"```|~~~")
_TAG = re.compile(r"</?[a-zA-Z][^<>\n]{0,200}>")
_IMAGE = re.compile(r"!\[([^\]\n]*)\]\([^)\n]*\)")
_LINK = re.compile(r"\[([^\]\n]*)\]\([^)\n]*\)")
_NOTE = re.compile(r"\[\^?\d+\]")
_URL = re.compile(r"<?\b(?:https?://|www\.)[^\s<>)\]]+>?", re.I)
_RULE = re.compile(r"^\s*(?:[-*_=]\s*){3,}$")
_TABLE_RULE = re.compile(r"^\s*\|?[\s:|-]+\|[\s:|-]*$")
_LEAD = re.compile(r"^\s*(?:#{1,6}\s+|>+\s*|[-*+•‣▪]\s+(?:\[[ xX]\]\s+)?)+")
_EMPHASIS = re.compile(
    r"(?<![\w*])\*{1,3}(?=\S)|(?<=[^\s*])\*{1,3}(?![\w*])|(?<!\w)_{1,3}(?=\w)|(?<=\w)_{1,3}(?!\w)|~~|`+"
)
_ESCAPE = re.compile(r"\\([\\`*_{}\[\]()#+.!|>~-])")
_EMOJI = re.compile(
    "[\U0001f000-\U0001faff\U00002600-\U000027bf\U00002b00-\U00002bff\U0000fe00-\U0000fe0f\U0001f1e6-\U0001f1ff"
    "\U000e0020-\U000e007f\u200d\u20e3\u2190-\u21ff\u2300-\u23ff]+"
)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\u200b\u200e\u200f\u2060\ufeff]")
_SPACES = re.compile(r"[ \t]+")
# A link, a tag or a table row longer than this is none: it is let go as text.
_MOST_HELD = 400


class StreamCleaner:
    """`feed` raw text, get clean text; `flush` gives the rest. One answer each."""

    def __init__(self) -> None:
        self._raw = ""
        self._thinking = False
        self._coding = False
        self._line = ""  # raw text of the present line so far, to know what a line begins with
        self._last = " "  # last character given away

    def feed(self, text: str) -> str:
        """What has become certain with `text`; often nothing, and never more than an unfinished word behind."""
        self._raw += text
        return self._take(last=False)

    def flush(self) -> str:
        """The rest. An open code block or <think> is dropped, an open link or tag is text."""
        return self._take(last=True)

    def _take(self, *, last: bool) -> str:
        out: list[str] = []
        while self._raw:
            before = len(self._raw)
            if self._thinking:
                self._skip_thought(last)
            elif self._coding:
                self._skip_code(last)
            else:
                out.append(self._words(last))
            if len(self._raw) == before:
                break
        return "".join(out)

    def _skip_thought(self, last: bool) -> None:
        close = _THINK_CLOSE.search(self._raw)
        if close:
            self._thinking, self._raw = False, self._raw[close.end() :].lstrip()
        else:
            self._raw = "" if last else self._raw[-16:]  # no more than a closing tag may be under way

    def _skip_code(self, last: bool) -> None:
        close = _FENCE.search(self._raw)
        if close:
            self._coding, self._raw = False, self._raw[close.end() :]
        else:
            self._raw = "" if last else self._raw[-3:]

    def _words(self, last: bool) -> str:
        """Clean as much as is certain of ordinary text, up to the next thought or code block."""
        starts = [m.start() for m in (_THINK_OPEN.search(self._raw), _FENCE.search(self._raw)) if m]
        if starts:
            cut = min(starts)
            text, rest = self._raw[:cut], self._raw[cut:]
            think = _THINK_OPEN.match(rest)
            self._thinking, self._coding = bool(think), not think
            opening = think or _FENCE.match(rest)
            self._raw = rest[opening.end() :] if opening else rest
            return self._clean(text)
        cut = len(self._raw) if last else self._certain(self._raw)
        text, self._raw = self._raw[:cut], self._raw[cut:]
        return self._clean(text)

    def _certain(self, text: str) -> int:
        """How much of `text` no later text can change: whole words, no open link, tag or table row."""
        cut = max(text.rfind(" "), text.rfind("\n"), text.rfind("\t")) + 1
        line = self._line + text[text.rfind("\n", 0, cut) + 1 : cut]
        if line.lstrip().startswith("|") and len(line) < _MOST_HELD:
            cut = text.rfind("\n", 0, cut) + 1
        for opened, closed in (("[", ")"), ("<", ">")):
            at = text.rfind(opened, 0, cut)
            if at >= 0 and closed not in text[at:cut] and len(text) - at < _MOST_HELD and _may_open(text, at):
                cut = at
        return cut

    def _clean(self, text: str) -> str:
        """`text` ends at a certain place; lines are judged by what they begin with."""
        out = []
        for piece in text.splitlines(keepends=True):
            begun = bool(self._line.strip())
            self._line += piece
            out.append(self._inline(piece if begun else self._lead(piece)))
            if piece.endswith("\n"):
                self._line = ""
        return self._spaced("".join(out))

    def _lead(self, piece: str) -> str:
        """The beginning of a line without heading, bullet or quote marks; a table row as its cells."""
        body = piece.rstrip("\n")
        end = piece[len(body) :]
        if _RULE.match(body) or _TABLE_RULE.match(body):
            return end
        if body.lstrip().startswith("|"):
            return ", ".join(cell.strip() for cell in body.strip().strip("|").split("|") if cell.strip()) + "." + end
        return _LEAD.sub("", body) + end

    def _inline(self, text: str) -> str:
        text = _LINK.sub(r"\1", _IMAGE.sub(r"\1", text))
        text = _URL.sub("", _NOTE.sub("", text))
        text = _TAG.sub(" ", text)
        text = _ESCAPE.sub(r"\1", _EMPHASIS.sub("", text))
        return _CONTROL.sub("", _EMOJI.sub("", text))

    def _spaced(self, text: str) -> str:
        """One space between words across pieces, none before a comma that lost its word."""
        text = re.sub(r" +(?=[,.;:!?](?:\s|$))", "", _SPACES.sub(" ", text))
        if self._last.isspace():
            text = text.lstrip(" ") if self._last != "\n" else text.lstrip()
        if text:
            self._last = text[-1]
        return text


def _may_open(text: str, at: int) -> bool:
    """Whether the bracket at `at` can begin a link or a tag: "a < b" does not."""
    behind = text[at + 1 : at + 2]
    if text[at] == "<":
        return behind in ("/", "") or behind.isalpha()
    closing = text.find("]", at)
    return closing < 0 or text[closing + 1 : closing + 2] in ("(", "")
