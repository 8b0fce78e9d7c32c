"""Text as it is written, into text as it is said.

Owns the reading of numbers, money, times, dates, units, ordinals, Roman numerals, abbreviations and symbols. Pure;
knows no voice. English has the full rules; other languages their numbers, money, times and units.
"""

from appliance.speech.english import normalise_english
from appliance.speech.foreign import normalise_foreign


def normalise(text: str, language: str = "en") -> str:
    """`text` ready for a voice; never raises, and leaves words it does not know as they are."""
    return normalise_english(text) if language == "en" else normalise_foreign(text, language)
