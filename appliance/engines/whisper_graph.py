"""Whisper's decoder as two ONNX graphs, from the weights of a CTranslate2 model.

`memory_graph` turns the encoder's states into each layer's keys and values, once an utterance; `step_graph` takes the
tokens since the last step and gives the logits of each. Owns the arithmetic of the decoder (Radford et al. 2022,
"Robust Speech Recognition via Large-Scale Weak Supervision": pre-norm transformer, GELU, output layer tied to the
embeddings) and how its weights are rounded to 8 bits. Knows nothing of tokens' meaning or of when to stop.

Products of a token or two are bound by how fast the weights are read: they stand in blocks of 32 with a scale each, in
the form that onnxruntime keeps packed. The memory's products are wide: there the sums count, and 8-bit weights without
a sign are the ones whose sums cannot run over on processors without VNNI.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from appliance.engines.ctranslate2_file import Weights

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto

_BLOCK = 32  # weights that share a scale
_ROWS = 4096  # rounded at a time, so that no second copy of the output layer is in memory
_OPSET, _IR = 21, 10
_EPSILON = 1e-5

Floats = NDArray[np.float32]
Shape = list[int | str]


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the weights say about the decoder."""

    layers: int
    heads: int
    width: int
    vocabulary: int

    @property
    def head(self) -> int:
        return self.width // self.heads


def sizes(weights: Weights) -> Sizes:
    """ValueError or KeyError where these are not the weights of a whisper decoder, or are not floats."""
    embeddings = weights["decoder/embeddings/weight"]
    if embeddings.ndim != 2 or embeddings.dtype not in (np.float16, np.float32):
        raise ValueError("the weights have been rounded already")
    layers = 0
    while f"decoder/layer_{layers}/ffn/linear_0/weight" in weights:
        layers += 1
    found = Sizes(layers, int(weights["decoder/num_heads"]), embeddings.shape[1], embeddings.shape[0])
    if not layers or found.width % found.heads or found.width % _BLOCK:
        raise ValueError("no decoder that this file knows")
    return found


def memory_graph(weights: Weights) -> bytes:
    """Input `states` (1, T, width); outputs `keys_i` and `values_i` (1, heads, T, head) for each layer."""
    size = sizes(weights)
    graph = _Graph(weights, size)
    for i in range(size.layers):
        pair = graph.wide_product("states", f"layer_{i}/attention/linear_1")
        for name, part in zip(("keys", "values"), graph.split(pair, 2), strict=True):
            graph.output(graph.by_head(part), f"{name}_{i}", [1, size.heads, "T", size.head])
    return graph.model({"states": [1, "T", size.width]})


def step_graph(weights: Weights) -> bytes:
    """Inputs: `tokens` (1, n, width), their embeddings with positions; `mask` (n, past + n), 0 or very negative;
    `keys_i`, `values_i` as the memory graph gives them; `own_keys_i`, `own_values_i` (1, heads, past, head).
    Outputs: `logits` (1, n, vocabulary), and `own_keys_i`, `own_values_i` grown by n, with `new_` before their names.
    """
    size = sizes(weights)
    graph = _Graph(weights, size)
    memory: Shape = [1, size.heads, "T", size.head]
    past: Shape = [1, size.heads, "past", size.head]
    inputs: dict[str, Shape] = {"tokens": [1, "n", size.width], "mask": ["n", "all"]}
    x = "tokens"
    for i in range(size.layers):
        inputs |= {f"keys_{i}": memory, f"values_{i}": memory, f"own_keys_{i}": past, f"own_values_{i}": past}
        layer = f"layer_{i}/self_attention"
        normed = graph.norm(x, f"{layer}/layer_norm")
        parts = [graph.by_head(p) for p in graph.split(graph.product(normed, f"{layer}/linear_0"), 3)]
        keys, values = (graph.op("Concat", [old, new], axis=2)
                        for old, new in ((f"own_keys_{i}", parts[1]), (f"own_values_{i}", parts[2])))  # fmt: skip
        grown: Shape = [1, size.heads, "all", size.head]
        graph.output(keys, f"new_own_keys_{i}", grown)
        graph.output(values, f"new_own_values_{i}", grown)
        heard = graph.attention(parts[0], keys, values, "mask")
        x = graph.op("Add", [x, graph.product(heard, f"{layer}/linear_1")])
        layer = f"layer_{i}/attention"
        asked = graph.by_head(graph.product(graph.norm(x, f"{layer}/layer_norm"), f"{layer}/linear_0"))
        heard = graph.attention(asked, f"keys_{i}", f"values_{i}")
        x = graph.op("Add", [x, graph.product(heard, f"{layer}/linear_2")])
        layer = f"layer_{i}/ffn"
        inner = graph.op("Gelu", [graph.product(graph.norm(x, f"{layer}/layer_norm"), f"{layer}/linear_0")])
        x = graph.op("Add", [x, graph.product(inner, f"{layer}/linear_1")])
    logits = graph.product(graph.norm(x, "layer_norm"), "projection")
    graph.output(logits, "logits", [1, "n", size.vocabulary])
    return graph.model(inputs)


class _Graph:
    """Nodes and stored tensors being put together; names of tensors stand for them."""

    def __init__(self, weights: Weights, size: Sizes) -> None:
        self._weights, self._size = weights, size
        self._nodes: list[NodeProto] = []
        self._stored: list[TensorProto] = []
        self._outputs: dict[str, Shape] = {}
        self._store("by_head", np.array([0, 0, size.heads, size.head]))
        self._store("flat", np.array([0, 0, size.width]))

    def model(self, inputs: dict[str, Shape]) -> bytes:
        from onnx import TensorProto, helper

        def declared(names: dict[str, Shape]) -> list[Any]:
            return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in names.items()]

        graph = helper.make_graph(self._nodes, "whisper", declared(inputs), declared(self._outputs), self._stored)
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("com.microsoft", 1)]
        return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=_IR).SerializeToString())

    def op(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        return self._ops(kind, inputs, 1, **attributes)[0]

    def split(self, x: str, parts: int) -> list[str]:
        return self._ops("Split", [x], parts, axis=2, num_outputs=parts)

    def output(self, x: str, name: str, shape: Shape) -> None:
        from onnx import helper

        self._nodes.append(helper.make_node("Identity", [x], [name]))
        self._outputs[name] = shape

    def by_head(self, x: str) -> str:
        """(1, n, width) as (1, heads, n, head)."""
        return self.op("Transpose", [self.op("Reshape", [x, "by_head"])], perm=[0, 2, 1, 3])

    def norm(self, x: str, name: str) -> str:
        scale, shift = (self._store(f"{name}/{part}", self._floats(f"{name}/{part}")) for part in ("gamma", "beta"))
        return self.op("LayerNormalization", [x, scale, shift], axis=-1, epsilon=_EPSILON)

    def attention(self, asked: str, keys: str, values: str, mask: str = "") -> str:
        """Softmax attention of all heads; (1, n, width)."""
        scores = self.op("MatMul", [asked, self.op("Transpose", [keys], perm=[0, 1, 3, 2])])
        if mask:
            scores = self.op("Add", [scores, mask])
        heard = self.op("MatMul", [self.op("Softmax", [scores], axis=-1), values])
        return self.op("Reshape", [self.op("Transpose", [heard], perm=[0, 2, 1, 3]), "flat"])

    def product(self, x: str, name: str) -> str:
        """A linear layer for few tokens."""
        rows, bias = self._linear(name)
        packed = [_in_blocks(rows[at : at + _ROWS]) for at in range(0, len(rows), _ROWS)]
        stored = [self._store(f"{name}/{part}", np.concatenate([p[k] for p in packed]))
                  for k, part in enumerate(("rounded", "scales"))]  # fmt: skip
        inputs = [x, *stored]
        if bias is not None:
            inputs += ["", "", self._store(f"{name}/bias", bias)]
        return self.op(
            "MatMulNBits",
            inputs,
            domain="com.microsoft",
            N=rows.shape[0],
            K=rows.shape[1],
            bits=8,
            block_size=_BLOCK,
            accuracy_level=4,
        )

    def wide_product(self, x: str, name: str) -> str:
        """A linear layer for hundreds of states. Each is scaled by its own largest value, as its rounding would be."""
        rows, bias = self._linear(name)
        scales = np.maximum(np.abs(rows).max(axis=1) / 127, np.float32(1e-12))
        rounded = (np.rint(rows / scales[:, None]) + 128).astype(np.uint8).T
        zero = self._store(f"{name}/zero", np.full(len(rows), 128, np.uint8))
        largest = self.op("ReduceMax", [self.op("Abs", [x]), self._store(f"{name}/last", np.array([-1]))], keepdims=1)
        largest = self.op("Max", [largest, self._store(f"{name}/least", np.array(1e-10, np.float32))])
        stored = [self._store(f"{name}/rounded", rounded), self._store(f"{name}/scales", scales), zero]
        y = self.op("DynamicQuantizeMatMul", [self.op("Div", [x, largest]), *stored], domain="com.microsoft")
        y = self.op("Mul", [y, largest])
        return y if bias is None else self.op("Add", [y, self._store(f"{name}/bias", bias)])

    def _linear(self, name: str) -> tuple[Floats, Floats | None]:
        """Weight (outputs, inputs) and bias of a layer; what asks in attention has its scale of 1/sqrt(head) in it."""
        rows = self._floats(f"{name}/weight")
        bias = self._floats(f"{name}/bias") if f"decoder/{name}/bias" in self._weights else None
        if name.endswith("attention/linear_0"):
            rows, bias = rows.copy(), None if bias is None else bias.copy()
            scale = np.float32(self._size.head**-0.5)
            rows[: self._size.width] *= scale
            if bias is not None:
                bias[: self._size.width] *= scale
        return rows, bias

    def _floats(self, name: str) -> Floats:
        return self._weights[f"decoder/{name}"].astype(np.float32)

    def _store(self, name: str, values: NDArray[Any]) -> str:
        from onnx import numpy_helper

        self._stored.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def _ops(self, kind: str, inputs: list[str], outputs: int, domain: str = "", **attributes: Any) -> list[str]:
        from onnx import helper

        names = [f"{kind}_{len(self._nodes)}_{k}" for k in range(outputs)]
        self._nodes.append(helper.make_node(kind, inputs, names, domain=domain, **attributes))
        return names


def _in_blocks(rows: Floats) -> tuple[NDArray[np.uint8], Floats]:
    """Rows (N, K) as MatMulNBits takes them: (N, blocks, 32) around 128, and a scale a block."""
    blocks = rows.reshape(len(rows), -1, _BLOCK)
    scales = np.maximum(np.maximum(blocks.max(axis=-1), -blocks.min(axis=-1)) / 127, np.float32(1e-12))
    shifted = blocks / scales[..., None]
    shifted += 128.5
    return shifted.astype(np.uint8), scales
