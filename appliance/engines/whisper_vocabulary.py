"""Whisper's special tokens and text, through the tokenizers library."""

from pathlib import Path

from appliance.errors import ConfigError, ModelFileError


class Vocabulary:
    def __init__(self, path: Path, *, multilingual: bool) -> None:
        import tokenizers

        try:
            # Not from_file, which raises a bare Exception for a bad file.
            self._tokenizer = tokenizers.Tokenizer.from_buffer(path.read_bytes())
        except (OSError, ValueError) as error:
            raise ModelFileError(f"{path} is not a tokenizer file", hint="run `appliance models verify`") from error
        self.multilingual = multilingual
        self.end = self._id("<|endoftext|>")
        self.start = self._id("<|startoftranscript|>")
        self._previous = self._id("<|startofprev|>")
        self._tail = [self._id("<|transcribe|>")] if multilingual else []
        self.no_times = self._id("<|notimestamps|>")
        self.no_speech = self.no_times - 1
        self._first_time = self.no_times + 1  # <|0.00|>; the next ones follow every 20 ms

    def _id(self, token: str) -> int:
        found = self._tokenizer.token_to_id(token)
        if found is None:
            raise ModelFileError(f"the whisper tokenizer has no {token} token", hint="run `appliance models verify`")
        return int(found)

    def require(self, language: str) -> None:
        """ConfigError when the model does not know `language`."""
        if not self.multilingual and language != "en":
            raise ConfigError(
                f"this whisper model knows English only, not {language!r}",
                hint='choose a model without .en in its name, or language = "en"',
            )
        if self.multilingual and self._tokenizer.token_to_id(f"<|{language}|>") is None:
            raise ConfigError(f"whisper knows no language {language!r}", hint="use a two-letter code such as en or de")

    def prompt(self, language: str, before: str) -> list[int]:
        self.require(language)
        start = [self.start, self._id(f"<|{language}|>")] if self.multilingual else [self.start]
        if before:
            start = [self._previous, *self.words(before)[-223:], *start]
        return start + self._tail

    def words(self, text: str) -> list[int]:
        """The tokens of words that begin a transcript, or go on with one."""
        return list(self._tokenizer.encode(" " + text.strip(), add_special_tokens=False).ids) if text.strip() else []

    def text(self, ids: list[int], before_s: float) -> str:
        """Text of the segments that begin before `before_s`; without times, all of it.

        What the decoder makes up after the speech it places after the speech, and that is left out here.
        """
        kept: list[int] = []
        begin = 0.0
        for i in ids:
            if i >= self._first_time:
                begin = (i - self._first_time) * 0.02
            elif i < self.end and begin < before_s:
                kept.append(i)
        return str(self._tokenizer.decode(kept)).strip()
