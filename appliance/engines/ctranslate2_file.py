"""The weights in a CTranslate2 `model.bin`, read where they lie.

Owns the layout of version 6 of that file (ctranslate2/specs/model_spec.py writes it): the name of the kind of model,
then each variable's name, shape, type and bytes, then names that mean the same variable. Knows nothing of what they
are for.
"""

import mmap
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

VERSION = 6
_TYPES: tuple[type[np.generic], ...] = (np.float32, np.int8, np.int16, np.int32, np.float16)  # by the file's number

Weights = Mapping[str, NDArray[Any]]


class ModelFile:
    """The kind of model ("WhisperSpec") and its variables, backed by the file: only what is used is read."""

    def __init__(self, path: Path) -> None:
        """ValueError when the file is no model of this version, or is cut off; OSError when it cannot be read."""
        with path.open("rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            self.kind, self.weights = _Reader(self._data).model()
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise ValueError(f"{path.name} ends early or is no CTranslate2 model") from error

    def forget(self) -> None:
        """Take what was read out of memory; what is used again is read again."""
        self._data.madvise(mmap.MADV_DONTNEED)


class _Reader:
    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 0

    def model(self) -> tuple[str, Weights]:
        if self._number("I") != VERSION:
            raise ValueError(f"not version {VERSION} of a CTranslate2 model")
        kind = self._text()
        self._number("I")  # the kind's own revision
        found = {}
        for _ in range(self._number("I")):
            name = self._text()
            found[name] = self._variable()
        for _ in range(self._number("I")):
            alias, name = self._text(), self._text()
            if name not in found:
                raise ValueError(f"{alias} stands for {name}, which is not there")
            found[alias] = found[name]
        return kind, found

    def _number(self, kind: str) -> int:
        (value,) = struct.unpack_from(f"<{kind}", self._data, self._at)
        self._at += struct.calcsize(kind)
        return int(value)

    def _text(self) -> str:
        size = self._number("H")  # with the zero behind it
        begin, self._at = self._at, self._at + size
        return self._data[begin : self._at - 1].decode()

    def _variable(self) -> NDArray[Any]:
        shape = [self._number("I") for _ in range(self._number("B"))]
        kind = np.dtype(_TYPES[self._number("B")])
        size = self._number("I")
        begin, self._at = self._at, self._at + size
        if int(np.prod(shape, dtype=np.int64)) * kind.itemsize != size or self._at > len(self._data):
            raise ValueError("a variable's size is not its shape's, or the file is broken off")
        return np.frombuffer(self._data, kind, size // kind.itemsize, begin).reshape(shape)
