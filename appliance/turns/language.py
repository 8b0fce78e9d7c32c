"""Which language a session is heard in where none is configured: detected in its first turns and then kept.

Detection of a short utterance is often wrong, and each detection costs time; people seldom change their language within
a conversation. Names and probabilities in, a language out.
"""

_SURE = 0.8  # a detection so sure is kept at once
_LIKELY = 0.5  # below this it says nothing; two in a row above it that agree are kept


class KeptLanguage:
    """One session's. `language` is None until it is known: detect, then."""

    def __init__(self) -> None:
        self.language: str | None = None
        self._last: str | None = None

    def heard(self, language: str, sure: float) -> None:
        """A turn with words was detected to be in `language` with probability `sure`."""
        if self.language is not None or sure < _LIKELY:
            return
        if sure >= _SURE or language == self._last:
            self.language = language
        self._last = language
