"""The bundled recorded questions: synthesised with Kokoro voices that no tier of two cores answers with.

Owns the list and where the recordings lie. `scripts/make_demo_questions.py` made them.
"""

import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from appliance.audio.files import AudioFile


@dataclass(frozen=True, slots=True)
class Question:
    """`pause_ms`: silence in mid-sentence, 0 for none. `sample_rate` in Hz."""

    file: str
    text: str
    voice: str
    sample_rate: int
    pause_ms: int = 0

    def open(self) -> "AudioFile":
        from appliance.audio.files import open_audio

        return open_audio(folder() / self.file)


def folder() -> Path:
    """Where questions.toml and the recordings lie; the package is always unpacked."""
    return Path(str(resources.files(__package__)))


def questions() -> tuple[Question, ...]:
    """All of them, in the order they are asked."""
    entries = tomllib.loads((folder() / "questions.toml").read_text(encoding="utf-8"))["questions"]
    return tuple(Question(**entry) for entry in entries)
