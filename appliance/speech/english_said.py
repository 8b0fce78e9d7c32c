"""What is said for one match of an English rule: money, clocks, dates, ranges, fractions, Roman numerals, letters.

Each function takes a match of its rule in `english`, whose named groups it reads, and returns words.
"""

import re

from appliance.speech.english_words import (
    ABBREVIATIONS,
    CURRENCIES,
    FRACTIONS,
    LETTERS,
    MONTHS,
    NUMBERED,
    REGNAL,
    SPELLED,
    SYMBOLS,
    UNITS,
    VULGAR,
    WORD_ACRONYMS,
)
from appliance.speech.numbers import cardinal, decimal, digits, ordinal, roman_value, year

Match = re.Match[str]
_SCALE = {"k": "thousand", "m": "million", "mn": "million", "b": "billion", "bn": "billion", "t": "trillion"}
# Before one of these a measure is an adjective: "a twenty dollar bill".
_MEASURED = re.compile(r"\s(?:bill|note|coin|ticket|fine|angle|turn|bulb|bag|bottle|walk|drive|race|screen|monitor)\b")
_SUMS = re.compile(r"[=+×÷*]")
_CAPITALS = re.compile(r"[A-Z]{4,}")


def amount(number: str) -> str:
    return decimal(number.replace(",", ""))


def _minus(m: Match) -> str:
    return "minus " if m["minus"] else ""


def email(m: Match) -> str:
    spoken = m.group().replace(".", " dot ").replace("@", " at ").replace("_", " underscore ").replace("-", " dash ")
    return re.sub(r"\d+", lambda d: digits(d.group()), spoken)


def money(m: Match) -> str:
    said = _money(m["sign"], m["number"].replace(",", ""), m["scale"], _adjective(m))
    return f"{_minus(m)}{said}"


def money_behind(m: Match) -> str:
    return _money(m["sign"], m["number"].replace(",", ""), None, _adjective(m))


def money_range(m: Match) -> str:
    return f"{amount(m['a'])} to {_money(m['sign'], m['b'].replace(',', ''), m['scale'], False)}"


def _money(sign: str, number: str, scale: str | None, adjective: bool) -> str:
    one, many, cent, cents = CURRENCIES[sign]
    if scale:
        return f"{decimal(number)} {_SCALE.get(scale.lower(), scale.lower())} {many}"
    whole, _, part = number.partition(".")
    if len(part) not in (0, 2) or not cent:
        return f"{decimal(number)} {one if number == '1' else many}"
    units, small = int(whole), int(part or 0)
    said = [f"{cardinal(units)} {one if units == 1 or adjective else many}"] if units or not small else []
    if small:
        said.append(f"{cardinal(small)} {cent if small == 1 else cents}")
    return " and ".join(said)


def _adjective(m: Match) -> bool:
    return _MEASURED.match(m.string, m.end()) is not None


def clock(m: Match) -> str:
    hour, minute, half = int(m["hour"]), int(m["minute"]), _half(m["half"], m)
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


def _half(half: str | None, m: Match) -> str:
    if not half:
        return ""
    return (" A.M" if half.lower().startswith("a") else " P.M") + (
        _end(m, before_capital=True) if half.endswith(".") else ""
    )


def _end(m: Match, *, before_capital: bool = False) -> str:
    """The point of an abbreviation ends the sentence too where the text ends, or a new sentence may begin."""
    return "." if (_ENDS_OR_BEGINS if before_capital else _ENDS).match(m.string, m.end()) else ""


_ENDS = re.compile(r"[\"')\]]*\s*$")
_ENDS_OR_BEGINS = re.compile(
    r"[\"')\]]*\s*$|\s+(?!(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|Eastern|Pacific|Central)(?=[A-Z][a-z])"
)


def hour(m: Match) -> str:
    return f"{cardinal(int(m['hour']))}{_half(m['half'], m)}"


def iso_date(m: Match) -> str:
    month, day = int(m["month"]), int(m["day"])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return m.group()
    said = f"{MONTHS[month - 1]} {ordinal(day)}, {year(int(m['year']))}"
    return f"{said}, {m['time']}" if m["time"] else said


def slash_date(m: Match) -> str:
    first, second, whole = int(m["a"]), int(m["b"]), m["year"]
    month, day = (first, second) if first <= 12 else (second, first)
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return m.group()
    number = int(whole) if len(whole) == 4 else 2000 + int(whole)
    return f"{MONTHS[month - 1]} {ordinal(day)}, {year(number)}"


def _full_month(name: str) -> str:
    return next((m for m in MONTHS if m[:3].lower() == name[:3].lower()), name)


def month_day(m: Match) -> str:
    said = f"{_full_month(m['month'])} {ordinal(int(m['day']))}"
    return f"{said}, {year(int(m['year']))}" if m["year"] else said


def day_month(m: Match) -> str:
    said = f"the {ordinal(int(m['day']))} of {_full_month(m['month'])}"
    return f"{said}, {year(int(m['year']))}" if m["year"] else said


def month_year(m: Match) -> str:
    return f"{_full_month(m['month'])} {year(int(m['year']))}"


def unit(m: Match) -> str:
    one, many = UNITS[m["unit"]]
    return f"{_minus(m)}{amount(m['number'])} {one if m['number'] == '1' or _adjective(m) else many}"


def feet(m: Match) -> str:
    return f"{cardinal(int(m['feet']))} foot {cardinal(int(m['inches']))}"


def between(m: Match) -> str:
    """Two numbers with a dash: years, a difference where the text is a sum, else from one to the other."""
    a, b = m["a"], m["b"]
    if len(a) == 4 and len(b) in (2, 4) and a.isdigit() and b.isdigit() and 1100 <= int(a) <= 2099:
        return f"{year(int(a))} to {year(int(b)) if len(b) == 4 else cardinal(int(b))}"
    return f"{amount(a)} {'minus' if _SUMS.search(m.string) else 'to'} {amount(b)}"


def phone(m: Match) -> str:
    groups = re.findall(r"\d+", m.group())
    plus = "plus " if m.group().startswith("+") else ""
    return plus + ", ".join(digits(group) for group in groups)


def address(m: Match) -> str:
    """192.168.1.1, with or without a port."""
    dots = " dot ".join(cardinal(int(part)) for part in m["ip"].split("."))
    return f"{dots} port {digits(m['port'])}" if m["port"] else dots


def fraction(m: Match) -> str:
    top, bottom = int(m["top"]), int(m["bottom"])
    whole = f"{cardinal(int(m['whole']))} and " if m["whole"] else ""
    if not whole and "=" in m.string:
        return f"{cardinal(top)} divided by {cardinal(bottom)}"
    if not whole and bottom in (5, 10, 100) and top > 1:
        return f"{cardinal(top)} out of {cardinal(bottom)}"
    if bottom in FRACTIONS and (top < bottom or whole):
        one, many = FRACTIONS[bottom]
        return f"{whole}{'a' if whole and top == 1 else cardinal(top)} {one if top == 1 else many}"
    if not 2 < bottom <= 20 or top > bottom:
        return f"{whole}{cardinal(top)} over {cardinal(bottom)}"
    return f"{whole}{cardinal(top)} {ordinal(bottom)}{'' if top == 1 else 's'}"


def vulgar(m: Match) -> str:
    said = VULGAR[m["part"]]
    return f"{cardinal(int(m['whole']))} and {said.replace('one ', 'a ')}" if m["whole"] else said


def decade(m: Match) -> str:
    number = next(filter(None, m.groups()))
    tens = int(number[-2:])
    if tens == 0:
        return f"{cardinal(int(number[:2]))} hundreds" if len(number) == 4 and number != "2000" else "two thousands"
    word = cardinal(tens)
    plural = word[:-1] + "ies" if word.endswith("y") else word + "s"
    return f"{cardinal(int(number[:2]))} {plural}" if len(number) == 4 else plural


def roman(m: Match) -> str:
    name, number = m["name"], roman_value(m["roman"])
    if not number:
        return m.group()
    if name in REGNAL:
        return f"{name} the {ordinal(number)}"
    return f"{name} {cardinal(number)}" if name in NUMBERED or number > 1 else m.group()


def roman_century(m: Match) -> str:
    number = roman_value(m["roman"])
    return ordinal(number) if number else m.group()


def saint(m: Match) -> str:
    return "Saint " if m["name"] is not None else "Street" + _end(m)


def abbreviation(m: Match) -> str:
    short = m["short"]
    return ABBREVIATIONS[short] + (_end(m, before_capital=short == "etc.") if short.endswith(".") else "")


def letters(word: str) -> str:
    """ "FAQ" -> "F.A.Q": the points make the phonemizer name every letter; spaces make it say "uh" for A."""
    return ".".join(word)


def acronym(m: Match) -> str:
    word, more = m["word"], m["more"] or ""
    if word in WORD_ACRONYMS:
        return word.capitalize() + more if more else word
    if word not in SPELLED and (_shouted(m) or len(word) > 3) and re.search("[AEIOUY]", word):
        return m.group()
    if not more:
        return letters(word)
    return f"{letters(word[:-1])} {LETTERS[word[-1]]}".strip()


def _shouted(m: Match) -> bool:
    """Whether a neighbour is a word in capitals too: "MIX THE EGGS"."""
    near = m.string[max(0, m.start() - 16) : m.start()].split()[-1:] + m.string[m.end() : m.end() + 16].split()[:1]
    return any(
        (c := _CAPITALS.match(word)) and c.group() not in SPELLED and re.search("[AEIOU]", c.group()) for word in near
    )


def dotted(m: Match) -> str:
    return letters(m.group().replace(".", "")) + _end(m)


def code(m: Match) -> str:
    """Letters and figures in turn: H2O, MP3, B12, R2-D2."""
    parts = re.findall(r"[A-Z]+|\d+", m.group())
    said = " ".join(letters(part) if part.isalpha() else cardinal(int(part)) for part in parts)
    return "A-" + said[2:] if said.startswith("A ") else said


def pairs(m: Match) -> str:
    """747 -> "seven forty-seven", 101 -> "one oh one", 1080 -> "ten eighty"."""
    number = m["number"]
    head, tail = number[:-2], int(number[-2:])
    if tail == 0:
        return f"{m['before']}{cardinal(int(head))} hundred"
    return f"{m['before']}{cardinal(int(head))} {'oh ' if tail < 10 else ''}{cardinal(tail)}"


def spelled_digits(m: Match) -> str:
    return m["before"] + digits(m["number"])


def version(m: Match) -> str:
    parts = " point ".join(cardinal(int(part)) for part in m["number"].split("."))
    return f"version {parts}" if m["v"] else parts


def years(m: Match) -> str:
    return f"{m['before']}{year(int(m['year']))}{m['and']}{year(int(m['last']))}"


def year_after(m: Match) -> str:
    return m["before"] + year(int(m["year"]))


def bare_year(m: Match) -> str:
    return year(int(m.group()))


def power(m: Match) -> str:
    return f" to the power of {'minus ' if m['minus'] else ''}{cardinal(int(m['power']))}"


def plain(m: Match) -> str:
    number = m["number"].replace(",", "")
    if len(number) > 1 and number[0] == "0" and "." not in number:
        return _minus(m) + digits(number)
    return _minus(m) + decimal(number)


def symbol(m: Match) -> str:
    return f" {SYMBOLS[m.group()]} "
