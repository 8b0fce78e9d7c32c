"""Toy models in GGUF form: real architectures, real tokenizer, random weights, a few layers, under 2 MB.

llama.cpp loads them like any other model, so engine tests and allocation tests need no download. Their text is
noise; only shapes and bookkeeping can be tested with them.

    path = write_toy(tmp_path / "toy.gguf", "gemma3", layers=6)
"""

from pathlib import Path
from typing import Any

import numpy as np

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
ARCHITECTURES = ("llama", "qwen3", "gemma3", "lfm2", "mamba", "deepseek2")
_CONTROL, _NORMAL, _UNKNOWN, _BYTE = 3, 1, 2, 6


def write_toy(  # noqa: PLR0913  (a model has that many shape numbers; all but the first two have defaults)
    path: Path,
    architecture: str = "llama",
    *,
    layers: int = 4,
    embedding: int = 64,
    heads: int = 4,
    heads_kv: int = 2,
    head_length: int = 32,
    feed_forward: int = 128,
    window: int = 64,
    context: int = 4096,
    chat_template: str | None = CHAT_TEMPLATE,
    seed: int = 0,
) -> Path:
    """Write a toy model of `architecture` (one of ARCHITECTURES) to `path` and return it."""
    from gguf import GGUFWriter

    writer = GGUFWriter(str(path), architecture)
    if architecture == "lfm2":
        heads = embedding // head_length  # its graph takes the queries' width for the embedding's
    shape = _Shape(layers, embedding, heads, heads_kv, head_length, feed_forward, window)
    writer.add_name(f"toy {architecture}")
    writer.add_context_length(context)
    writer.add_embedding_length(embedding)
    writer.add_block_count(layers)
    writer.add_layer_norm_rms_eps(1e-5)
    vocabulary = _tokenizer(writer, chat_template)
    rng = np.random.default_rng(seed)

    def matrix(name: str, *dims: int) -> None:
        # ggml counts dimensions from the innermost; numpy from the outermost.
        writer.add_tensor(name, (rng.standard_normal(dims[::-1]) * 0.1).astype(np.float16))

    def vector(name: str, *dims: int, value: float = 1.0) -> None:
        writer.add_tensor(name, np.full(dims[::-1], value, np.float32))

    matrix("token_embd.weight", embedding, vocabulary)
    vector("token_embd_norm.weight" if architecture == "lfm2" else "output_norm.weight", embedding)
    _BUILDERS[architecture](writer, shape, matrix, vector)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_vocabulary_only(path: Path) -> Path:
    """A GGUF with a tokenizer and no weights."""
    from gguf import GGUFWriter

    writer = GGUFWriter(str(path), "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(64)
    writer.add_block_count(2)
    _tokenizer(writer, None)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


class _Shape:
    def __init__(
        self, layers: int, embedding: int, heads: int, heads_kv: int, head_length: int, feed_forward: int, window: int
    ) -> None:
        self.layers, self.embedding, self.heads, self.heads_kv = layers, embedding, heads, heads_kv
        self.head_length, self.feed_forward, self.window = head_length, feed_forward, window

    @property
    def q(self) -> int:
        return self.heads * self.head_length

    @property
    def kv(self) -> int:
        return self.heads_kv * self.head_length


def _tokenizer(writer: Any, chat_template: str | None) -> int:
    """A SentencePiece-style vocabulary: five control tokens, every byte, and the printable characters."""
    tokens = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
    types = [_UNKNOWN, _CONTROL, _CONTROL, _CONTROL, _CONTROL]
    tokens += [f"<0x{byte:02X}>" for byte in range(256)]
    types += [_BYTE] * 256
    letters = ["\u2581", *(chr(code) for code in range(33, 127))]
    letters += [f"\u2581{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    tokens += letters
    types += [_NORMAL] * len(letters)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(i) for i in range(len(tokens))])
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(4)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_add_space_prefix(False)
    if chat_template is not None:
        writer.add_chat_template(chat_template)
    return len(tokens)


def _attention_keys(writer: Any, shape: _Shape) -> None:
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.heads_kv)
    writer.add_key_length(shape.head_length)
    writer.add_value_length(shape.head_length)
    writer.add_rope_dimension_count(shape.head_length)
    writer.add_feed_forward_length(shape.feed_forward)


def _attention(i: int, shape: _Shape, matrix: Any) -> None:
    matrix(f"blk.{i}.attn_q.weight", shape.embedding, shape.q)
    matrix(f"blk.{i}.attn_k.weight", shape.embedding, shape.kv)
    matrix(f"blk.{i}.attn_v.weight", shape.embedding, shape.kv)
    matrix(f"blk.{i}.attn_output.weight", shape.q, shape.embedding)


def _feed_forward(i: int, shape: _Shape, matrix: Any, vector: Any) -> None:
    vector(f"blk.{i}.ffn_norm.weight", shape.embedding)
    matrix(f"blk.{i}.ffn_gate.weight", shape.embedding, shape.feed_forward)
    matrix(f"blk.{i}.ffn_up.weight", shape.embedding, shape.feed_forward)
    matrix(f"blk.{i}.ffn_down.weight", shape.feed_forward, shape.embedding)


def _llama(writer: Any, shape: _Shape, matrix: Any, vector: Any) -> None:
    _attention_keys(writer, shape)
    for i in range(shape.layers):
        vector(f"blk.{i}.attn_norm.weight", shape.embedding)
        _attention(i, shape, matrix)
        _feed_forward(i, shape, matrix, vector)


def _qwen3(writer: Any, shape: _Shape, matrix: Any, vector: Any) -> None:
    _attention_keys(writer, shape)
    for i in range(shape.layers):
        vector(f"blk.{i}.attn_norm.weight", shape.embedding)
        vector(f"blk.{i}.attn_q_norm.weight", shape.head_length)
        vector(f"blk.{i}.attn_k_norm.weight", shape.head_length)
        _attention(i, shape, matrix)
        _feed_forward(i, shape, matrix, vector)


def _gemma3(writer: Any, shape: _Shape, matrix: Any, vector: Any) -> None:
    writer.add_sliding_window(shape.window)
    _qwen3(writer, shape, matrix, vector)
    for i in range(shape.layers):
        vector(f"blk.{i}.post_attention_norm.weight", shape.embedding)
        vector(f"blk.{i}.post_ffw_norm.weight", shape.embedding)


def _lfm2(writer: Any, shape: _Shape, matrix: Any, vector: Any) -> None:
    """Hybrid: every third layer attends, the others are short convolutions. KV heads are an array in the file."""
    history = 3
    attends = [i % 3 == 2 for i in range(shape.layers)]
    _attention_keys(writer, shape)
    writer.kv_data[0].pop("lfm2.attention.head_count_kv")
    writer.add_head_count_kv([shape.heads_kv if yes else 0 for yes in attends])
    writer.add_shortconv_l_cache(history)
    for i, yes in enumerate(attends):
        vector(f"blk.{i}.attn_norm.weight", shape.embedding)
        if yes:
            vector(f"blk.{i}.attn_q_norm.weight", shape.head_length)
            vector(f"blk.{i}.attn_k_norm.weight", shape.head_length)
            matrix(f"blk.{i}.attn_q.weight", shape.embedding, shape.embedding)
            matrix(f"blk.{i}.attn_k.weight", shape.embedding, shape.kv)
            matrix(f"blk.{i}.attn_v.weight", shape.embedding, shape.kv)
            matrix(f"blk.{i}.attn_output.weight", shape.embedding, shape.embedding)
        else:
            vector(f"blk.{i}.shortconv.conv.weight", history, shape.embedding, value=0.3)
            matrix(f"blk.{i}.shortconv.in_proj.weight", shape.embedding, 3 * shape.embedding)
            matrix(f"blk.{i}.shortconv.out_proj.weight", shape.embedding, shape.embedding)
        _feed_forward(i, shape, matrix, vector)


def _mamba(writer: Any, shape: _Shape, matrix: Any, vector: Any) -> None:
    """Purely recurrent: no K/V at all."""
    inner, state, rank, kernel = 2 * shape.embedding, 16, 4, 4
    writer.add_head_count(0)
    writer.add_feed_forward_length(0)
    writer.add_ssm_conv_kernel(kernel)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(rank)
    for i in range(shape.layers):
        vector(f"blk.{i}.attn_norm.weight", shape.embedding)
        matrix(f"blk.{i}.ssm_in.weight", shape.embedding, 2 * inner)
        vector(f"blk.{i}.ssm_conv1d.weight", kernel, inner, value=0.2)
        vector(f"blk.{i}.ssm_conv1d.bias", inner, value=0.0)
        matrix(f"blk.{i}.ssm_x.weight", inner, rank + 2 * state)
        matrix(f"blk.{i}.ssm_dt.weight", rank, inner)
        vector(f"blk.{i}.ssm_dt.bias", inner, value=0.0)
        vector(f"blk.{i}.ssm_a", state, inner, value=-1.0)
        vector(f"blk.{i}.ssm_d", inner)
        matrix(f"blk.{i}.ssm_out.weight", inner, shape.embedding)


def _deepseek2(writer: Any, shape: _Shape, matrix: Any, vector: Any) -> None:
    """MLA: one compressed key row a token, no values. All layers dense."""
    rank, rope, query_rank, nope, value = 64, 32, 48, 32, 32
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(1)
    writer.add_kv_lora_rank(rank)
    writer.add_q_lora_rank(query_rank)
    writer.add_key_length(rank + rope)
    writer.add_value_length(rank)
    writer.add_key_length_mla(nope + rope)
    writer.add_value_length_mla(value)
    writer.add_rope_dimension_count(rope)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_expert_feed_forward_length(shape.feed_forward)
    writer.add_expert_shared_count(0)
    writer.add_leading_dense_block_count(shape.layers)
    for i in range(shape.layers):
        vector(f"blk.{i}.attn_norm.weight", shape.embedding)
        vector(f"blk.{i}.attn_q_a_norm.weight", query_rank)
        vector(f"blk.{i}.attn_kv_a_norm.weight", rank)
        matrix(f"blk.{i}.attn_q_a.weight", shape.embedding, query_rank)
        matrix(f"blk.{i}.attn_q_b.weight", query_rank, shape.heads * (nope + rope))
        matrix(f"blk.{i}.attn_kv_a_mqa.weight", shape.embedding, rank + rope)
        matrix(f"blk.{i}.attn_k_b.weight", nope, rank, shape.heads)
        matrix(f"blk.{i}.attn_v_b.weight", rank, value, shape.heads)
        matrix(f"blk.{i}.attn_output.weight", shape.heads * value, shape.embedding)
        _feed_forward(i, shape, matrix, vector)


_BUILDERS = {
    "llama": _llama,
    "qwen3": _qwen3,
    "gemma3": _gemma3,
    "lfm2": _lfm2,
    "mamba": _mamba,
    "deepseek2": _deepseek2,
}
