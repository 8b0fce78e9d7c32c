"""What the skills say, in each language that has their sentences. Pure; figures are left to the normaliser."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Words:
    """The phrases of one language; `{}` is filled in."""

    days: tuple[str, ...]  # Monday first
    months: tuple[str, ...]
    date: str  # weekday, day, month, year
    time: str
    one_oclock: str
    clock: str  # between hour and minutes
    units: tuple[tuple[str, str], ...]  # hour, minute, second: one and many
    conjunction: str
    set: str  # name with a space behind, length
    named: str  # how a name stands in the phrases
    cancelled: str
    all_cancelled: str
    none: str
    no_such: str
    left: str
    now_left: str
    too_long: str
    too_many: str
    done: str
    no_time: str
    stops: frozenset[str]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


WORDS = {
    "de": Words(
        _words("Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag"),
        _words("Januar Februar März April Mai Juni Juli August September Oktober November Dezember"),
        "Heute ist {0}, der {1}. {2} {3}.", "Es ist {} Uhr.", "Es ist {} Uhr.", ":",
        (("Stunde", "Stunden"), ("Minute", "Minuten"), ("Sekunde", "Sekunden")), "und",
        "Der Timer{0} läuft {1}.", " „{}“", "Der Timer{} ist gelöscht.", "Alle Timer sind gelöscht.",
        "Es läuft kein Timer.", "So einen Timer gibt es nicht.", "Der Timer{0} läuft noch {1}.",
        "Der Timer{0} läuft jetzt noch {1}.", "Länger als {} kann ein Timer nicht laufen.",
        "Es laufen schon zu viele Timer.", "Der Timer{0} über {1} ist abgelaufen.", "keine Zeit",
        frozenset(("stopp", "stop", "halt", "sei still", "ruhe", "abbrechen", "vergiss es")),
    ),
    "es": Words(
        _words("lunes martes miércoles jueves viernes sábado domingo"),
        _words("enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"),
        "Hoy es {0} {1} de {2} de {3}.", "Son las {}.", "Es la {}.", ":",
        (("hora", "horas"), ("minuto", "minutos"), ("segundo", "segundos")), "y",
        "El temporizador{0} suena en {1}.", " «{}»", "El temporizador{} está cancelado.",
        "Todos los temporizadores están cancelados.", "No hay ningún temporizador.", "No hay tal temporizador.",
        "Al temporizador{0} le quedan {1}.", "Al temporizador{0} le quedan ahora {1}.",
        "Un temporizador puede durar hasta {}.", "Ya hay demasiados temporizadores.",
        "El temporizador{0} de {1} ha terminado.", "nada",
        frozenset(("para", "alto", "basta", "silencio", "cállate", "olvídalo", "cancela")),
    ),
    "fr": Words(
        _words("lundi mardi mercredi jeudi vendredi samedi dimanche"),
        _words("janvier février mars avril mai juin juillet août septembre octobre novembre décembre"),
        "Nous sommes le {0} {1} {2} {3}.", "Il est {}.", "Il est {}.", "h",
        (("heure", "heures"), ("minute", "minutes"), ("seconde", "secondes")), "et",
        "Le minuteur{0} sonne dans {1}.", " « {} »", "Le minuteur{} est annulé.", "Tous les minuteurs sont annulés.",
        "Aucun minuteur n'est en marche.", "Ce minuteur n'existe pas.", "Il reste {1} au minuteur{0}.",
        "Il reste maintenant {1} au minuteur{0}.", "Un minuteur dure {} au plus.", "Il y a déjà trop de minuteurs.",
        "Le minuteur{0} de {1} est terminé.", "rien",
        frozenset(("stop", "arrête", "tais-toi", "silence", "chut", "laisse tomber", "annule")),
    ),
    "it": Words(
        _words("lunedì martedì mercoledì giovedì venerdì sabato domenica"),
        _words("gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre"),
        "Oggi è {0} {1} {2} {3}.", "Sono le {}.", "È l'{}.", ":",
        (("ora", "ore"), ("minuto", "minuti"), ("secondo", "secondi")), "e",
        "Il timer{0} suona fra {1}.", " «{}»", "Il timer{} è annullato.", "Tutti i timer sono annullati.",
        "Non c'è nessun timer.", "Questo timer non c'è.", "Al timer{0} mancano {1}.",
        "Al timer{0} ora mancano {1}.", "Un timer dura al massimo {}.", "Ci sono già troppi timer.",
        "Il timer{0} di {1} è finito.", "niente",
        frozenset(("stop", "basta", "fermati", "silenzio", "zitto", "lascia stare", "lascia perdere", "annulla")),
    ),
}  # fmt: skip


def said_time(wall: datetime, language: str) -> str:
    words = WORDS[language]
    clock = f"{wall.hour}{words.clock}{wall.minute:02d}"
    return (words.one_oclock if wall.hour == 1 else words.time).format(clock)


def said_date(wall: datetime, language: str) -> str:
    words = WORDS[language]
    day = "1er" if wall.day == 1 and language == "fr" else wall.day
    return words.date.format(words.days[wall.weekday()], day, words.months[wall.month - 1], wall.year)


def said_duration(seconds: float, language: str) -> str:
    """5400 -> "1 Stunde und 30 Minuten"."""
    words, whole, parts = WORDS[language], max(0, round(seconds)), []
    for size, (one, many) in zip((3600, 60, 1), words.units, strict=True):
        count, whole = divmod(whole, size)
        if count:
            parts.append(f"{_one(one, language) if count == 1 else count} {one if count == 1 else many}")
    if not parts:
        return words.no_time
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {words.conjunction} {parts[-1]}"


def named(name: str, language: str) -> str:
    return WORDS[language].named.format(name) if name else ""


def _one(noun: str, language: str) -> str:
    if language == "de":
        return "eine"
    if language == "fr":
        return "une"
    return "una" if noun.endswith("a") else "un"
