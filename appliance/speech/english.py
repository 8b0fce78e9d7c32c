"""English as it is read aloud: the rules and their order.

Each rule is a pattern and what is said for a match. Order matters: what has the most context goes first (an e-mail
address before an at sign, money before numbers, a range before a minus), plain numbers go last.
"""

import re
from collections.abc import Callable

from appliance.speech.english_words import (
    ABBREVIATIONS,
    CURRENCIES,
    FRACTIONS,
    MONTHS,
    NUMBERED,
    REGNAL,
    SPELLED,
    SYMBOLS,
    UNITS,
    WORD_ACRONYMS,
)
from appliance.speech.numbers import cardinal, decimal, digits, ordinal, year

_Match = re.Match[str]
_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_SCALE = {"k": "thousand", "m": "million", "mn": "million", "b": "billion", "bn": "billion", "t": "trillion"}
_MONTH = "|".join(sorted((*MONTHS, *(f"{m[:3]}\\.?" for m in MONTHS if m != "May"), "Sept\\.?"), key=len, reverse=True))
_UNIT = "|".join(re.escape(u) for u in sorted(UNITS, key=len, reverse=True))
_NAME_TITLES = "|".join(re.escape(a) for a in sorted(ABBREVIATIONS, key=len, reverse=True))
_ROMAN = r"(?=[IVXLCDM])M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})"


def normalise_english(text: str) -> str:
    """`text` as it is said. Never raises; words it does not know stay."""
    text = text.translate(_QUOTES)
    for pattern, said in _RULES:
        text = pattern.sub(said, text)
    return re.sub(r"\s+", " ", re.sub(r"\s+([,.;:!?])", r"\1", text)).strip()


_QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "\u00a0": " ", "\u202f": " ", "−": "-", "‑": "-"})


def _amount(number: str) -> str:
    return decimal(number.replace(",", ""))


def _email(m: _Match) -> str:
    spoken = m.group().replace(".", " dot ").replace("@", " at ").replace("_", " underscore ").replace("-", " dash ")
    return re.sub(r"\d+", lambda d: digits(d.group()), spoken)


def _money(m: _Match) -> str:
    sign, number, scale = m["sign"], m["number"].replace(",", ""), m["scale"]
    one, many, cent, cents = CURRENCIES[sign]
    minus = "minus " if m["minus"] else ""
    if scale:
        return f"{minus}{decimal(number)} {_SCALE.get(scale.lower(), scale.lower())} {many}"
    whole, _, part = number.partition(".")
    if len(part) not in (0, 2) or not cent:
        return f"{minus}{decimal(number)} {many}"
    units, small = int(whole), int(part or 0)
    said = [f"{cardinal(units)} {one if units == 1 else many}"] if units or not small else []
    if small:
        said.append(f"{cardinal(small)} {cent if small == 1 else cents}")
    return minus + " and ".join(said)


def _money_behind(m: _Match) -> str:
    one, many, _, _ = CURRENCIES[m["sign"]]
    return f"{_amount(m['number'])} {one if m['number'] == '1' else many}"


def _clock(m: _Match) -> str:
    hour, minute, half = int(m["hour"]), int(m["minute"]), _half(m["half"])
    if hour > 24 or minute > 59:
        return m.group()
    if m["second"]:
        return f"{cardinal(hour)} {_minute(minute)} and {cardinal(int(m['second']))} seconds{half}"
    if minute == 0:
        if half:
            return f"{cardinal(hour)}{half}"
        return f"{cardinal(hour)} o'clock" if 1 <= hour <= 12 else f"{cardinal(hour)} hundred" if hour else "midnight"
    return f"{cardinal(hour)} {_minute(minute)}{half}"


def _minute(minute: int) -> str:
    return cardinal(minute) if minute >= 10 else f"oh {cardinal(minute)}" if minute else "o'clock"


def _half(half: str | None) -> str:
    return "" if not half else " a m" if half.lower().startswith("a") else " p m"


def _hour(m: _Match) -> str:
    return f"{cardinal(int(m['hour']))}{_half(m['half'])}"


def _iso_date(m: _Match) -> str:
    month, day = int(m["month"]), int(m["day"])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return m.group()
    return f"{MONTHS[month - 1]} {ordinal(day)}, {year(int(m['year']))}"


def _slash_date(m: _Match) -> str:
    first, second, whole = int(m["a"]), int(m["b"]), m["year"]
    month, day = (first, second) if first <= 12 else (second, first)
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return m.group()
    number = int(whole) if len(whole) == 4 else 2000 + int(whole)
    return f"{MONTHS[month - 1]} {ordinal(day)}, {year(number)}"


def _full_month(name: str) -> str:
    return next((m for m in MONTHS if m[:3].lower() == name[:3].lower()), name)


def _month_day(m: _Match) -> str:
    said = f"{_full_month(m['month'])} {ordinal(int(m['day']))}"
    return f"{said}, {year(int(m['year']))}" if m["year"] else said


def _day_month(m: _Match) -> str:
    said = f"the {ordinal(int(m['day']))} of {_full_month(m['month'])}"
    return f"{said}, {year(int(m['year']))}" if m["year"] else said


def _month_year(m: _Match) -> str:
    return f"{_full_month(m['month'])} {year(int(m['year']))}"


def _unit(m: _Match) -> str:
    one, many = UNITS[m["unit"]]
    number = m["number"]
    minus = "minus " if m["minus"] else ""
    return f"{minus}{_amount(number)} {one if number == '1' else many}"


def _feet(m: _Match) -> str:
    inches = f" {cardinal(int(m['inches']))}" if m["inches"] else " feet"
    return f"{cardinal(int(m['feet']))}{' foot' if m['inches'] else ''}{inches}"


def _range(m: _Match) -> str:
    a, b = m["a"], m["b"]
    both_years = len(a) == 4 and len(b) in (2, 4) and 1100 <= int(a) <= 2099
    if both_years:
        last = year(int(b)) if len(b) == 4 else cardinal(int(b))
        return f"{year(int(a))} to {last}"
    return f"{_amount(a)} to {_amount(b)}"


def _phone(m: _Match) -> str:
    groups = re.findall(r"\d+", m.group())
    plus = "plus " if m.group().startswith("+") else ""
    return plus + ", ".join(digits(group) for group in groups)


def _fraction(m: _Match) -> str:
    top, bottom = int(m["top"]), int(m["bottom"])
    whole = f"{cardinal(int(m['whole']))} and " if m["whole"] else ""
    if bottom in FRACTIONS:
        one, many = FRACTIONS[bottom]
        return f"{whole}{'a' if whole and top == 1 else cardinal(top)} {one if top == 1 else many}"
    if bottom == 0 or bottom > 20 or top > bottom:
        return f"{whole}{cardinal(top)} over {cardinal(bottom)}"
    return f"{whole}{cardinal(top)} {ordinal(bottom)}{'' if top == 1 else 's'}"


def _decade(m: _Match) -> str:
    number = m["year"] or m["bare"]
    tens = int(number[-2:])
    if tens == 0:
        return f"{cardinal(int(number[:2]))} hundreds" if len(number) == 4 and number != "2000" else "two thousands"
    word = cardinal(tens)
    plural = word[:-1] + "ies" if word.endswith("y") else word + "s"
    return f"{cardinal(int(number[:2]))} {plural}" if len(number) == 4 else plural


def _roman(m: _Match) -> str:
    name, number = m["name"], _roman_value(m["roman"])
    if name in REGNAL:
        return f"{name} the {ordinal(number)}"
    if name in NUMBERED or number > 1:
        return f"{name} {cardinal(number)}"
    return m.group()


def _roman_value(roman: str) -> int:
    values = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
    total = 0
    for a, b in zip(roman, (*roman[1:], ""), strict=False):
        total += -values[a] if b and values[a] < values[b] else values[a]
    return total


def _saint(m: _Match) -> str:
    return "Saint " if m["name"] is not None else "Street"


def _abbreviation(m: _Match) -> str:
    return ABBREVIATIONS[m["short"]]


def _acronym(m: _Match) -> str:
    word, plural = m["word"], m["plural"] or ""
    if word in WORD_ACRONYMS:
        return m.group()
    if word in SPELLED or len(word) <= 3 or not re.search("[AEIOUY]", word):
        return " ".join(word) + ("s" if plural else "")
    return m.group()


def _dotted(m: _Match) -> str:
    return " ".join(m.group().replace(".", "")) + " "


def _version(m: _Match) -> str:
    parts = " point ".join(cardinal(int(part)) for part in m["number"].split("."))
    return f"version {parts}" if m["v"] else parts


def _year(m: _Match) -> str:
    return m["before"] + year(int(m["year"]))


def _bare_year(m: _Match) -> str:
    return year(int(m.group()))


def _plain(m: _Match) -> str:
    number = m["number"].replace(",", "")
    minus = "minus " if m["minus"] else ""
    if len(number) > 1 and number[0] == "0" and "." not in number:
        return minus + digits(number)
    return minus + decimal(number)


def _symbol(m: _Match) -> str:
    return f" {SYMBOLS[m.group()]} "


_Said = Callable[[_Match], str] | str
_RULES: tuple[tuple[re.Pattern[str], _Said], ...] = tuple(
    (re.compile(pattern, flags), said)
    for pattern, flags, said in (
        (r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b", 0, _email),
        (r"\b(?P<v>[vV])(?P<number>\d+(?:\.\d+)*)\b", 0, _version),
        (r"(?P<v>)\b(?P<number>\d+(?:\.\d+){2,})\b", 0, _version),
        (
            rf"(?P<minus>-)?(?P<sign>US\$|[$€£¥₹])\s?(?P<number>{_NUMBER})"
            r"(?:\s?(?P<scale>thousand|million|billion|trillion|bn|mn|[kKmMbB])\b)?",
            0,
            _money,
        ),
        (rf"(?P<number>{_NUMBER})\s?(?P<sign>[€£¥₹])", 0, _money_behind),
        (r"\b(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})\b", 0, _iso_date),
        (r"\b(?P<a>\d{1,2})/(?P<b>\d{1,2})/(?P<year>\d{4}|\d{2})\b", 0, _slash_date),
        (
            r"\b(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?(?:\s?(?P<half>[aApP]\.?\s?[mM]\b\.?))?",
            0,
            _clock,
        ),
        (r"\b(?P<hour>\d{1,2})\s?(?P<half>[aApP]\.?[mM]\b\.?)", 0, _hour),
        (
            rf"\b(?P<month>{_MONTH})\s(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s(?P<year>[12]\d{{3}})\b)?",
            0,
            _month_day,
        ),
        (
            rf"\b(?:the\s)?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s(?:of\s)?(?P<month>{_MONTH})\b(?:,?\s(?P<year>[12]\d{{3}})\b)?",
            0,
            _day_month,
        ),
        (rf"\b(?P<month>{_MONTH}),?\s(?P<year>[12]\d{{3}})\b", 0, _month_year),
        (r"(?<![\w/-])\+?\d{1,3}[-\s]\(?\d{3}\)?[-\s]\d{3}[-\s]\d{4}\b", 0, _phone),
        (r"(?<![\w/-])\(?\d{3}\)?[-\s]\d{3}-\d{4}\b|(?<![\w/-])\d{3}-\d{4}\b", 0, _phone),
        (rf"(?P<number>{_NUMBER})\s?%", 0, lambda m: f"{_amount(m['number'])} percent"),
        (r"\b(?P<feet>\d)'\s?(?:(?P<inches>\d{1,2})(?:\"|''))", 0, _feet),
        (
            rf"(?<![\w.])(?P<minus>-)?(?P<number>{_NUMBER})\s?(?P<unit>{_UNIT})(?![\w°/²³])",
            0,
            _unit,
        ),
        (
            r"\b(?:the\s)?(?P<year>\d{4})'?(?P<bare>)s\b",
            0,
            lambda m: ("the " if m.group()[0] == "t" else "") + _decade(m),
        ),
        (r"(?<!\w)'(?P<year>\d0)s\b|(?<=the )(?P<bare>\d0)s\b", 0, _decade),
        (r"\b(?P<n>\d+)(?:st|nd|rd|th)\b", 0, lambda m: ordinal(int(m["n"]))),
        (r"\b24/7\b", 0, "twenty-four seven"),
        (r"\b9/11\b", 0, "nine eleven"),
        (r"(?<![\w/])(?:(?P<whole>\d+)\s)?(?P<top>\d+)/(?P<bottom>\d+)(?![\w/])", 0, _fraction),
        (rf"(?<![\w.-])(?P<a>{_NUMBER})\s?[-–—]\s?(?P<b>{_NUMBER})(?![\w-])", 0, _range),
        (
            rf"\b(?P<name>{'|'.join((*NUMBERED, *REGNAL))})\s(?P<roman>{_ROMAN})\b(?!')",
            0,
            _roman,
        ),
        (rf"\b(?P<name>[A-Z][a-z]+)\s(?P<roman>(?=[IVX]{{2,}}){_ROMAN})\b(?!')", 0, _roman),
        (r"\bSt\.(?:\s(?P<name>(?=[A-Z]))|)", 0, _saint),
        (rf"(?<!\w)(?P<short>{_NAME_TITLES})(?!\w)", 0, _abbreviation),
        (r"\b(?:[A-Z]\.){2,}", 0, _dotted),
        (r"\b(?P<word>[A-Z]{2,6})(?P<plural>s)?\b", 0, _acronym),
        (
            r"\b(?P<before>(?:in|since|from|by|until|till|of|year|around|circa|before|after|during|early|late|mid)\s)"
            r"(?P<year>1[1-9]\d{2}|20\d{2})\b(?![,.]\d)",
            re.I,
            _year,
        ),
        (r"(?<![\d,.])(?:19\d{2}|20[0-9]{2})(?![\d,%]|\.\d)", 0, _bare_year),
        (r"(?<=\d)\s?[x×*]\s?(?=\d)", 0, " times "),
        (r"(?<=\d)\s?÷\s?(?=\d)|(?<=\d)\s/\s(?=\d)", 0, " divided by "),
        (r"(?<=\d)\s?\+\s?(?=\d)", 0, " plus "),
        (r"(?<=\d)\s-\s(?=\d)", 0, " minus "),
        (r"#(?=\d)|\bNos?\.\s?(?=\d)", 0, "number "),
        (r"(?<!\w)~\s?(?=\d)", 0, "about "),
        (r"(?<!\w)<\s?(?=\d)", 0, "less than "),
        (r"(?<!\w)>\s?(?=\d)", 0, "more than "),
        (r"(?<=\d)¢", 0, " cents"),
        (r"(?<=\d)(?=[A-Z]\b)", 0, " "),  # 5G, 4K, 3D
        (rf"(?<![\w.])(?P<minus>-)?(?P<number>{_NUMBER})", 0, _plain),
        (r"(?P<minus>)(?P<number>\d+)", 0, lambda m: f" {_plain(m)} "),
        (r"\band/or\b", 0, "and or"),
        ("|".join(re.escape(s) for s in SYMBOLS), 0, _symbol),
        (r"(?<=\w)/(?=\w)", 0, " slash "),
        (r"\.{3,}|…", 0, ", "),
        (r"\s[—–-]\s|—", 0, ", "),
        (r"[\"“”«»*_\\|{}\[\]<>^`~]", 0, " "),
    )
)
