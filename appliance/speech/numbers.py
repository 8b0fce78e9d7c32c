"""Numbers in words, through num2words, with a floor under what it cannot say."""

from functools import lru_cache

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


def _num2words(number: int, to: str, language: str) -> str:
    from num2words import num2words

    return str(num2words(number, to=to, lang=language))
