"""Models known by name, so that `appliance plan` can answer before anything was fetched.

Owns the geometries of the tiers' language models and of the models the planner compares. Weights are the Q4_K_M
files' sizes, rounded to about 1 % (a file on disk always wins over this list); everything else is exact, from the
models' own published configurations.
"""

import difflib
import re

from appliance.capacity.geometry import Geometry, Layer, uniform
from appliance.errors import UsageError

_GEMMA_VOCABULARY = 262_144
_LLAMA_VOCABULARY = 128_256
_QWEN_VOCABULARY = 151_936


def _gemma3(name: str, layers: int, heads: int, heads_kv: int, length: int, embedding: int, weights: float) -> Geometry:
    """Five windowed layers, then a global one. The feed-forward is four embeddings (six in the 1B model)."""
    small = layers == 26
    return Geometry(
        name=name,
        architecture="gemma3",
        layers=uniform(layers, heads_kv, length, window_every=6),
        vocabulary=_GEMMA_VOCABULARY,
        context_tokens=32_768 if small else 131_072,
        embedding=embedding,
        feed_forward=embedding * (6 if small else 4),
        heads=heads,
        weights_bytes=round(weights * 1e9),
        heads_kv=heads_kv,
        key_length=length,
        value_length=length,
        window_tokens=512 if small else 1024,
    )


def _dense(  # noqa: PLR0913, PLR0917  (one row of a table; all of it is needed)
    name: str,
    architecture: str,
    layers: int,
    heads: int,
    heads_kv: int,
    length: int,
    embedding: int,
    feed_forward: int,
    vocabulary: int,
    context: int,
    weights: float,
) -> Geometry:
    return Geometry(
        name=name,
        architecture=architecture,
        layers=uniform(layers, heads_kv, length),
        vocabulary=vocabulary,
        context_tokens=context,
        embedding=embedding,
        feed_forward=feed_forward,
        heads=heads,
        weights_bytes=round(weights * 1e9),
        heads_kv=heads_kv,
        key_length=length,
        value_length=length,
    )


def _scout() -> Geometry:
    """Llama 4 Scout: 16 experts, one and a shared one a token (17 of 109 billion parameters); chunks of 8,192."""
    return Geometry(
        name="Llama 4 Scout 109B",
        architecture="llama4",
        layers=uniform(48, 8, 128, window_every=4),
        vocabulary=202_048,
        context_tokens=10_485_760,
        embedding=5120,
        feed_forward=16_384,
        heads=40,
        weights_bytes=65_400_000_000,
        heads_kv=8,
        key_length=128,
        value_length=128,
        window_tokens=8192,
        experts_share=17 / 109,
    )


def _lfm2() -> Geometry:
    """LFM2.5 1.2B: six attention layers among ten short convolutions of three taps."""
    attends = {2, 5, 8, 10, 12, 14}
    layers = tuple(Layer(512, 512) if i in attends else Layer(0, 0, state=2048 * 2) for i in range(16))
    return Geometry(
        name="LFM2.5 1.2B",
        architecture="lfm2",
        layers=layers,
        vocabulary=65_536,
        context_tokens=128_000,
        embedding=2048,
        feed_forward=8192,
        heads=32,
        weights_bytes=731_000_000,
        heads_kv=8,
        key_length=64,
        value_length=64,
    )


_LLAMA, _QWEN = (_LLAMA_VOCABULARY, 131_072), (_QWEN_VOCABULARY, 40_960)
CATALOGUE: dict[str, Geometry] = {
    "smollm2-135m": _dense("SmolLM2 135M", "llama", 30, 9, 3, 64, 576, 1536, 49_152, 8192, 0.098362432),
    "qwen2.5-coder-0.5b": _dense(
        "Qwen2.5-Coder 0.5B", "qwen2", 24, 14, 2, 64, 896, 4864, _QWEN_VOCABULARY, 32_768, 0.491400064
    ),
    "gemma-3-1b": _gemma3("Gemma 3 1B", 26, 4, 1, 256, 1152, 0.806),
    "gemma-3-4b": _gemma3("Gemma 3 4B", 34, 8, 4, 256, 2560, 2.49),
    "gemma-3-12b": _gemma3("Gemma 3 12B", 48, 16, 8, 256, 3840, 7.3),
    "gemma-3-27b": _gemma3("Gemma 3 27B", 62, 32, 16, 128, 5376, 16.55),
    "llama-3.2-1b": _dense("Llama 3.2 1B", "llama", 16, 32, 8, 64, 2048, 8192, *_LLAMA, 0.808),
    "llama-3.2-3b": _dense("Llama 3.2 3B", "llama", 28, 24, 8, 128, 3072, 8192, *_LLAMA, 2.02),
    "llama-3.1-8b": _dense("Llama 3.1 8B", "llama", 32, 32, 8, 128, 4096, 14_336, *_LLAMA, 4.92),
    "llama-3.3-70b": _dense("Llama 3.3 70B", "llama", 80, 64, 8, 128, 8192, 28_672, *_LLAMA, 42.5),
    "llama-4-scout": _scout(),
    "qwen3-0.6b": _dense("Qwen3 0.6B", "qwen3", 28, 16, 8, 128, 1024, 3072, *_QWEN, 0.484),
    "qwen3-1.7b": _dense("Qwen3 1.7B", "qwen3", 28, 16, 8, 128, 2048, 6144, *_QWEN, 1.28),
    "qwen3-4b": _dense("Qwen3 4B", "qwen3", 36, 32, 8, 128, 2560, 9728, *_QWEN, 2.5),
    "qwen3-8b": _dense("Qwen3 8B", "qwen3", 36, 32, 8, 128, 4096, 12_288, *_QWEN, 5.03),
    "lfm2.5-1.2b": _lfm2(),
}


# What files and manifests put around a model's name.
_DECORATION = re.compile(r"[-_ ](it|instruct|17b-16e|109b( moe)?|q\d\w*)(?=$|[-_ ])")


def lookup(name: str) -> Geometry:
    """The geometry called `name`, spelled loosely: "Gemma 3 4B", "gemma-3-4b", "gemma-3-4b-it-q4_k_m".

    Raises UsageError with near misses.
    """
    wanted = _key(name)
    for key, geometry in CATALOGUE.items():
        if wanted in {_key(key), _key(geometry.name)}:
            return geometry
    near = difflib.get_close_matches(name.lower(), CATALOGUE, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known names: {', '.join(CATALOGUE)}"
    raise UsageError(f"there is no model called {name!r} in the catalogue, and no such file", hint)


def _key(name: str) -> str:
    plain = _DECORATION.sub("", name.lower())
    return "".join(letter for letter in plain if letter.isalnum() or letter == ".")
