"""Sums in words and figures: "what is seventeen times 12", "15 percent of 80", "the square root of 144".

Pure. The whole sentence must be a sum, else there is no answer: "two plus two makes a family" is not one.
"""

import operator
import re
from fractions import Fraction
from math import isqrt

_LEAD = re.compile(
    r"^(?:please |can you |could you |tell me |calculate |compute |work out |what is|what's|whats|how much is|"
    r"how much are|what does|what do you get if you|and )+\s*",
    re.I,
)
_TAIL = re.compile(r"\s*(?:make|equal|equals|please|\?|\.)+$", re.I)
_UNITS = {w: n for n, w in enumerate(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen".split())}  # fmt: skip
_TENS = {w: 10 * n for n, w in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)}
_SCALES = {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_OPERATORS = (
    (r"multiplied by|times|×|x|\*", "*"),
    (r"divided by|over|÷|/", "/"),
    (r"plus|added to|\+", "+"),
    (r"minus|less|take away|-|−|–", "-"),
    (r"to the power of|\^", "^"),
)
_OPERATE = {"*": operator.mul, "/": operator.truediv, "+": operator.add, "-": operator.sub}
_MOST = 10**15
# The hyphen of "twenty-one" is no minus.
_COMPOUND = re.compile(rf"\b({'|'.join(_TENS)})-({'|'.join(list(_UNITS)[1:10])})\b")
# Orders, as the sums they mean.
_ORDERS = (
    (re.compile(r"^add (.+?) (?:and|to) (.+)$"), r"\1 plus \2"),
    (re.compile(r"^multiply (.+?) (?:by|and) (.+)$"), r"\1 times \2"),
    (re.compile(r"^divide (.+?) by (.+)$"), r"\1 divided by \2"),
    (re.compile(r"^subtract (.+?) from (.+)$"), r"\2 minus \1"),
    (re.compile(r"^half of (.+)$"), r"\1 divided by 2"),
    (re.compile(r"^(?:double|twice) (.+)$"), r"2 times \1"),
)
# "9/11", "24/7", "50-50" and "4x4" are names; in a sum these signs stand apart.
_NAME = re.compile(r"\d[/x–-]\d")


def solve(said: str) -> str | None:
    """What to say for the sum in `said`; None when it is not one."""
    text = _TAIL.sub("", _LEAD.sub("", said.strip())).strip().lower()
    if not text or len(text) > 120 or _NAME.search(text):
        return None
    text = _COMPOUND.sub(r"\1 \2", text)
    for pattern, meant in _ORDERS:
        text = pattern.sub(meant, text)
    try:
        value = _percentage(text) or _root(text) or _expression(text)
    except ZeroDivisionError:
        return "You cannot divide by zero."
    except _NoSum:
        return None
    question, result = value
    if abs(result) >= _MOST:
        return None
    return f"{question} is {_shown(result)}."


class _NoSum(Exception):
    pass


_Solved = tuple[str, Fraction]


def _percentage(text: str) -> _Solved | None:
    match = re.fullmatch(r"(.+?)\s*(?:%|percent|per cent) of (.+)", text)
    if not match:
        return None
    share, whole = _number(match[1].split()), _number(match[2].split())
    return f"{_shown(share)} percent of {_shown(whole)}", share * whole / 100


def _root(text: str) -> _Solved | None:
    match = re.fullmatch(r"(?:the )?square root of (.+)", text)
    if not match:
        return None
    value = _number(match[1].split())
    if value < 0:
        raise _NoSum
    numerator, denominator = isqrt(value.numerator), isqrt(value.denominator)
    if numerator**2 == value.numerator and denominator**2 == value.denominator:
        return f"The square root of {_shown(value)}", Fraction(numerator, denominator)
    return f"The square root of {_shown(value)}", Fraction(float(value) ** 0.5).limit_denominator(10**6)


def _expression(text: str) -> _Solved:
    """Numbers and operators in turn; times and divided bind tighter than plus and minus."""
    text = re.sub(r"\bsquared\b", "^ 2", re.sub(r"\bcubed\b", "^ 3", text))
    for pattern, sign in _OPERATORS:
        text = re.sub(rf"(?<![a-z])(?:{pattern})(?![a-z])", f" {sign} ", text)
    tokens = re.findall(r"\d[\d,]*(?:\.\d+)?|[a-z]+|[*/+^-]|\S", text)
    numbers: list[Fraction] = []
    signs: list[str] = []
    words: list[str] = []
    for token in tokens:
        if token in "*/+^-" and (words or token != "-"):
            numbers.append(_number(words))
            signs.append(token)
            words = []
        else:
            words.append(token)
    numbers.append(_number(words))
    if not signs:
        raise _NoSum
    said = _read(numbers, signs)
    for tight in ("^", "*/", "+-"):
        numbers, signs = _reduce(numbers, signs, tight)
    return said, numbers[0]


def _reduce(numbers: list[Fraction], signs: list[str], which: str) -> tuple[list[Fraction], list[str]]:
    """Carry out the operators of one rank, from left to right."""
    values, rest = numbers[:1], []
    for sign, number in zip(signs, numbers[1:], strict=True):
        if sign not in which:
            values.append(number)
            rest.append(sign)
            continue
        left = values[-1]
        if sign == "^":
            if number.denominator != 1 or abs(number) > 64 or abs(left) > 10**6:
                raise _NoSum
            values[-1] = left ** int(number)
        else:
            values[-1] = _OPERATE[sign](left, number)
    return values, rest


def _read(numbers: list[Fraction], signs: list[str]) -> str:
    spoken = {"*": "times", "/": "divided by", "+": "plus", "-": "minus", "^": "to the power of"}
    parts = [_shown(numbers[0])]
    for sign, number in zip(signs, numbers[1:], strict=True):
        parts += [spoken[sign], _shown(number)]
    return " ".join(parts)


def _number(words: list[str]) -> Fraction:
    """["seventeen"], ["1,200"], ["minus", "two", "hundred"] as a number. Raises _NoSum for anything else."""
    if not words:
        raise _NoSum
    if words[0] in ("minus", "negative", "-"):
        return -_number(words[1:])
    if words[0] in ("a", "the") and len(words) > 1:
        words = words[1:] if words[0] == "the" else ["one", *words[1:]]
    if re.fullmatch(r"\d[\d,]*(?:\.\d+)?", words[0]):
        number = Fraction(words[0].replace(",", ""))
        for word in words[1:]:
            if word not in _SCALES:
                raise _NoSum
            number *= _SCALES[word]
        return number
    if "point" in words:
        at = words.index("point")
        tail = [_UNITS.get(w, 10) for w in words[at + 1 :]]
        if not tail or max(tail) > 9:
            raise _NoSum
        return _whole(words[:at]) + Fraction(int("".join(map(str, tail))), 10 ** len(tail))
    return _whole(words)


def _whole(words: list[str]) -> Fraction:
    total = part = 0
    for word in (piece for w in words for piece in w.split("-")):
        if word in _UNITS:
            _must_fit(part, _UNITS[word])
            part += _UNITS[word]
        elif word in _TENS:
            _must_fit(part, _TENS[word])
            part += _TENS[word]
        elif word == "hundred" and part < 100:
            part = max(1, part) * 100
        elif word in _SCALES:
            total, part = total + max(1, part) * _SCALES[word], 0
        elif word != "and" or not (total or part):
            raise _NoSum
    return Fraction(total + part)


def _must_fit(before: int, value: int) -> None:
    """ "twenty" takes a "five" behind it; "two five" and "five twenty" are two numbers. Raises _NoSum."""
    tens = before % 100
    if tens and not (tens % 10 == 0 and tens >= 20 and 0 < value < 10):
        raise _NoSum


def _shown(value: Fraction) -> str:
    """At most four decimals, thousands with commas."""
    if value.denominator == 1:
        return f"{value.numerator:,}"
    return f"{float(value):,.4f}".rstrip("0").rstrip(".")
