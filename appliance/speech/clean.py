"""What a model writes, minus what nobody should hear: markdown, links, code, tables, emoji, HTML, <think>.

Owns the cleaning while the text streams in, one unit after another: a word, or a link, tag, formula or table row with
what clings to it. Where a unit ends depends on the text alone, so the result is the same however the stream is cut.
It holds back one unit, `_MOST` characters at most. Words are kept as they are; reading them out is the normaliser's.
"""

import html
import re

from appliance.speech.tex import plain_formula

_MOST = 400  # a link, a formula or a table row longer than this is none: it is let go as text
_THOUGHT = "think|thinking|reasoning|scratchpad"
_THINK_OPEN = re.compile(rf"<(?:{_THOUGHT})>", re.I)
_THINK_CLOSE = re.compile(rf"</(?:{_THOUGHT})>", re.I)
_FENCE = re.compile(r"`{3,}|~{3,}")
_TAG = re.compile(r"</?[a-zA-Z][^<>\n]{0,200}>|<!--.*?-->", re.S)
_LINK = re.compile(r"!?\[([^\[\]\n]*)\](?:\([^()\n]*(?:\([^()\n]*\)[^()\n]*)*\)|\[[^\]\n]*\])")
_NOTE = re.compile(r"\[\^?\d+\]|\[\^[^\]\s]+\]")
_URL = re.compile(
    r"<?\b(?:https?://|www\.)(?:www\.)?(\w[^\s<>()\[\]/?#]*?)(?:[/?#][^\s<>()\[\]]*?)?>?(?=[.,;:!?]*(?:[\s)\]]|$))",
    re.I,
)
_FORMULA = re.compile(r"\\\(([^\n]+?)\\\)|\\\[(.+?)\\\]|\$\$(.+?)\$\$|\$([A-Za-z\\][^$\s]*)\$", re.S)
_RULE_SIGNS = re.compile(r"[-*_=|:+ \t]*")
_LEAD = re.compile(r"[^\S\n]*(?:#{1,6}[^\S\n]+|>+[^\S\n]*|[-*+•‣▪◦][^\S\n]+(?:\[[ xX]\][^\S\n]+)?)*")
# The end of what there is of a line that may become one of the marks above, or a longer one.
_LEAD_UNDER_WAY = re.compile(r"(?:#{1,6}|>+|[-*+•‣▪◦]|\[[ xX]?\]?)?")
_DEFINITION = re.compile(r"\[[^\]\n]{1,80}\]:")
_DEFINITION_UNDER_WAY = re.compile(r"\[[^\]\n]{0,80}\]?")
_EMPHASIS = re.compile(
    r"(?<![\d*])\*{2,3}(?=[^\s*])|(?<=[^\s*])\*{2,3}(?![\d*])|(?<![\w*])\*(?=[^\s*])|(?<=[^\s*])\*(?![\w*])|"
    r"(?<!\w)_{1,3}(?=\w)|(?<=[^\s_])_{1,3}(?!\w)|~~|`+"
)
_ESCAPE = re.compile(r"\\([\\`*_{}\[\]()#+.!|>~$-])")
_HIDDEN = 0xE000  # an escaped sign stands in the private use area until markup is gone
_SHOWN = {_HIDDEN + code: code for code in range(128)}
_EMOJI = re.compile(
    "[\U0001f000-\U0001faff\U00002600-\U000027bf\U00002b00-\U00002bff\U0000fe00-\U0000fe0f\U000e0020-\U000e007f"
    "\u200d\u20e3\u2300-\u23ff]+"
)
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f\u00ad\u200b\u200c\u200e\u200f\u2060\ufeff]")
_OPENINGS = {"[": "]", "<": ">", "\\(": "\\)", "\\[": "\\]", "$$": "$$"}
_STOP = re.compile(r"\s|[。！？，、；：]|[\[<`~$]|\\[(\[]")


class StreamCleaner:
    """`feed` raw text, get clean text; `flush` gives the rest. One answer each."""

    def __init__(self) -> None:
        self._raw = ""
        self._skip = ""  # "thought", "code" or "line" while what comes is not for the ear
        self._fresh = True  # at the beginning of a line
        self._gap = ""  # white space not yet given away
        self._begun = False

    def feed(self, text: str) -> str:
        """What has become certain with `text`; often nothing, and never more than a unit behind."""
        self._raw += text
        return self._take(last=False)

    def flush(self) -> str:
        """The rest. An open code block or <think> is dropped, an open link or tag is text."""
        return self._take(last=True)

    def _take(self, *, last: bool) -> str:
        out: list[str] = []
        while self._raw:
            if self._skip:
                moved = self._skipped(last)
            elif self._raw[0].isspace():
                self._space(self._raw[0])
                self._raw = self._raw[1:]
                moved = True
            else:
                moved = self._unit(out, last)
            if not moved:
                break
        if self._gap and not self._skip and self._raw[:1].isalnum():
            out.append(self._given_gap())  # a clause may end here: nobody need wait for the next word
        return "".join(out)

    def _space(self, sign: str) -> None:
        if sign == "\n":
            self._fresh = True
            self._gap = "\n"
        elif not self._gap:
            self._gap = " "

    def _given_gap(self) -> str:
        gap, self._gap = self._gap, ""
        return gap if self._begun else ""

    def _skipped(self, last: bool) -> bool:
        """Drop what is not for the ear; whether anything is left to do with the rest."""
        if self._skip == "line":
            at = self._raw.find("\n")
            self._raw = self._raw[at:] if at >= 0 else ""
            if at >= 0:
                self._skip = ""
            return at >= 0
        close = (_THINK_CLOSE if self._skip == "thought" else _FENCE).search(self._raw)
        if close and (close.end() < len(self._raw) or last or self._skip == "thought"):
            self._skip, self._raw = "", self._raw[close.end() :]
            return True
        if not close:
            self._raw = self._raw[-14:]  # a closing mark may be under way
        return False

    def _unit(self, out: list[str], last: bool) -> bool:
        """Give the next unit, if it is certain where it ends."""
        if self._fresh:
            begun = self._line_begins(out, last)
            if begun is not None:
                return begun
        end = self._end(last)
        if end is None:
            return False
        opening = _THINK_OPEN.match(self._raw) or _FENCE.match(self._raw)
        if end == 0 and opening:
            self._skip = "thought" if self._raw[0] == "<" else "code"
            self._raw = self._raw[opening.end() :]
            return True
        unit, self._raw = self._raw[:end], self._raw[end:]
        self._give(out, _inline(unit))
        return True

    def _give(self, out: list[str], text: str) -> None:
        if not text:
            return
        if re.fullmatch(r"[,.;:!?]+", text) and self._gap == " ":
            self._gap = ""  # what stood before it is gone
        out += (self._given_gap(), text)
        self._begun = True

    def _line_begins(self, out: list[str], last: bool) -> bool | None:
        """Deal with what makes a line special. None: ordinary words follow; else whether there was progress."""
        newline = self._raw.find("\n", 0, _MOST)
        line = self._raw[: newline if newline >= 0 else _MOST]
        whole = newline >= 0 or last or len(line) == _MOST
        if len(line) < _MOST and (line.startswith("|") or _RULE_SIGNS.fullmatch(line)):
            if not whole:
                return False
            if line.startswith("|") or len(re.sub(r"\s", "", line)) >= 3:
                self._raw = self._raw[len(line) :]
                self._give(out, _row(line))
                return True
        if _DEFINITION.match(line):
            self._skip = "line"
            return True
        lead = _LEAD.match(line)
        rest = line[lead.end() :] if lead else line
        if not whole and (_LEAD_UNDER_WAY.fullmatch(rest) or _DEFINITION_UNDER_WAY.fullmatch(line)):
            return False
        self._fresh = False
        self._raw = self._raw[len(line) - len(rest) :]
        return None if rest else True

    def _end(self, last: bool) -> int | None:
        """Where the unit at the beginning of `_raw` ends; None while that is open."""
        raw, at = self._raw, 0
        while True:
            stop = _STOP.search(raw, at)
            if at >= _MOST or (stop is None and len(raw) >= _MOST) or (stop and stop.start() >= _MOST):
                return _MOST
            if stop is None:
                return len(raw) if last else None
            sign = stop.group()
            if sign.isspace():
                return stop.start()
            if sign in "。！？，、；：":
                return stop.end()
            if sign in "`~<":
                mark = _THINK_OPEN.match(raw, stop.start()) or _FENCE.match(raw, stop.start())
                if mark:
                    return stop.start() if mark.end() < len(raw) or last or sign == "<" else None
            if sign == "$" and raw.startswith("$$", stop.start()):
                sign = "$$"
            ahead = self._construct(stop.start(), sign, last) if sign in _OPENINGS else stop.end()
            if ahead is None:
                return None
            at = ahead

    def _construct(self, at: int, sign: str, last: bool) -> int | None:
        """Behind the link, tag or formula that opens at `at`, or behind its sign if it is none; None while open."""
        raw = self._raw
        room = raw[at:_MOST]
        spent = last or len(raw) >= _MOST  # nothing that comes can change the verdict
        if sign == "<" and not spent and len(room) < 5 and "<!--".startswith(room[:4]):
            return None
        if sign == "<" and not re.match(r"</?[a-zA-Z]|<!--|<$|</$", room):
            return at + 1
        for pattern in (_TAG, _LINK, _FORMULA) if sign != "[" else (_LINK,):
            found = pattern.match(room)
            if found:
                return at + found.end()
        closing = "-->" if room.startswith("<!--") else _OPENINGS[sign]
        close = room.find(closing, 4 if closing == "-->" else len(sign) + (sign != "["))
        if sign == "[" and close >= 0 and room[close + 1 : close + 2] not in ("(", "[", ""):
            return at + close + 1
        wide = closing in ("\\]", "$$", "-->")  # these may go over lines
        if spent or ("\n" in room and not wide) or (close >= 0 and sign != "["):
            return at + len(sign)
        return None


def _row(line: str) -> str:
    """The cells of a table's row with commas; nothing for the row of dashes, or another rule."""
    if _RULE_SIGNS.fullmatch(line):
        return ""
    return ", ".join(filter(None, (_inline(cell).strip() for cell in line.strip().strip("|").split("|")))) + "."


def _inline(unit: str) -> str:
    """One unit without markup."""
    formulas: list[str] = []

    def keep(m: re.Match[str]) -> str:
        formulas.append(plain_formula(next(filter(None, m.groups()))))
        return f"{chr(_HIDDEN + 128)}{len(formulas) - 1}{chr(_HIDDEN + 129)}"

    text = re.sub(f"[{chr(_HIDDEN)}-{chr(_HIDDEN + 129)}]", "", unit)
    text = _ESCAPE.sub(lambda m: chr(_HIDDEN + ord(m[1])), _FORMULA.sub(keep, text))
    text = _LINK.sub(r"\1", text)
    text = _URL.sub(r"\1", _NOTE.sub("", text))
    text = html.unescape(_TAG.sub("", text))
    text = "," if text == "|" else _EMPHASIS.sub("", text)
    text = _CONTROL.sub("", _EMOJI.sub("", text)).translate(_SHOWN)
    for i, formula in enumerate(formulas):
        text = text.replace(f"{chr(_HIDDEN + 128)}{i}{chr(_HIDDEN + 129)}", formula)
    return " ".join(text.split())
