"""German, Spanish, French, Italian: numbers, money, percent, times and units in words.

Decimal comma and thousands point throughout; what a rule does not know stays as it is.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from appliance.speech.numbers import cardinal, digits, ordinal, roman_value, year


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
    to: str  # from one number to another
    one: tuple[str, str]  # one of a thing, masculine and feminine
    short: dict[str, str]
    shares: dict[str, str]


_TONGUES = {
    "de": _Tongue(
        "Komma", "minus", "Prozent", "Uhr", "",
        {"€": ("Euro", "Euro"), "$": ("Dollar", "Dollar"), "£": ("Pfund", "Pfund")},
        {"km/h": ("Kilometer pro Stunde",) * 2, "km": ("Kilometer",) * 2, "kg": ("Kilogramm",) * 2, "m": ("Meter",) * 2,
         "cm": ("Zentimeter",) * 2, "°C": ("Grad",) * 2, "g": ("Gramm",) * 2, "l": ("Liter",) * 2},
        {"&": "und", "+": "plus", "=": "gleich", "@": "at"},
        "bis", ("ein", "eine"),
        {"z. B.": "zum Beispiel", "z.B.": "zum Beispiel", "d. h.": "das heißt", "d.h.": "das heißt",
         "usw.": "und so weiter", "bzw.": "beziehungsweise", "ca.": "circa", "Dr.": "Doktor", "Prof.": "Professor",
         "Nr.": "Nummer", "Str.": "Straße", "St.": "Sankt", "u. a.": "unter anderem", "u.a.": "unter anderem",
         "inkl.": "inklusive", "Mio.": "Millionen", "Mrd.": "Milliarden", "Std.": "Stunden", "Min.": "Minuten"},
        {"1/2": "ein halber", "1/3": "ein Drittel", "1/4": "ein Viertel", "3/4": "drei Viertel"},
    ),
    "es": _Tongue(
        "coma", "menos", "por ciento", "y", "con",
        {"€": ("euro", "euros"), "$": ("dólar", "dólares"), "£": ("libra", "libras")},
        {"km/h": ("kilómetro por hora", "kilómetros por hora"), "km": ("kilómetro", "kilómetros"),
         "kg": ("kilo", "kilos"), "m": ("metro", "metros"), "cm": ("centímetro", "centímetros"),
         "°C": ("grado", "grados"), "g": ("gramo", "gramos"), "l": ("litro", "litros")},
        {"&": "y", "+": "más", "=": "igual a", "@": "arroba"},
        "a", ("un", "una"),
        {"Sr.": "señor", "Sra.": "señora", "Srta.": "señorita", "Dr.": "doctor", "Dra.": "doctora", "EE. UU.":
         "Estados Unidos", "EE.UU.": "Estados Unidos", "p. ej.": "por ejemplo", "etc.": "etcétera", "aprox.":
         "aproximadamente", "n.º": "número", "Ud.": "usted", "Uds.": "ustedes", "pág.": "página", "a. C.":
         "antes de Cristo", "d. C.": "después de Cristo"},
        {"1/2": "medio", "1/3": "un tercio", "1/4": "un cuarto", "3/4": "tres cuartos"},
    ),
    "fr": _Tongue(
        "virgule", "moins", "pour cent", "heures", "",
        {"€": ("euro", "euros"), "$": ("dollar", "dollars"), "£": ("livre", "livres")},
        {"km/h": ("kilomètre à l'heure", "kilomètres à l'heure"), "km": ("kilomètre", "kilomètres"),
         "kg": ("kilo", "kilos"), "m": ("mètre", "mètres"), "cm": ("centimètre", "centimètres"),
         "°C": ("degré", "degrés"), "g": ("gramme", "grammes"), "l": ("litre", "litres")},
        {"&": "et", "+": "plus", "=": "égale", "@": "arobase"},
        "à", ("un", "une"),
        {"M.": "monsieur", "Mme": "madame", "Mlle": "mademoiselle", "Dr": "docteur", "etc.": "et cetera", "p. ex.":
         "par exemple", "n°": "numéro", "env.": "environ", "St": "saint", "av. J.-C.": "avant Jésus-Christ"},
        {"1/2": "un demi", "1/3": "un tiers", "1/4": "un quart", "3/4": "trois quarts"},
    ),
    "it": _Tongue(
        "virgola", "meno", "per cento", "e", "e",
        {"€": ("euro", "euro"), "$": ("dollaro", "dollari"), "£": ("sterlina", "sterline")},
        {"km/h": ("chilometro all'ora", "chilometri all'ora"), "km": ("chilometro", "chilometri"),
         "kg": ("chilo", "chili"), "m": ("metro", "metri"), "cm": ("centimetro", "centimetri"),
         "°C": ("grado", "gradi"), "g": ("grammo", "grammi"), "l": ("litro", "litri")},
        {"&": "e", "+": "più", "=": "uguale a", "@": "chiocciola"},
        "a", ("un", "una"),
        {"Sig.ra": "signora", "Sig.": "signor", "Dott.ssa": "dottoressa", "Dott.": "dottor", "Prof.": "professor",
         "ecc.": "eccetera", "ad es.": "ad esempio", "p. es.": "per esempio", "n.": "numero", "ca.": "circa",
         "a.C.": "avanti Cristo", "d.C.": "dopo Cristo", "pag.": "pagina"},
        {"1/2": "mezzo", "1/3": "un terzo", "1/4": "un quarto", "3/4": "tre quarti"},
    ),
}  # fmt: skip
_FEMININE = frozenset(("libra", "livre", "sterlina"))
_MONTHS = (
    "Januar", "Februar", "März", "April", "Mai", "Juni",
    "Juli", "August", "September", "Oktober", "November", "Dezember",
)  # fmt: skip
_SHORT = {
    language: re.compile(
        rf"(?<!\w)(?:{'|'.join(re.escape(s) for s in sorted(tongue.short, key=len, reverse=True))})(?!\w)"
    )
    for language, tongue in _TONGUES.items()
}
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

    def counted(raw: str, one: str, many: str) -> str:
        if raw != "1":
            return f"{number(raw)} {many}"
        return f"{tongue.one[one in _FEMININE]} {one}"

    def money(m: re.Match[str]) -> str:
        one, many = tongue.money[m["sign"] or m["behind"]]
        raw = m["number"] or m["first"]
        whole, _, part = raw.partition(",")
        if len(part) not in (0, 2):
            return f"{number(raw)} {many}"
        said = counted(whole, one, many)
        return said if part in ("", "00") else " ".join(filter(None, (said, tongue.joined, _safe(int(part), language))))

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
        return f"{tongue.minus + ' ' if m['minus'] else ''}{counted(m['number'], one, many)}"

    units = "|".join(re.escape(u) for u in sorted(tongue.units, key=len, reverse=True))
    text = _SHORT[language].sub(
        lambda m: tongue.short[m.group()] + ("." if m.end() == len(text) and "." in m.group() else ""), text
    )
    text = _ordered(text, language)
    text = re.sub(r"(?<![\d/])[13]/[234](?![\d/])", lambda m: tongue.shares.get(m.group(), m.group()), text)
    text = re.sub(r"(?<![\d-])(\d+(?:,\d+)?)\s?[-–]\s?(?=\d+(?:,\d+)?\b(?!-))", rf"\1 {tongue.to} ", text)
    text = re.sub(rf"(?P<sign>[€$£])\s?(?P<number>{_NUMBER})|(?P<first>{_NUMBER})\s?(?P<behind>[€$£])", money, text)
    text = re.sub(r"\b(?P<h>\d{1,2})[:h](?P<m>\d{2})\b(?:\s?Uhr)?", clock, text)
    if language == "fr":
        text = re.sub(r"\b(\d{1,2})\s?h\b", lambda m: f"{_safe(int(m[1]), 'fr')} heure{'s' * (m[1] != '1')}", text)
    text = re.sub(rf"(?P<number>{_NUMBER})\s?%", lambda m: f"{number(m['number'])} {tongue.percent}", text)
    text = re.sub(rf"(?<!\w)(?P<minus>-)?(?P<number>{_NUMBER})\s?(?P<unit>{units})(?!\w)", unit, text)
    text = re.sub(rf"(?<![\w.])-(?={_NUMBER})", tongue.minus + " ", text)
    text = re.sub(rf"(?:{_NUMBER})", lambda m: f" {number(m.group())} ", text)
    for symbol, said in tongue.symbols.items():
        text = text.replace(symbol, f" {said} ")
    return re.sub(r"\s+([,.;:!?])", r"\1", re.sub(r"\s+", " ", text)).strip()


def _ordered(text: str, language: str) -> str:
    """Ordinals, dates and years: the part in which the four differ most."""
    if language == "de":
        text = re.sub(r"\b(\d{1,2})\.(\d{1,2})\.(\d{4})\b", _german_date, text)
        text = re.sub(
            rf"(?P<lead>\b(?:am|im|vom|zum|beim|dem|den|des)\s)?(?P<article>\b(?:der|die|das)\s)?\b(?P<n>\d{{1,3}})\."
            rf"(?=\s(?P<month>{'|'.join(_MONTHS)})|\s[A-ZÄÖÜ])",
            _german_ordinal,
            text,
        )
        return re.sub(r"(?<![\d.,])1[1-9]\d{2}(?![\d.,]\d|\d)", lambda m: year(int(m.group()), "de"), text)
    if language == "fr":
        text = re.sub(r"\b1(?:er|re|ère)\b", lambda m: "premier" if m.group() == "1er" else "première", text)
        text = re.sub(r"\b(\d{1,3})(?:e|ème|ième)\b", lambda m: ordinal(int(m[1]), "fr"), text)
        text = re.sub(r"\b(?!Le\b)([IVXL]+)(?:er|e|ème)\b", lambda m: _roman(m, "fr", ordinal), text)
        return re.sub(r"(?<=[a-zé] )([IVX]{2,})\b", lambda m: _roman(m, "fr", cardinal), text)
    text = re.sub(r"\b(\d{1,2})\.?[ºª]", lambda m: ordinal(int(m[1]), language), text)
    if language == "it":
        text = re.sub(r"\b([IVXL]+)(?=\ssecolo)", lambda m: _roman(m, "it", ordinal), text)
        return re.sub(r"(?<=[a-z] )([IVX]{2,})\b", lambda m: _roman(m, "it", ordinal), text)
    text = re.sub(r"(?<=[sS]iglo )([IVXL]+)\b", lambda m: _roman(m, "es", cardinal), text)
    return re.sub(r"\b(\d*[02-9])?1(?=\s(?:años|días|minutos|segundos|meses|kilos|metros)\b)", _spanish_one, text)


def _german_date(m: re.Match[str]) -> str:
    day, month = int(m[1]), int(m[2])
    if not (1 <= day <= 31 and 1 <= month <= 12):
        return m.group()
    inflected = re.search(r"\b(?:am|vom|zum|dem|den|bis)\s$", m.string[: m.start()])
    return f"{ordinal(day, 'de')}{'n' if inflected else 'r'} {_MONTHS[month - 1]} {year(int(m[3]), 'de')}"


def _german_ordinal(m: re.Match[str]) -> str:
    """ "am 24. Dezember", "die 2. Auflage"; "Es waren 5. Dann" is no ordinal."""
    lead, article = m["lead"] or "", m["article"] or ""
    if not (lead or article or m["month"]):
        return m.group()
    ending = "n" if lead else "" if article else "r"
    return f"{lead}{article}{ordinal(int(m['n']), 'de')}{ending}"


def _spanish_one(m: re.Match[str]) -> str:
    said = cardinal(int(m.group()), "es")
    return said[:-3] + ("ún" if said.startswith("veint") else "un") if said.endswith("uno") else said


def _roman(m: re.Match[str], language: str, say: Callable[[int, str], str]) -> str:
    value = roman_value(m[1])
    return say(value, language) if value else m.group()


def _safe(number: int, language: str) -> str:
    """Words where num2words has the language, else the digits as they are."""
    try:
        return cardinal(number, language)
    except NotImplementedError:
        return str(number)
