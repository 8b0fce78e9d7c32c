"""Audio files: any file libsndfile can read as 16 kHz mono float32, and WAV out.

Reading streams in bounded memory, so hours of audio are fine. A file is judged once, when it is opened:
whatever is wrong with it is a `UsageError` there, before anything was heard. Knows nothing of time or devices.

A header that lies: when it promises more than the file holds, what is there is read and `AudioFile.note` says
so; when it promises less, the header is believed, as every player does.
"""

import errno
import os
import wave
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from appliance.audio.resample import Resampler
from appliance.engines.ports import RATE, Audio
from appliance.errors import ApplianceError, DiskFullError, UsageError

_READ = 16_384  # frames a read: 0.34 s at 48 kHz
_FLOAT_SUBTYPES = frozenset({"FLOAT", "DOUBLE"})
_READABLE = "WAV, FLAC, OGG and MP3 files can be read."


@dataclass(frozen=True, slots=True)
class AudioFile:
    """An audio file that was looked at and found readable. `frames` counts at the file's own `rate`."""

    path: Path
    rate: int
    channels: int
    frames: int
    note: str = ""  # one sentence where the header and the contents disagree

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def seconds(self) -> float:
        return self.frames / self.rate

    def chunks(self, size: int = 512, rate: int = RATE) -> Iterator[Audio]:
        """Mono float32 chunks of `size` samples at `rate`; the last one may be shorter, never empty.

        Channels are averaged. Raises UsageError when the file breaks off in the middle of its own coding.
        """
        resampler = Resampler(self.rate, rate)
        held = np.zeros(0, dtype=np.float32)
        with _open(self.path) as file:
            more = True
            while more:
                frames = _read(file, self.path, _READ)
                more = len(frames) > 0
                mono = frames.mean(axis=1, dtype=np.float32) if more else np.zeros(0, dtype=np.float32)
                held = np.concatenate((held, np.clip(resampler.push(mono, last=not more), -1.0, 1.0)))
                whole = len(held) - len(held) % size
                for at in range(0, whole, size):
                    yield held[at : at + size]
                held = held[whole:]
        if len(held):
            yield held

    def read(self, rate: int = RATE) -> Audio:
        """The whole file, mono float32 at `rate`. For short files only."""
        return np.concatenate(list(self.chunks(_READ, rate)))


def open_audio(path: str | os.PathLike[str]) -> AudioFile:
    """Look at an audio file. Raises UsageError, naming the file, for anything that cannot be heard.

    Float files are scanned once from end to end for NaN and infinity (integer codings cannot hold them).
    """
    path = Path(path)
    _must_be_a_file(path)
    with _open(path) as file:
        rate, channels, promised = int(file.samplerate), int(file.channels), int(file.frames)
        scan = file.subtype in _FLOAT_SUBTYPES
        found = 0
        while len(frames := _read(file, path, _READ)):
            found += len(frames)
            if scan and not np.isfinite(frames).all():
                raise UsageError(
                    f"{path} holds samples that are not numbers (NaN or infinite), near second {found // rate}.",
                    "Export the file again from the program that made it.",
                )
            if not scan:
                break
    if found == 0:
        raise UsageError(f"{path} is an audio file without samples.", "Record it again; nothing was captured.")
    missing = _missing_bytes(path)
    note = f"{path.name} is {missing} bytes shorter than its header says; what is there is used." if missing else ""
    return AudioFile(path, rate, channels, found if scan else promised, note)


def write_wav(path: str | os.PathLike[str], chunks: Iterable[Audio], rate: int) -> int:
    """Write mono float32 `chunks` as 16-bit PCM; returns the number of samples.

    The file appears under its name only when it is complete. Raises UsageError where the place cannot be
    written, DiskFullError where it is full.
    """
    writer = WavWriter(path, rate)
    with ExitStack() as undo:
        undo.callback(writer.discard)  # no half file stays
        for chunk in chunks:
            writer.write(chunk)
        undo.pop_all()
    return writer.close()


class WavWriter:
    """A 16-bit mono WAV written piece by piece under a temporary name, renamed by `close`."""

    def __init__(self, path: str | os.PathLike[str], rate: int) -> None:
        self.path = Path(path)
        self.rate = rate
        self.samples = 0
        self._part = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        if self.path.is_dir():
            raise UsageError(f"{self.path} is a folder, not a file.", "Give a file name that ends in .wav.")
        try:
            self._raw = self._part.open("wb")
        except OSError as error:
            raise _unwritable(self.path, error) from error
        self._wav = wave.open(self._raw, "wb")  # noqa: SIM115  closed by close() or discard()
        self._wav.setnchannels(1)
        self._wav.setsampwidth(2)
        self._wav.setframerate(rate)

    def write(self, audio: Audio) -> None:
        pcm = np.rint(np.clip(audio, -1.0, 1.0) * 32767.0).astype("<i2")
        try:
            self._wav.writeframesraw(pcm.tobytes())
        except OSError as error:
            self.discard()
            raise _unwritable(self.path, error) from error
        self.samples += len(pcm)

    def close(self) -> int:
        """Complete the header, move the file to its name; returns the number of samples. Idempotent."""
        if self._raw.closed:
            return self.samples
        try:
            self._wav.close()
            self._raw.close()
            self._part.replace(self.path)
        except OSError as error:
            self.discard()
            raise _unwritable(self.path, error) from error
        return self.samples

    def discard(self) -> None:
        """Give up; nothing is left behind. Idempotent."""
        for closing in (self._wav.close, self._raw.close):
            try:
                closing()
            except (OSError, ValueError):
                continue  # a full disk fails here again; the part file goes in any case
        self._part.unlink(missing_ok=True)


def _must_be_a_file(path: Path) -> None:
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a folder, not an audio file.", "Name the files in it: FOLDER/*.wav.")
        if not path.exists():
            raise UsageError(f"{path} does not exist.", "Check the spelling and the folder you are in.")
        if not path.is_file():
            raise UsageError(f"{path} is not a regular file.", _READABLE)
        if path.stat().st_size == 0:
            raise UsageError(f"{path} is empty (0 bytes).", "Copy or record it again.")
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({_reason(error)}).", "Check its permissions.") from error


def _open(path: Path) -> Any:
    import soundfile

    try:
        with path.open("rb"):
            pass  # libsndfile calls a refused permission "System error"; Python names it
        return soundfile.SoundFile(str(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({_reason(error)}).", "Check its permissions.") from error
    except (soundfile.LibsndfileError, TypeError) as error:  # TypeError: a .raw name, which states no format
        raise UsageError(f"{path} is not an audio file that can be read.", _READABLE) from error


def _read(file: Any, path: Path, frames: int) -> Any:
    import soundfile

    try:
        return file.read(frames, dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        at = file.tell() / file.samplerate
        raise UsageError(f"{path} is damaged near second {at:.1f}.", "Copy or export it again.") from error


def _missing_bytes(path: Path) -> int:
    """How many bytes of a RIFF WAV's data chunk its header promises beyond the end of the file.

    0xFFFFFFFF and 0 are what programs write that stream into a pipe; they promise nothing.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(12)
        if head[:4] != b"RIFF" or head[8:12] != b"WAVE":
            return 0
        at = 12
        while at + 8 <= size:
            file.seek(at)
            chunk = file.read(8)
            length = int.from_bytes(chunk[4:8], "little")
            if chunk[:4] == b"data":
                return 0 if length >= 0xFFFF_0000 else max(0, at + 8 + length - size)
            at += 8 + length + length % 2
    return 0


def _unwritable(path: Path, error: OSError) -> ApplianceError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFullError(f"No space left while writing {path}.", "Free some space or choose another place.")
    return UsageError(f"{path} cannot be written ({_reason(error)}).", "Choose a folder you may write to.")


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
