"""English as it is read aloud: the rules and their order.

Each rule is a pattern and what is said for a match (`english_said`). Order matters: what has the most context goes
first (an e-mail address before an at sign, money before numbers, a range before a minus), plain numbers go last.
"""

import re
from collections.abc import Callable, Iterable

from appliance.speech import english_said as say
from appliance.speech.english_words import (
    ABBREVIATIONS,
    BEFORE_NUMBERS,
    COUNTED,
    CURRENCIES,
    MONTHS,
    NUMBERED,
    REGNAL,
    SYMBOLS,
    UNITS,
    VULGAR,
)
from appliance.speech.numbers import digits, ordinal


def _any(words: Iterable[str]) -> str:
    """An alternation, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_MONTH = "|".join(sorted((*MONTHS, *(f"{m[:3]}\\.?" for m in MONTHS if m != "May"), "Sept\\.?"), key=len, reverse=True))
_DAY = "Mon|Tues?|Wed|Thur?s?|Fri|Sat|Sun"
_SIGN = _any(CURRENCIES)
_SCALE = r"(?:\s?(?P<scale>thousand|million|billion|trillion|bn|mn|[kKmMbB])\b)?"
# "I" and "V" behind a name are numbers where a sentence about that name goes on, not before "am" or "think".
_ROMAN = (
    r"(?P<roman>[IVXLCDM]{2,}|"
    r"[IVX](?=[.,;:!?)]|'s\b|\s*$|\s(?:of|was|is|and|in|by|to|the|who|had|died|ruled|[^\sa-z])))"
)
_QUOTES = str.maketrans(
    {"’": "'", "‘": "'", "“": '"', "”": '"', "\u00a0": " ", "\u202f": " ", "−": "-", "‑": "-", "‐": "-"}
)
_SUPERSCRIPTS = {chr(c): str(d) for d, c in enumerate((0x2070, 0xB9, 0xB2, 0xB3, *range(0x2074, 0x207A)))}
_EMOJI = re.compile("[\U0001f000-\U0001faff\u2600-\u27bf\u2b00-\u2bff\ufe00-\ufe0f\u200d\u20e3]+")


def normalise_english(text: str) -> str:
    """`text` as it is said. Never raises; words it does not know stay."""
    text = _EMOJI.sub("", text).translate(_QUOTES)
    for pattern, said in _RULES:
        text = pattern.sub(said, text)
    return re.sub(r"\s+", " ", re.sub(r"\s+([,.;:!?])", r"\1", text)).strip()


def _commas(m: re.Match[str]) -> str:
    """1.234,56 and 1 234 567 the way the other rules read them."""
    whole = re.sub(r"[. ]", "", m["n"])
    part = m.groupdict().get("part")
    return f"{whole}.{part}" if part else whole


def _days(m: re.Match[str]) -> str:
    names = {"Mon": "Monday", "Tue": "Tuesday", "Wed": "Wednesday", "Thu": "Thursday", "Fri": "Friday"}
    names |= {"Sat": "Saturday", "Sun": "Sunday"}
    return f"{names[m['a'][:3]]} to {names[m['b'][:3]]}"


def _the_decade(m: re.Match[str]) -> str:
    return ("the " if m.group()[0] == "t" else "") + say.decade(m)


def _point(m: re.Match[str]) -> str:
    return f"{'minus ' if m['minus'] else ''}point {digits(m['part'])}"


def _raised(m: re.Match[str]) -> str:
    return f" to the power of {digits(''.join(_SUPERSCRIPTS[c] for c in m.group()))} "


_Said = Callable[[re.Match[str]], str] | str
_RULES: tuple[tuple[re.Pattern[str], _Said], ...] = tuple(
    (re.compile(pattern, flags), said)
    for pattern, flags, said in (
        # addresses and versions
        (r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b", 0, say.email),
        (
            r"(?<=[a-z0-9])\.(?=(?:com|org|net|io|gov|edu|dev|co|uk|txt|pdf|py|jpe?g|png|html?|json|csv|md)\b)",
            0,
            " dot ",
        ),
        (r"(?<![\w.])(?P<ip>\d{1,3}(?:\.\d{1,3}){3})(?::(?P<port>\d+))?(?![\w.]*\d)", 0, say.address),
        (r"(?<![\d.,])(?P<n>\d{1,3}(?:\.\d{3}){2,}|\d{1,3}(?: \d{3}){2,})(?![\d.]*\d)", 0, _commas),
        (r"\b(?P<v>[vV])(?P<number>\d+(?:\.\d+)*)\b", 0, say.version),
        (r"(?P<v>)\b(?P<number>\d+(?:\.\d+){2,})\b", 0, say.version),
        # numbers as they are written elsewhere
        (r"(?<![\d.])(?P<n>\d{1,3}(?:\.\d{3})+),(?P<part>\d{1,2})(?!\d)", 0, _commas),
        (r"(?<![\d,])(?P<n>\d+),(?P<part>\d{1,2})(?![\d,])", 0, _commas),
        # money
        (rf"(?P<sign>{_SIGN})(?P<a>{_NUMBER})\s?[-–—]\s?(?:{_SIGN})?(?P<b>{_NUMBER}){_SCALE}", 0, say.money_range),
        (rf"(?P<minus>-)?(?P<sign>{_SIGN})\s?(?P<number>{_NUMBER}){_SCALE}(?:\sdollars\b)?", 0, say.money),
        (rf"(?P<number>{_NUMBER})\s?(?P<sign>[€£¥₹])", 0, say.money_behind),
        # from one to the other, with what is measured on both sides
        (r"(?i)\b(\d{1,2})[-–](?=\d{1,2}(?::\d\d)?\s?[ap]\.?m\b)", 0, r"\1 to "),
        (r"(?i)(°[CF]?|%|\d[ap]m|[ap]\.m\.|\bnoon|:\d\d)\s?[-–—]\s?(?=\d)", 0, r"\1 to "),
        (rf"\b(?P<a>{_DAY})[-–](?P<b>{_DAY})\b", 0, _days),
        # dates and times
        (
            r"\b(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})(?:[T ](?P<time>\d{2}:\d{2})(?::\d{2})?(?:\.\d+)?Z?)?\b",
            0,
            say.iso_date,
        ),
        (r"\b(?P<a>\d{1,2})/(?P<b>\d{1,2})/(?P<year>\d{4}|\d{2})\b", 0, say.slash_date),
        (
            r"\b(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?(?!\d)(?:\s?(?P<half>[aApP]\.?\s?[mM]\b\.?))?",
            0,
            say.clock,
        ),
        (r"\b(?P<hour>\d{1,2})\s?(?P<half>[ap]\.?m\b\.?|[AP]\.?M\b\.?)", 0, say.hour),
        (r"(?<![\d:])(\d+):(?=\d+(?![\d:]))", 0, r"\1 to "),
        (
            rf"\b(?P<month>{_MONTH})\s(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b(?!\s(?:{COUNTED})\b|[,.]\d|%)"
            r"(?:,?\s(?P<year>[12]\d{3})\b)?",
            0,
            say.month_day,
        ),
        (
            rf"\b(?:the\s)?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s(?:of\s)?(?P<month>{_MONTH})\b"
            r"(?:,?\s(?P<year>[12]\d{3})\b)?",
            0,
            say.day_month,
        ),
        (rf"\b(?P<month>{_MONTH}),?\s(?P<year>[12]\d{{3}})\b", 0, say.month_year),
        # digits one by one, or by twos
        (r"(?<![\w/-])\+?\d{1,3}[-\s]\(?\d{3}\)?[-\s]\d{3}[-\s]\d{4}\b", 0, say.phone),
        (r"(?<![\w/-])(?:\(\d{3}\)|\d{3})[-\s]\d{3}-\d{4}\b|(?<![\w/-])\d{3}-\d{4}\b", 0, say.phone),
        (
            r"(?i)\b(?P<before>(?:call|dial|zip(?: code)?|pin|code|extension)\s)(?P<number>\d{3,8})\b"
            rf"(?!\s(?:{COUNTED})\b)",
            0,
            say.spelled_digits,
        ),
        (
            r"\b(?P<before>(?:Room|Route|Flight|Highway|Interstate|Boeing|Airbus|Channel|RTX|GTX)\s)(?P<number>[1-9]\d{2,3})\b",
            0,
            say.pairs,
        ),
        (r"(?P<before>)\b(?P<number>[1-9]\d{2,3})(?=p\b)", 0, lambda m: f"{say.pairs(m)} "),
        # measures
        (rf"(?P<number>{_NUMBER})\s?%", 0, lambda m: f"{say.amount(m['number'])} percent"),
        (r"\b(?P<feet>\d)'\s?(?P<inches>\d{1,2})(?:\"|'')", 0, say.feet),
        (r"(?<=\d)\"(?=\s(?:monitor|screen|TV|display|wide|tall|long|thick|deep|pipe)\b)", 0, " inch"),
        (r"(\d\s?(?:ft|lbs?|oz|yd|mi|hrs?|tbsp|tsp|mins?|secs?))\.(?=\s[a-z])", 0, r"\1"),
        (r"\^2(?!\d)", 0, "²"),
        (r"\^3(?!\d)", 0, "³"),
        (rf"(?<![\w.-])({_NUMBER})\s?[-–—]\s?(?=(?:{_NUMBER})\s?(?:{_any(UNITS)})(?!\w))", 0, r"\1 to "),
        (rf"(?<![\w.])(?P<minus>-)?(?P<number>{_NUMBER})\s?(?P<unit>{_any(UNITS)})(?![\w°²³$]|/[a-z])", 0, say.unit),
        (r"\b(?:the\s)?(?P<year>\d{4})'?(?P<bare>)s\b", 0, _the_decade),
        (r"(?<!\w)'(?P<year>\d0)s\b|(?<=the )(?P<bare>\d0)'?s\b|\b(?P<own>\d0)'s\b", 0, say.decade),
        (r"\b(?P<n>\d{1,3}(?:,\d{3})+|\d+)(?:st|nd|rd|th)\b", 0, lambda m: ordinal(int(m["n"].replace(",", "")))),
        (
            rf"(?<![\w.])(?P<short>{_any(BEFORE_NUMBERS)})\s?(?=\d)",
            re.I,
            lambda m: f"{BEFORE_NUMBERS[m['short'].lower()]} ",
        ),
        # fractions and ranges
        (r"(?<![\w/.])(\d+\.\d+)/(?=\d+(?![\w/]))", 0, r"\1 out of "),
        (r"\b24[/-]7\b", 0, "twenty-four seven"),
        (r"\b9/11\b", 0, "nine eleven"),
        (r"\b50[/-]50\b", 0, "fifty-fifty"),
        (r"\b20/20\b", 0, "twenty-twenty"),
        (r"(?<=\w)/(?=(?:month|year|week|day|night|hour|minute|person)\b)", 0, " per "),
        (rf"(?:(?P<whole>\d+)\s?)?(?P<part>[{''.join(VULGAR)}])", 0, say.vulgar),
        (r"(?<![\w/.])(?:(?P<whole>\d+)\s)?(?P<top>\d+)/(?P<bottom>\d+)(?![\w/])", 0, say.fraction),
        (rf"(?<![\w.-])(?P<a>{_NUMBER})\s?[-–—]\s?(?P<b>{_NUMBER})(?![\w-])", 0, say.between),
        # names and abbreviations
        (r"\b(?P<roman>[IVXL]+)(?:th|st|nd|rd)?(?=\scentur)", 0, say.roman_century),
        (rf"\b(?P<name>{_any((*NUMBERED, *REGNAL))})\s{_ROMAN}(?!\w|'(?!s\b))", 0, say.roman),
        (r"\b(?P<name>[A-Z][a-z]+)\s(?P<roman>[IVX]{2,})(?!\w|'(?!s\b))", 0, say.roman),
        (
            r"\b(?!The |My |Our |Her |His |Your |A )(?P<name>[A-Z][a-z]+)\sDr\.(?=\s[a-z]|[,;]|\s*$)",
            0,
            r"\g<name> Drive",
        ),
        (r"\bSt\.(?:\s(?P<name>(?=[A-Z]))|)", 0, say.saint),
        (r"\best\.(?=\s[a-z])", 0, "estimated"),
        (rf"(?<!\w)(?P<short>{_any(ABBREVIATIONS)})(?!\w)", 0, say.abbreviation),
        (r"\b(?![AP]\.M\.)(?:[A-Z]\.){2,}", 0, say.dotted),
        (r"\b([A-Z])\.\s([A-Z])\.(?=\s[A-Z])", 0, r"\1.\2"),
        (r"(?<=[a-z]\s)(?<!Vitamin\s)(?<!Plan\s)(?<!Class\s)([A-HJ-WYZ])\.(?=\s[A-Z][a-z])", 0, r"\1"),
        (r"\b[A-Z]{1,4}\d{1,3}(?:-?[A-Z]{1,2}\d{0,3})*(?![\w])", 0, say.code),
        (r"\b(?P<word>[A-Z]{2,6})(?P<more>'?s)?\b", 0, say.acronym),
        (r"(?<=&\s)A\b|(?<=&)A\b|(?<=\b[Vv]itamin )A(?=\s)|(?<=\b[Pp]lan )A(?=\s)", 0, "eigh"),
        # years
        (
            r"\b(?P<before>(?:from|between)\s)(?P<year>1\d{3}|20\d{2})(?P<and>\s(?:to|and|until)\s)(?P<last>1\d{3}|20\d{2})\b"
            rf"(?!\s(?:{COUNTED})\b)",
            re.I,
            say.years,
        ),
        (
            r"\b(?P<before>(?:in|since|from|by|until|till|of|year|around|circa|before|after|during|early|late|mid)\s)"
            rf"(?P<year>1\d{{3}}|20\d{{2}})\b(?![,.]\d|%|\s(?:{COUNTED})\b)",
            re.I,
            say.year_after,
        ),
        (r"(?<![\d,.])(?P<before>)(?P<year>1\d{3})(?=\s(?:B\.C|A\.D|C\.E))", 0, say.year_after),
        (rf"(?<![\d,.])(?:19\d{{2}}|20[0-9]{{2}})(?![\d,%]|\.\d|\s(?:{COUNTED})\b)", 0, say.bare_year),
        # sums
        (r"(?<=\d)e(?P<minus>-)?(?P<power>\d{1,3})\b", 0, lambda m: f" times ten{say.power(m)}"),
        (r"\^\(?(?P<minus>-)?(?P<power>\d{1,4})\)?", 0, say.power),
        (r"(?<=\d)\s?[x×*]\s?(?=\d)", 0, " times "),
        (r"(?<=\d)\s?÷\s?(?=\d)|(?<=\d)\s/\s(?=\d)", 0, " divided by "),
        (r"(?<=\w)\s?\+\s?(?=\d)", 0, " plus "),
        (r"(?<=\d)\s-\s(?=\d)|(?<=[a-z²³)\d])\s-\s(?=\d+\s?[=+])", 0, " minus "),
        (r"#(?=\d)|\bNos?\.\s?(?=\d)", 0, "number "),
        (r"\bnos\.\s?(?=\d)", 0, "numbers "),
        (r"#(?=[A-Za-z])", 0, "hashtag "),
        (r"(?<!\w)~\s?(?=\d)", 0, "about "),
        (r"(?<!\w)<\s?(?=\d)", 0, "less than "),
        (r"(?<!\w)>\s?(?=\d)", 0, "more than "),
        (r"(?<=\d)\s?¢", 0, " cents"),
        (rf"(?<=\d)k\b|(?<=\d)K(?=\s(?:{COUNTED}|users|followers|views|fans)\b)", 0, " thousand"),
        (rf"(?<=\d)M(?=\s(?:{COUNTED}|users|followers|views|fans)\b)", 0, " million"),
        (rf"(?<=\d)B(?=\s(?:{COUNTED}|users|followers|views|fans)\b)", 0, " billion"),
        (r"(?<=\d)(?=[A-Za-z]\b)", 0, " "),  # 5G, 4K, 3x
        # plain numbers
        (r"(?<![\w.])(?P<minus>-)?\.(?P<part>\d+)", 0, _point),
        (rf"(?<![\w.])(?P<minus>-)?(?P<number>{_NUMBER})", 0, say.plain),
        (r"(?P<minus>)(?P<number>\d+)", 0, lambda m: f" {say.plain(m)} "),
        # what is left
        (r"\band/or\b", 0, "and or"),
        (r"(?i)\b(s?he|his|him|hers?|yes|true)/(s?he|hers?|him|his|no|false)\b", 0, r"\1 or \2"),
        (_any(SYMBOLS), 0, say.symbol),
        (rf"[{''.join(_SUPERSCRIPTS)}]+", 0, _raised),
        (r"(?<=\w)/(?=\w)", 0, " slash "),
        (r"\.{3,}|…", 0, ", "),
        (r"\s[—–-]+\s|—", 0, ", "),
        (r"[\"“”«»*_\\|{}\[\]<>^`~]", 0, " "),
    )
)
