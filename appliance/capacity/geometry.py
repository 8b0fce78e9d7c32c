"""The shape of a language model, as far as memory is concerned: what one token costs in which layer.

Owns `Geometry`, the numbers from which every KV sum starts. It does not know where they come from: a GGUF
file (`appliance.engines.llama.gguf`) or the catalogue (`appliance.capacity.catalogue`).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layer:
    """What one layer keeps. `k` and `v` are elements a cell (KV heads × head length; 0 for a layer without K/V).

    `windowed`: only the last `Geometry.window_tokens` of each sequence are kept. `state` counts float32 values a
    sequence of a recurrent layer (convolution + scan state), whatever the context.
    """

    k: int
    v: int
    windowed: bool = False
    state: int = 0


@dataclass(frozen=True, slots=True)
class Geometry:
    """A model's memory shape. Elements are counted, not bytes: the K/V type decides those.

    `heads_kv` and `key_length` describe the first layer that has K/V, for printing; the sums use `layers`.
    `experts_share` is the part of the weights that one token reads (1 for a dense model).
    """

    name: str
    architecture: str
    layers: tuple[Layer, ...]
    vocabulary: int
    context_tokens: int  # what the model was trained for
    embedding: int
    feed_forward: int
    heads: int
    weights_bytes: int
    heads_kv: int = 0
    key_length: int = 0
    value_length: int = 0
    window_tokens: int = 0
    mla: bool = False
    experts_share: float = 1.0
    chat_template: str | None = None

    @property
    def windowed_layers(self) -> int:
        return sum(layer.windowed for layer in self.layers)

    @property
    def recurrent_layers(self) -> int:
        return sum(layer.state > 0 for layer in self.layers)

    @property
    def rollback_is_exact(self) -> bool:
        """Whether cutting a sequence back always leaves a usable cache: not with windows or recurrent state."""
        return self.windowed_layers == 0 and self.recurrent_layers == 0


def uniform(
    count: int, heads_kv: int, key_length: int, *, value_length: int = 0, window_every: int = 0
) -> tuple[Layer, ...]:
    """`count` equal GQA layers; with `window_every` n, all but each n-th layer are windowed (llama.cpp's pattern)."""
    k, v = heads_kv * key_length, heads_kv * (value_length or key_length)
    return tuple(Layer(k, v, windowed=window_every > 1 and i % window_every < window_every - 1) for i in range(count))
