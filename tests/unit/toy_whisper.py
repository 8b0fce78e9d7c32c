"""A whisper decoder of toy size: random weights, the file that CTranslate2 keeps them in, and the sums by numpy."""

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

WIDTH, HEADS, LAYERS, VOCABULARY, POSITIONS = 64, 2, 2, 96, 32
_NUMBERS = {"float32": 0, "int8": 1, "int16": 2, "int32": 3, "float16": 4}


def toy_weights(seed: int = 0) -> dict[str, NDArray[np.generic]]:
    draw = np.random.default_rng(seed)
    found: dict[str, NDArray[np.generic]] = {"decoder/num_heads": np.array(HEADS, np.int16)}

    def floats(name: str, *shape: int, spread: float = 0.3) -> None:
        found[f"decoder/{name}"] = draw.normal(0, spread, shape).astype(np.float16)

    def norm(name: str) -> None:
        found[f"decoder/{name}/gamma"] = draw.normal(1, 0.1, WIDTH).astype(np.float16)
        floats(f"{name}/beta", WIDTH, spread=0.1)

    def linear(name: str, rows: int, columns: int) -> None:
        floats(f"{name}/weight", rows, columns, spread=columns**-0.5)
        floats(f"{name}/bias", rows, spread=0.1)

    floats("embeddings/weight", VOCABULARY, WIDTH, spread=0.5)
    floats("position_encodings/encodings", POSITIONS, WIDTH)
    for i in range(LAYERS):
        for place, shapes in (("self_attention", (3, 1)), ("attention", (1, 2, 1))):
            norm(f"layer_{i}/{place}/layer_norm")
            for k, times in enumerate(shapes):
                linear(f"layer_{i}/{place}/linear_{k}", times * WIDTH, WIDTH)
        norm(f"layer_{i}/ffn/layer_norm")
        linear(f"layer_{i}/ffn/linear_0", 4 * WIDTH, WIDTH)
        linear(f"layer_{i}/ffn/linear_1", WIDTH, 4 * WIDTH)
    norm("layer_norm")
    return found


def write_model(path: Path, weights: dict[str, NDArray[np.generic]], aliases: dict[str, str], version: int = 6) -> None:
    def text(words: str) -> bytes:
        return struct.pack("<H", len(words) + 1) + words.encode() + b"\0"

    data = struct.pack("<I", version) + text("WhisperSpec") + struct.pack("<II", 3, len(weights))
    for name, values in weights.items():
        data += text(name) + struct.pack("<B", values.ndim) + b"".join(struct.pack("<I", n) for n in values.shape)
        data += struct.pack("<BI", _NUMBERS[values.dtype.name], values.nbytes) + values.tobytes()
    data += struct.pack("<I", len(aliases)) + b"".join(text(a) + text(b) for a, b in aliases.items())
    path.write_bytes(data)


def logits(weights: dict[str, NDArray[np.generic]], states: Floats, ids: list[int]) -> Floats:
    """(n, vocabulary) of tokens `ids` from position 0 on, over encoder `states` (T, width)."""

    def get(name: str) -> Floats:
        return weights[f"decoder/{name}"].astype(np.float32)

    def norm(x: Floats, name: str) -> Floats:
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
        out: Floats = scaled * get(f"{name}/gamma") + get(f"{name}/beta")
        return out

    def linear(x: Floats, name: str) -> Floats:
        out: Floats = x @ get(f"{name}/weight").T + get(f"{name}/bias")
        return out

    def attention(asked: Floats, keys: Floats, values: Floats, *, causal: bool) -> Floats:
        out = []
        for head in range(HEADS):
            part = slice(head * WIDTH // HEADS, (head + 1) * WIDTH // HEADS)
            scores = asked[:, part] @ keys[:, part].T / np.sqrt(WIDTH // HEADS)
            if causal:
                scores = np.where(np.tri(*scores.shape, dtype=bool), scores, -np.inf)
            share = np.exp(scores - scores.max(axis=-1, keepdims=True))
            out.append(share / share.sum(axis=-1, keepdims=True) @ values[:, part])
        return np.concatenate(out, axis=-1).astype(np.float32)

    x = get("embeddings/weight")[ids] + get("position_encodings/encodings")[: len(ids)]
    for i in range(LAYERS):
        name = f"layer_{i}/self_attention"
        asked, keys, values = np.split(linear(norm(x, f"{name}/layer_norm"), f"{name}/linear_0"), 3, axis=-1)
        x = x + linear(attention(asked, keys, values, causal=True), f"{name}/linear_1")
        name = f"layer_{i}/attention"
        keys, values = np.split(linear(states, f"{name}/linear_1"), 2, axis=-1)
        asked = linear(norm(x, f"{name}/layer_norm"), f"{name}/linear_0")
        x = x + linear(attention(asked, keys, values, causal=False), f"{name}/linear_2")
        name = f"layer_{i}/ffn"
        inner = linear(norm(x, f"{name}/layer_norm"), f"{name}/linear_0")
        x = x + linear(_gelu(inner), f"{name}/linear_1")
    out: Floats = norm(x, "layer_norm") @ get("embeddings/weight").T
    return out


def _gelu(x: Floats) -> Floats:
    from math import erf

    return (0.5 * x * (1 + np.vectorize(erf)(x / np.sqrt(2)))).astype(np.float32)
