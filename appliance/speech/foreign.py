"""German, Spanish, French, Italian: numbers, money, percent, times and units in words.

Decimal comma and thousands point throughout; what a rule does not know stays as it is.
"""

import re
from dataclasses import dataclass

from appliance.speech.numbers import cardinal, digits


@dataclass(frozen=True, slots=True)
class _Tongue:
    comma: str
    minus: str
    percent: str
    hour: str  # between hour and minutes
    joined: str  # between money and its hundredths
    money: dict[str, tuple[str, str]]  # one, many
    units: dict[str, tuple[str, str]]
    symbols: dict[str, str]


_TONGUES = {
    "de": _Tongue(
        "Komma", "minus", "Prozent", "Uhr", "",
        {"€": ("Euro", "Euro"), "$": ("Dollar", "Dollar"), "£": ("Pfund", "Pfund")},
        {"km/h": ("Kilometer pro Stunde",) * 2, "km": ("Kilometer",) * 2, "kg": ("Kilogramm",) * 2, "m": ("Meter",) * 2,
         "cm": ("Zentimeter",) * 2, "°C": ("Grad",) * 2, "g": ("Gramm",) * 2, "l": ("Liter",) * 2},
        {"&": "und", "+": "plus", "=": "gleich", "@": "at"},
    ),
    "es": _Tongue(
        "coma", "menos", "por ciento", "y", "con",
        {"€": ("euro", "euros"), "$": ("dólar", "dólares"), "£": ("libra", "libras")},
        {"km/h": ("kilómetro por hora", "kilómetros por hora"), "km": ("kilómetro", "kilómetros"),
         "kg": ("kilo", "kilos"), "m": ("metro", "metros"), "cm": ("centímetro", "centímetros"),
         "°C": ("grado", "grados"), "g": ("gramo", "gramos"), "l": ("litro", "litros")},
        {"&": "y", "+": "más", "=": "igual a", "@": "arroba"},
    ),
    "fr": _Tongue(
        "virgule", "moins", "pour cent", "heures", "",
        {"€": ("euro", "euros"), "$": ("dollar", "dollars"), "£": ("livre", "livres")},
        {"km/h": ("kilomètre à l'heure", "kilomètres à l'heure"), "km": ("kilomètre", "kilomètres"),
         "kg": ("kilo", "kilos"), "m": ("mètre", "mètres"), "cm": ("centimètre", "centimètres"),
         "°C": ("degré", "degrés"), "g": ("gramme", "grammes"), "l": ("litre", "litres")},
        {"&": "et", "+": "plus", "=": "égale", "@": "arobase"},
    ),
    "it": _Tongue(
        "virgola", "meno", "per cento", "e", "e",
        {"€": ("euro", "euro"), "$": ("dollaro", "dollari"), "£": ("sterlina", "sterline")},
        {"km/h": ("chilometro all'ora", "chilometri all'ora"), "km": ("chilometro", "chilometri"),
         "kg": ("chilo", "chili"), "m": ("metro", "metri"), "cm": ("centimetro", "centimetri"),
         "°C": ("grado", "gradi"), "g": ("grammo", "grammi"), "l": ("litro", "litri")},
        {"&": "e", "+": "più", "=": "uguale a", "@": "chiocciola"},
    ),
}  # fmt: skip
_NUMBER = r"\d{1,3}(?:[.\s]\d{3})+(?:,\d+)?|\d+(?:,\d+)?"


def normalise_foreign(text: str, language: str) -> str:
    """`text` as it is said in `language`; languages without rules get their numbers only where num2words has them."""
    text = text.replace("’", "'").replace("\u00a0", " ").replace("\u202f", " ")
    tongue = _TONGUES.get(language)
    if tongue is None:
        return re.sub(r"\d+", lambda m: _safe(int(m.group()), language), text)

    def number(raw: str) -> str:
        whole, _, part = re.sub(r"[.\s](?=\d{3})", "", raw).partition(",")
        said = _safe(int(whole), language)
        return f"{said} {tongue.comma} {digits(part, language)}" if part else said

    def money(m: re.Match[str]) -> str:
        one, many = tongue.money[m["sign"] or m["behind"]]
        whole, _, part = (m["number"] or m["first"]).partition(",")
        name = one if whole == "1" else many
        if len(part) != 2 or part == "00":
            return f"{number(whole)} {name}"
        return " ".join(filter(None, (number(whole), name, tongue.joined, _safe(int(part), language))))

    def clock(m: re.Match[str]) -> str:
        hour, minute = int(m["h"]), int(m["m"])
        if hour > 24 or minute > 59:
            return m.group()
        spoken = f"{_safe(hour, language)} {tongue.hour}"
        if minute:
            return f"{spoken} {_safe(minute, language)}"
        return spoken if language in ("de", "fr") else _safe(hour, language)

    def unit(m: re.Match[str]) -> str:
        one, many = tongue.units[m["unit"]]
        return f"{tongue.minus + ' ' if m['minus'] else ''}{number(m['number'])} {one if m['number'] == '1' else many}"

    units = "|".join(re.escape(u) for u in sorted(tongue.units, key=len, reverse=True))
    text = re.sub(rf"(?P<sign>[€$£])\s?(?P<number>{_NUMBER})|(?P<first>{_NUMBER})\s?(?P<behind>[€$£])", money, text)
    text = re.sub(r"\b(?P<h>\d{1,2})[:h](?P<m>\d{2})\b(?:\s?Uhr)?", clock, text)
    text = re.sub(rf"(?P<number>{_NUMBER})\s?%", lambda m: f"{number(m['number'])} {tongue.percent}", text)
    text = re.sub(rf"(?<!\w)(?P<minus>-)?(?P<number>{_NUMBER})\s?(?P<unit>{units})(?!\w)", unit, text)
    text = re.sub(rf"(?<![\w.])-(?={_NUMBER})", tongue.minus + " ", text)
    text = re.sub(rf"(?:{_NUMBER})", lambda m: f" {number(m.group())} ", text)
    for symbol, said in tongue.symbols.items():
        text = text.replace(symbol, f" {said} ")
    return re.sub(r"\s+([,.;:!?])", r"\1", re.sub(r"\s+", " ", text)).strip()


def _safe(number: int, language: str) -> str:
    """Words where num2words has the language, else the digits as they are."""
    try:
        return cardinal(number, language)
    except NotImplementedError:
        return str(number)
