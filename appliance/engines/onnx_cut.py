"""Cuts an ONNX model in two at a tensor, on the bytes themselves: it is done at each start, and most stays as it is.

Owns the few fields of the protobuf wire format that this takes: a model is a list of fields, its graph another,
and nodes name what they read and write. Knows nothing of what the model does.

Field numbers are those of onnx.proto: ModelProto.graph 7; GraphProto.node 1, initializer 5, input 11, output 12,
value_info 13; NodeProto.input 1, output 2, name 3, op_type 4; TensorProto.data_type 2, name 8, raw_data 9;
ValueInfoProto.name 1, type 2.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_GRAPH = 7
_NODE, _INITIALIZER, _INPUT, _OUTPUT, _VALUE_INFO = 1, 5, 11, 12, 13
_VARINT, _I64, _BYTES, _I32 = 0, 1, 2, 5
_FLOAT_TYPE, _INT64_TYPE = 1, 7  # TensorProto.data_type


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    raw: memoryview


class Graph:
    """The nodes and tensors of a serialised model. ValueError when the bytes are no model with a graph."""

    def __init__(self, model: bytes) -> None:
        self._model = list(_fields(memoryview(model)))
        graphs = [value for number, value, _ in self._model if number == _GRAPH]
        if len(graphs) != 1:
            raise ValueError("not an ONNX model")
        self._graph = list(_fields(graphs[0]))
        self.nodes = [_node(value, raw) for number, value, raw in self._graph if number == _NODE]
        self._made_by = {name: node for node in self.nodes for name in node.outputs}
        self.outputs = [_text(value, 1) for number, value, _ in self._graph if number == _OUTPUT]

    def part(
        self,
        outputs: list[str],
        given: dict[str, tuple[int | str, ...]] | None = None,
        numbers: dict[str, int] | None = None,
    ) -> bytes:
        """A model of only what `outputs` need. Float tensors in `given` become inputs of the stated shape.

        `numbers`: stored int64 tensors of one element that get another value.
        """
        given, numbers = given or {}, numbers or {}
        needed, nodes = self._needed(outputs, set(given))
        kept: list[bytes] = []
        for number, value, raw in self._graph:
            named = {_INITIALIZER: 8, _INPUT: 1}.get(number)
            if number in (_OUTPUT, _VALUE_INFO) or (named and _text(value, named) not in needed - set(given)):
                continue
            if number == _NODE and id(raw) not in nodes:
                continue
            name = _text(value, 8) if number == _INITIALIZER else ""
            kept.append(_one_number(name, numbers[name]) if name in numbers else bytes(raw))
        kept += [_nested(_INPUT, _float_tensor(name, shape)) for name, shape in given.items()]
        kept += [_nested(_OUTPUT, _nested(1, name.encode())) for name in outputs]
        graph = _nested(_GRAPH, b"".join(kept))
        return b"".join(graph if number == _GRAPH else bytes(raw) for number, _, raw in self._model)

    def shape(self, initializer: str) -> tuple[int, ...]:
        """Sizes of a stored tensor. KeyError when there is none of that name."""
        return tuple(_dimensions(self._tensor(initializer)))

    def floats(self, initializer: str) -> NDArray[np.float32]:
        """A stored float tensor. KeyError when there is none of that name, or its values are stored otherwise."""
        tensor = self._tensor(initializer)
        if _kind(tensor) != _FLOAT_TYPE or not (data := _raw_data(tensor)):
            raise KeyError(initializer)
        return np.frombuffer(data, "<f4").reshape(self.shape(initializer))

    def numbers(self) -> dict[str, int]:
        """The stored int64 tensors of one element."""
        found = {}
        for number, value, _ in self._graph:
            if number == _INITIALIZER and _kind(value) == _INT64_TYPE and len(data := _raw_data(value)) == 8:
                found[_text(value, 8)] = int.from_bytes(data, "little", signed=True)
        return found

    def _tensor(self, initializer: str) -> memoryview:
        for number, value, _ in self._graph:
            if number == _INITIALIZER and _text(value, 8) == initializer:
                return value
        raise KeyError(initializer)

    def _needed(self, outputs: list[str], given: set[str]) -> tuple[set[str], set[int]]:
        """Names of tensors, and identities of node fields, on which `outputs` depend."""
        names: set[str] = set()
        nodes: set[int] = set()
        todo = list(outputs)
        while todo:
            name = todo.pop()
            if not name or name in names:
                continue
            names.add(name)
            if name not in given and name in self._made_by:
                node = self._made_by[name]
                nodes.add(id(node.raw))
                todo += node.inputs
        return names, nodes


def _node(value: memoryview, raw: memoryview) -> Node:
    texts: dict[int, list[str]] = {1: [], 2: [], 3: [], 4: []}
    for number, field, _ in _fields(value):
        if number in texts:
            texts[number].append(bytes(field).decode())
    return Node("".join(texts[3]), "".join(texts[4]), tuple(texts[1]), tuple(texts[2]), raw)


def _fields(data: memoryview) -> Iterator[tuple[int, memoryview, memoryview]]:
    """Field number, payload, and the whole field with its key, of a message."""
    at = 0
    while at < len(data):
        begin = at
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind == _VARINT:
            size = _varint(data, at)[1] - at
        elif kind in (_I64, _I32):
            size = 8 if kind == _I64 else 4
        else:
            raise ValueError("not a protobuf message")
        if at + size > len(data):
            raise ValueError("a protobuf message ends early")
        yield key >> 3, data[at : at + size], data[begin : at + size]
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
    raise ValueError("a protobuf number ends early")


def _text(message: memoryview, wanted: int) -> str:
    return next((bytes(value).decode() for number, value, _ in _fields(message) if number == wanted), "")


def _kind(tensor: memoryview) -> int:
    return next((_varint(value, 0)[0] for number, value, _ in _fields(tensor) if number == 2), 0)


def _raw_data(tensor: memoryview) -> bytes:
    return next((bytes(value) for number, value, _ in _fields(tensor) if number == 9), b"")


def _one_number(name: str, value: int) -> bytes:
    """The field of a stored int64 tensor of shape (1,)."""
    kind = _number(1 << 3) + _number(1) + _number(2 << 3) + _number(_INT64_TYPE)
    tensor = kind + _nested(8, name.encode()) + _nested(9, value.to_bytes(8, "little", signed=True))
    return _nested(_INITIALIZER, tensor)


def _dimensions(tensor: memoryview) -> Iterator[int]:
    """TensorProto.dims (1), packed into one field or one field each."""
    at = 0
    while at < len(tensor):
        key, at = _varint(tensor, at)
        if key == (1 << 3 | _VARINT):
            size, at = _varint(tensor, at)
            yield size
        elif key == (1 << 3 | _BYTES):
            length, at = _varint(tensor, at)
            end = at + length
            while at < end:
                size, at = _varint(tensor, at)
                yield size
        else:
            return


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _nested(number: int, payload: bytes) -> bytes:
    return _number(number << 3 | _BYTES) + _number(len(payload)) + payload


def _float_tensor(name: str, shape: tuple[int | str, ...]) -> bytes:
    """A ValueInfoProto: a float tensor whose named dimensions are free."""
    sizes = [
        _nested(1, _number(1 << 3) + _number(size) if isinstance(size, int) else _nested(2, size.encode()))
        for size in shape
    ]
    tensor = _number(1 << 3) + _number(1) + _nested(2, b"".join(sizes))  # elem_type FLOAT, shape
    return _nested(1, name.encode()) + _nested(2, _nested(1, tensor))
