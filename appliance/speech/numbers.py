"""Numbers in words, through num2words, with a floor under what it cannot say."""

import re
from functools import lru_cache

_ROMAN = re.compile(r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
_MOST = 10**15  # beyond it nobody follows a number in words: digits


@lru_cache(maxsize=4096)
def cardinal(number: int, language: str = "en") -> str:
    """3 -> "three"; beyond 10^15 the digits one by one."""
    if abs(number) >= _MOST:
        return digits(str(number), language)
    return _num2words(number, "cardinal", language).replace(",", "")


@lru_cache(maxsize=1024)
def ordinal(number: int, language: str = "en") -> str:
    """3 -> "third"."""
    if abs(number) >= _MOST:
        return digits(str(number), language)
    return _num2words(number, "ordinal", language).replace(",", "")


@lru_cache(maxsize=1024)
def year(number: int, language: str = "en") -> str:
    """1999 -> "nineteen ninety-nine", 2005 -> "two thousand and five", 1900 -> "nineteen hundred"."""
    if language == "de" and 1100 <= number <= 1999:
        return _num2words(number, "year", "de")
    if language != "en" or not 1000 <= number <= 2999 or 2000 <= number <= 2009:
        return cardinal(number, language)
    century, rest = divmod(number, 100)
    if rest == 0:
        return cardinal(number) if century % 10 == 0 else f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {'oh ' if rest < 10 else ''}{cardinal(rest)}"


def decimal(number: str, language: str = "en", point: str = "point") -> str:
    """ "3.14" -> "three point one four"; no thousands separators, "." before the fraction."""
    whole, _, part = number.partition(".")
    said = cardinal(int(whole or 0), language)
    return f"{said} {point} {digits(part, language)}" if part else said


def digits(number: str, language: str = "en") -> str:
    """ "007" -> "zero zero seven"; anything that is no digit is left out."""
    return " ".join(cardinal(int(d), language) for d in number if d.isascii() and d.isdigit())


def roman_value(roman: str) -> int:
    """XIV -> 14; 0 for what is no well-formed numeral."""
    if not _ROMAN.fullmatch(roman):
        return 0
    values = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
    return sum(
        -values[a] if b and values[a] < values[b] else values[a] for a, b in zip(roman, (*roman[1:], ""), strict=True)
    )


def _num2words(number: int, to: str, language: str) -> str:
    from num2words import num2words

    return str(num2words(number, to=to, lang=language))
