"""Text to phonemes through the espeak-ng that piper-tts carries, shared by the Piper and Kokoro engines.

Owns the one lock around espeak-ng: it keeps process-wide state, so two threads in it at once would get each
other's phonemes. Knows nothing of voices' symbol tables.
"""

import threading
import unicodedata
from functools import lru_cache
from typing import Any

LOCK = threading.Lock()


@lru_cache(maxsize=1)
def _phonemizer() -> Any:
    from piper.phonemize_espeak import EspeakPhonemizer

    return EspeakPhonemizer()


def sentences(text: str, language: str) -> list[str]:
    """IPA of each sentence in `text`, punctuation kept, composed (NFC); `language` is an espeak-ng voice."""
    with LOCK:
        found = _phonemizer().phonemize(language, text)
    return [unicodedata.normalize("NFC", "".join(parts)).strip() for parts in found]
