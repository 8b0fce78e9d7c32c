"""Geometry read off a GGUF file: metadata only, no weights touched, nothing native loaded.

Owns the mapping from GGUF keys to `Geometry`, mirroring how llama.cpp reads the same keys (defaults included).
It does not know bytes of K/V (that is `appliance.capacity.kv`) nor how the model is run.
"""

import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from appliance.capacity.geometry import Geometry, Layer
from appliance.errors import ModelFileError

# Architectures whose windowed layers follow a fixed pattern unless the file says otherwise: (every n-th layer is
# global, the global one comes first). From llama.cpp's per-architecture loaders.
_PATTERNS: dict[str, tuple[int, bool]] = {
    "afmoe": (4, False),
    "cohere2": (4, False),
    "cohere2moe": (4, True),
    "exaone-moe": (4, False),
    "exaone4": (4, False),
    "gemma2": (2, False),
    "gemma3": (6, False),
    "gemma3n": (5, False),
    "gpt-oss": (2, False),
    "laguna": (4, True),
    "llama4": (4, False),
    "mellum": (4, False),
    "olmo2": (4, False),
    "plamo3": (8, False),
    "smallthinker": (4, True),
}
_DEFAULT_WINDOWS = {"gemma2": 4096, "exaone4": 4096, "llama4": 8192}
_RECURRENT = {"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"}
# Every n-th layer attends, the others are recurrent.
_INTERVALS = {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4, "minimax-01": 8}
# Models that use every layer both ways.
_BOTH = {"falcon-h1"}
# Memory layouts with extra caches that this arithmetic does not describe: better refused than wrong.
_UNDESCRIBED = {"deepseek4", "deepseek32", "glm-dsa", "glm5-next", "dots3note", "minimax-m3", "qwen4exp", "hy-v4"}
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")
_MOST_LAYERS = 512  # llama.cpp's own limit
_LONG_ARRAY = 512  # no per-layer array is longer; longer ones are vocabularies


def read_geometry(path: Path) -> Geometry:
    """The geometry of the model in `path` (the first part of a split model stands for all parts).

    Raises ModelFileError when the file is absent, not a GGUF, truncated, of the other byte order, holds only a
    vocabulary, or is an encoder that cannot generate text.
    """
    reader = _open(path)
    with _damage(path):
        meta = _Metadata(path, reader)
        if not reader.tensors:
            raise ModelFileError(
                f"{path} holds only a vocabulary, no weights", "point the config at the model's own GGUF file"
            )
        if meta.get("attention.causal", True) is False or meta.architecture in {"clip", "t5encoder"}:
            raise ModelFileError(
                f"{path} is a {meta.architecture} encoder and cannot write text", "choose a chat model in GGUF form"
            )
        if meta.architecture in _UNDESCRIBED:
            raise ModelFileError(
                f"{path} is of the architecture {meta.architecture}, whose memory cannot be predicted",
                "choose a model of another family; `appliance plan tiers` lists some",
            )
        return _geometry(meta, _weights_bytes(path, reader, meta))


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """What the package and the arithmetic raise on damaged metadata depends on where the damage lies."""
    try:
        yield
    except (ValueError, LookupError, ArithmeticError, TypeError, AttributeError, struct.error, MemoryError) as error:
        with path.open("rb") as file:
            magic = file.read(4)
        if magic != b"GGUF":
            raise ModelFileError(f"{path} is not a GGUF file", "fetch the model in GGUF form") from error
        raise ModelFileError(
            f"{path} is damaged: its metadata cannot be read", "`appliance models verify` checks it; pull it again"
        ) from error


def _open(path: Path) -> Any:
    if not path.is_file():
        raise ModelFileError(f"there is no model file at {path}", "`appliance models pull` fetches what a tier needs")
    with _damage(path):
        reader = _fast_reader()(path)
    if reader.byte_order != "I":
        raise ModelFileError(f"{path} was written for the other byte order", "fetch the little-endian file")
    end = max((tensor.data_offset + tensor.n_bytes for tensor in reader.tensors), default=0)
    if path.stat().st_size < end:
        raise ModelFileError(
            f"{path} is truncated: {path.stat().st_size} of {end} bytes are there", "pull the model again"
        )
    return reader


def _fast_reader() -> type[Any]:
    """The package's reader, but walking over long arrays (vocabularies) without an object for each element.

    A vocabulary of 150,000 strings takes the plain reader ten seconds. Where a later version of the package
    renames the hooks, this only gets slow again.
    """
    import numpy as np
    from gguf import GGUFReader, GGUFValueType, ReaderTensor
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    class FastReader(GGUFReader):  # type: ignore[misc]  # the package ships untyped parts
        def _get_field_parts(self, orig_offs: int, raw_type: int) -> Any:
            if raw_type != GGUFValueType.ARRAY:
                return super()._get_field_parts(orig_offs, raw_type)
            raw_item, length = self._get(orig_offs, np.uint32), self._get(orig_offs + 4, np.uint64)
            count, item = int(length[0]), GGUFValueType(raw_item[0])
            if count <= _LONG_ARRAY:
                return super()._get_field_parts(orig_offs, raw_type)
            end = orig_offs + 12
            if item == GGUFValueType.STRING:
                data, size, read = memoryview(self.data), len(self.data), struct.Struct("<Q").unpack_from
                for _ in range(count):
                    end += 8 + read(data, end)[0]
                    if end > size:
                        raise ValueError("an array runs past the end of the file")
            else:
                end += np.dtype(self.gguf_scalar_to_np[item]).itemsize * count
                if end > len(self.data):
                    raise ValueError("an array runs past the end of the file")
            return end - orig_offs, [raw_item, length], [], [GGUFValueType.ARRAY, item]

        def _build_tensors(self, start_offs: int, fields: Sequence[Any]) -> None:
            # The plain reader maps every tensor, and fails unreadably on a truncated file.
            for field in fields:
                _, name, _, dims, raw_type, offset = field.parts
                block, size = GGML_QUANT_SIZES[GGMLQuantizationType(raw_type[0])]
                elements = int(np.prod(dims.astype(object))) if len(dims) else 1
                if elements < 0 or elements % block:
                    raise ValueError("a tensor's shape does not fit its type")
                self.tensors.append(
                    ReaderTensor(
                        name=bytes(name).decode(),
                        tensor_type=GGMLQuantizationType(raw_type[0]),
                        shape=dims,
                        n_elements=elements,
                        n_bytes=elements * size // block,
                        data_offset=start_offs + int(offset[0]),
                        data=self.data[:0],
                        field=field,
                    )
                )

    return FastReader


class _Metadata:
    """Keys of one file, by their name without the architecture in front."""

    def __init__(self, path: Path, reader: Any) -> None:
        self.path = path
        self._fields = reader.fields
        self.architecture = str(self._value("general.architecture") or "")
        if not self.architecture:
            raise ModelFileError(f"{path} does not name its architecture", "fetch the model in GGUF form")

    def get(self, key: str, default: Any = None) -> Any:
        value = self._value(f"{self.architecture}.{key}")
        return default if value is None else value

    def general(self, key: str, default: Any = None) -> Any:
        value = self._value(key)
        return default if value is None else value

    def need(self, key: str) -> int:
        value = self.get(key)
        if not isinstance(value, int) or value <= 0:
            raise ModelFileError(
                f"{self.path} lacks {self.architecture}.{key}", "it is no whole language model; fetch another file"
            )
        return value

    def each_layer(self, key: str, layers: int, default: int) -> list[int]:
        """A value a layer: an array in the file, or one number for all."""
        value = self.get(key, default)
        if isinstance(value, int | float):
            return [int(value)] * layers
        if len(value) < layers:
            raise ModelFileError(
                f"{self.path}: {self.architecture}.{key} has {len(value)} entries for {layers} layers",
                "the file is damaged; pull it again",
            )
        return [int(entry) for entry in value[:layers]]

    def length(self, key: str) -> int:
        field = self._fields.get(key)
        if field is None:
            return 0
        return len(field.data) or int(field.parts[4][0])

    def _value(self, key: str) -> Any:
        field = self._fields.get(key)
        if field is None or (not field.data and len(field.types) > 1 and self.length(key) > 0):
            return None
        return field.contents()


def _geometry(meta: _Metadata, weights_bytes: int) -> Geometry:
    layers = meta.need("block_count")
    if layers > _MOST_LAYERS:
        raise ValueError("more layers than llama.cpp accepts")
    embedding = meta.need("embedding_length")
    heads = meta.each_layer("attention.head_count", layers, 0)
    heads_kv = (
        meta.each_layer("attention.head_count_kv", layers, 0)
        if meta.get("attention.head_count_kv") is not None
        else heads
    )
    default_length = embedding // heads[0] if heads[0] else 0
    key_length = int(meta.get("attention.key_length", default_length))
    value_length = int(meta.get("attention.value_length", default_length))
    mla = bool(meta.get("attention.key_length_mla") and meta.get("attention.value_length_mla"))
    windowed, window = _windows(meta, layers, heads_kv)
    key_swa = int(meta.get("attention.key_length_swa", key_length))
    value_swa = int(meta.get("attention.value_length_swa", value_length))
    state = _state_floats(meta, embedding, heads[0])
    recurrent = _recurrent(meta, layers, heads_kv)
    own_kv = _layers_with_kv(meta, layers)
    built = []
    for i in range(layers):
        attends = (
            i < own_kv and (not recurrent[i] or meta.architecture in _BOTH) and meta.architecture not in _RECURRENT
        )
        if meta.architecture.startswith("nemotron_h") and not recurrent[i]:
            # Its feed-forward layers keep nothing at all.
            attends = attends and meta.each_layer("feed_forward_length", layers, 0)[i] == 0
        k = heads_kv[i] * (key_swa if windowed[i] else key_length)
        v = 0 if mla else heads_kv[i] * (value_swa if windowed[i] else value_length)
        built.append(
            Layer(k if attends else 0, v if attends else 0, windowed[i] and attends, state if recurrent[i] else 0)
        )
    first = next((i for i in range(layers) if built[i].k), 0)
    used, experts = meta.get("expert_used_count", 0), meta.get("expert_count", 0)
    return Geometry(
        name=str(meta.general("general.name", meta.path.stem)),
        architecture=meta.architecture,
        layers=tuple(built),
        vocabulary=int(meta.get("vocab_size", 0)) or meta.length("tokenizer.ggml.tokens"),
        context_tokens=meta.need("context_length"),
        embedding=embedding,
        # A recurrent layer's input projection is its widest row, as the feed-forward is elsewhere.
        feed_forward=max(*meta.each_layer("feed_forward_length", layers, 0), 2 * int(meta.get("ssm.inner_size", 0))),
        heads=max(heads),
        weights_bytes=weights_bytes,
        heads_kv=heads_kv[first],
        key_length=key_length,
        value_length=0 if mla else value_length,
        window_tokens=window,
        mla=mla,
        experts_share=float(used) / float(experts) if experts and isinstance(used, int) else 1.0,
        chat_template=meta.general("tokenizer.chat_template"),
    )


def _windows(meta: _Metadata, layers: int, heads_kv: Sequence[int]) -> tuple[list[bool], int]:
    """Which layers keep only a window, and how many tokens it has."""
    arch = meta.architecture
    window = int(meta.get("attention.sliding_window", _DEFAULT_WINDOWS.get(arch, 0)))
    # llama.cpp ignores the keys of phi3 (its files carry wrong patterns) and of the small EXAONE 4 models.
    if window <= 0 or arch == "phi3" or (arch == "exaone4" and layers != 64):
        return [False] * layers, 0
    if arch == "llama4":
        window = _DEFAULT_WINDOWS[arch]  # chunks of this size whatever the file says; only 0 switches them off
    if arch in {"lfm2", "lfm2moe"}:
        return [count > 0 for count in heads_kv], window
    windowed = _pattern(meta, layers)
    return windowed, window if any(windowed) else 0


def _pattern(meta: _Metadata, layers: int) -> list[bool]:
    """The windowed layers: a list in the file, or every layer but each n-th."""
    pattern = meta.get("attention.sliding_window_pattern")
    if isinstance(pattern, list):
        return [bool(entry) for entry in meta.each_layer("attention.sliding_window_pattern", layers, 0)]
    if meta.architecture not in _PATTERNS:
        return [False] * layers  # llama.cpp reads a plain number only for the architectures listed
    every, global_first = _PATTERNS[meta.architecture]
    every = int(pattern) if pattern is not None else every
    if every == 0:
        return [True] * layers
    return [i % every != 0 if global_first else i % every < every - 1 for i in range(layers)]


def _recurrent(meta: _Metadata, layers: int, heads_kv: Sequence[int]) -> list[bool]:
    arch = meta.architecture
    if arch in _RECURRENT or arch in _BOTH:
        return [True] * layers
    if arch in _INTERVALS:
        listed = meta.get("attention.recurrent_layers")
        if isinstance(listed, list):
            return [bool(entry) for entry in listed[:layers]]
        interval = int(meta.get("full_attention_interval", _INTERVALS[arch]))
        return [(i + 1) % interval != 0 for i in range(layers)]
    if arch.startswith("nemotron_h"):
        feed_forward = meta.each_layer("feed_forward_length", layers, 0)
        return [heads_kv[i] == 0 and feed_forward[i] == 0 for i in range(layers)]
    if _state_floats(meta, 1, 1):
        return [count == 0 for count in heads_kv]
    return [False] * layers


def _state_floats(meta: _Metadata, embedding: int, heads: int) -> int:
    """Float32 values a recurrent layer keeps for one sequence: convolution history and scan state."""
    wkv = int(meta.get("wkv.head_size", 0))
    if wkv:
        shifts = int(meta.get("token_shift_count", 2))
        return shifts * embedding + embedding * wkv
    short = int(meta.get("shortconv.l_cache", 0))
    if short:
        return embedding * (short - 1)
    kernel, inner = int(meta.get("ssm.conv_kernel", 0)), int(meta.get("ssm.inner_size", 0))
    kda = int(meta.get("kda.head_dim", 0))
    if kda:
        return 3 * (kernel - 1 if kernel else 3) * heads * kda + kda * kda * heads
    state, groups = int(meta.get("ssm.state_size", 0)), int(meta.get("ssm.group_count", 0))
    return max(0, kernel - 1) * (inner + 2 * groups * state) + state * inner


def _layers_with_kv(meta: _Metadata, layers: int) -> int:
    """Gemma 3n and 4 reuse earlier layers' K/V in their last layers."""
    if meta.architecture == "gemma3n":
        return 20
    if meta.architecture == "gemma4":
        return layers - int(meta.get("attention.shared_kv_layers", 0))
    return layers


def _weights_bytes(path: Path, reader: Any, meta: _Metadata) -> int:
    total = sum(int(tensor.n_bytes) for tensor in reader.tensors)
    shards = int(meta.general("split.count", 1))
    if shards <= 1:
        return total
    match = _SHARD.search(path.name)
    if match is None:
        raise ModelFileError(
            f"{path} is one part of {shards}, but its name does not say which", "keep the names the parts came with"
        )
    for number in range(1, shards + 1):
        part = path.with_name(_SHARD.sub(f"-{number:05d}-of-{shards:05d}.gguf", path.name))
        if part != path:
            total += sum(int(tensor.n_bytes) for tensor in _open(part).tensors)
    return total
