"""Geometry read off GGUF files: each kind of memory, damaged files, and files that are no language model."""

import random
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appliance.capacity.geometry import Layer
from appliance.engines.llama.gguf import read_geometry
from appliance.errors import ModelFileError
from tests.fakes.toy_gguf import CHAT_TEMPLATE, write_toy, write_vocabulary_only

STARTER = Path(__file__).parents[2] / "models/qwen2.5-coder-0.5b/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"


def test_gqa_and_the_plain_facts(tmp_path: Path) -> None:
    geometry = read_geometry(write_toy(tmp_path / "toy.gguf", "llama", layers=3, heads_kv=2, head_length=32))
    assert geometry.architecture == "llama"
    assert geometry.name == "toy llama"
    assert geometry.layers == (Layer(64, 64),) * 3
    assert (geometry.heads, geometry.heads_kv, geometry.key_length, geometry.value_length) == (4, 2, 32, 32)
    assert (geometry.embedding, geometry.feed_forward, geometry.context_tokens) == (64, 128, 4096)
    assert geometry.vocabulary == 5 + 256 + 1 + 94 + 26
    assert geometry.chat_template == CHAT_TEMPLATE
    assert geometry.rollback_is_exact
    assert 300_000 < geometry.weights_bytes < (tmp_path / "toy.gguf").stat().st_size


def test_every_sixth_layer_of_gemma_3_is_global(tmp_path: Path) -> None:
    geometry = read_geometry(write_toy(tmp_path / "toy.gguf", "gemma3", layers=12, window=64))
    assert [i for i, layer in enumerate(geometry.layers) if not layer.windowed] == [5, 11]
    assert geometry.window_tokens == 64
    assert not geometry.rollback_is_exact


def test_a_hybrids_layers_come_from_the_array_in_the_file(tmp_path: Path) -> None:
    geometry = read_geometry(write_toy(tmp_path / "toy.gguf", "lfm2", layers=6))
    convolution, attention = Layer(0, 0, state=128), Layer(64, 64)
    assert geometry.layers == (convolution, convolution, attention) * 2
    assert geometry.recurrent_layers == 4
    assert geometry.heads_kv == 2


def test_a_recurrent_model_keeps_state_and_no_cells(tmp_path: Path) -> None:
    geometry = read_geometry(write_toy(tmp_path / "toy.gguf", "mamba", layers=2))
    # (kernel - 1) × inner + state × inner, inner = 2 × embedding
    assert geometry.layers == (Layer(0, 0, state=3 * 128 + 16 * 128),) * 2


def test_mla_keeps_one_compressed_key_and_no_value(tmp_path: Path) -> None:
    geometry = read_geometry(write_toy(tmp_path / "toy.gguf", "deepseek2", layers=2))
    assert geometry.mla
    assert geometry.layers == (Layer(64 + 32, 0),) * 2


def test_a_model_without_a_chat_template_says_so(tmp_path: Path) -> None:
    assert read_geometry(write_toy(tmp_path / "toy.gguf", chat_template=None)).chat_template is None


@pytest.mark.models
def test_a_vocabulary_of_150_000_words_is_walked_over_quickly() -> None:
    read_geometry(STARTER)  # the reader's own import is not what is measured
    started = time.process_time()
    geometry = read_geometry(STARTER)
    assert time.process_time() - started < 1.0  # the plain reader takes about ten
    assert geometry.vocabulary == 151_936
    assert geometry.layers == (Layer(128, 128),) * 24
    assert geometry.weights_bytes == 485_452_288


def _keys(path: Path, architecture: str, layers: int, **keys: object) -> Path:
    """A file with one tensor and the metadata of some architecture; nothing llama.cpp would load."""
    import numpy as np
    from gguf import GGUFWriter

    writer = GGUFWriter(str(path), architecture)
    base: dict[str, object] = {
        "block_count": layers,
        "context_length": 1024,
        "embedding_length": 64,
        "feed_forward_length": 128,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        **{key.replace("__", "."): value for key, value in keys.items()},
    }
    add: dict[type, Callable[[str, Any], None]] = {
        bool: writer.add_bool,
        int: writer.add_uint32,
        float: writer.add_float32,
        list: writer.add_array,
    }
    for key, value in base.items():
        add[type(value)](f"{architecture}.{key}", value)
    writer.add_tensor("token_embd.weight", np.zeros((4, 64), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(
    ("architecture", "keys", "windowed", "window"),
    [
        ("llama4", {}, "WWWgWWWg", 8192),  # chunks, whatever the file says
        ("llama4", {"attention__sliding_window": 0}, "gggggggg", 0),
        ("gemma2", {}, "WgWgWgWg", 4096),
        ("gpt-oss", {"attention__sliding_window": 128}, "WgWgWgWg", 128),
        ("smallthinker", {"attention__sliding_window": 99}, "gWWWgWWW", 99),
        ("gemma3", {"attention__sliding_window": 64, "attention__sliding_window_pattern": 2}, "WgWgWgWg", 64),
        ("gemma3", {}, "gggggggg", 0),
        ("phi3", {"attention__sliding_window": 64}, "gggggggg", 0),
        ("qwen2", {"attention__sliding_window": 64}, "gggggggg", 0),
        (
            "gemma4",
            {"attention__sliding_window": 32, "attention__sliding_window_pattern": [True, False] * 4},
            "WgWgWgWg",
            32,
        ),
    ],
)
def test_window_patterns(
    tmp_path: Path, architecture: str, keys: dict[str, object], windowed: str, window: int
) -> None:
    geometry = read_geometry(_keys(tmp_path / "x.gguf", architecture, 8, **keys))
    assert "".join("W" if layer.windowed else "g" for layer in geometry.layers) == windowed
    assert geometry.window_tokens == window


def test_key_and_value_lengths_and_heads_may_differ_by_layer(tmp_path: Path) -> None:
    keys: dict[str, object] = {
        "attention__head_count_kv": [1, 2, 4],
        "attention__key_length": 32,
        "attention__value_length": 16,
    }
    geometry = read_geometry(_keys(tmp_path / "x.gguf", "llama", 3, **keys))
    assert geometry.layers == (Layer(32, 16), Layer(64, 32), Layer(128, 64))


def test_layers_that_reuse_earlier_kv_cost_nothing(tmp_path: Path) -> None:
    keys: dict[str, object] = {
        "attention__shared_kv_layers": 3,
        "attention__sliding_window": 32,
        "attention__sliding_window_pattern": [True, True, True, True, True, False],
    }
    geometry = read_geometry(_keys(tmp_path / "x.gguf", "gemma4", 6, **keys))
    assert [layer.k > 0 for layer in geometry.layers] == [True, True, True, False, False, False]


def test_a_model_in_parts_counts_all_of_them(tmp_path: Path) -> None:
    whole = read_geometry(_keys(tmp_path / "whole.gguf", "llama", 2)).weights_bytes
    first, second = tmp_path / "big-00001-of-00002.gguf", tmp_path / "big-00002-of-00002.gguf"
    for path in (first, second):
        _keys_split(path)
    assert read_geometry(first).weights_bytes == 2 * whole
    second.unlink()
    with pytest.raises(ModelFileError, match="00002-of-00002"):
        read_geometry(first)
    renamed = first.rename(tmp_path / "renamed.gguf")
    with pytest.raises(ModelFileError, match="one part of 2"):
        read_geometry(renamed)


def _keys_split(path: Path) -> None:
    import numpy as np
    from gguf import GGUFWriter

    writer = GGUFWriter(str(path), "llama")
    for key, value in (("block_count", 2), ("context_length", 8), ("embedding_length", 64)):
        writer.add_uint32(f"llama.{key}", value)
    writer.add_uint32("llama.attention.head_count", 4)
    writer.add_uint16("split.count", 2)
    writer.add_tensor("token_embd.weight", np.zeros((4, 64), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_no_language_model_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="no model file"):
        read_geometry(tmp_path / "absent.gguf")
    with pytest.raises(ModelFileError, match="only a vocabulary"):
        read_geometry(write_vocabulary_only(tmp_path / "vocabulary.gguf"))
    encoder = _keys(tmp_path / "bert.gguf", "bert", 2, attention__causal=False)
    with pytest.raises(ModelFileError, match="cannot write text"):
        read_geometry(encoder)
    for content in (b"", b"RIFF....WAVE", b"GGUF", b"GGUF\x03\x00\x00\x00"):
        path = tmp_path / "broken.gguf"
        path.write_bytes(content)
        with pytest.raises(ModelFileError) as failed:
            read_geometry(path)
        assert failed.value.hint


def test_a_per_layer_array_that_is_too_short_is_damage(tmp_path: Path) -> None:
    path = _keys(tmp_path / "x.gguf", "llama", 5, attention__head_count_kv=[2, 2, 2])
    with pytest.raises(ModelFileError, match="3 entries for 5 layers"):
        read_geometry(path)


class Bytes:
    """Kept out of hypothesis' reports."""

    def __init__(self, content: bytes) -> None:
        self.content = content


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Bytes:
    return Bytes(write_toy(tmp_path_factory.mktemp("toy") / "toy.gguf", layers=1).read_bytes())


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.booleans())
def test_damage_anywhere_is_a_model_file_error_or_harmless(tmp_path: Path, toy: Bytes, seed: int, cut: bool) -> None:
    dice = random.Random(seed)
    data = bytearray(toy.content)
    if cut:
        data = data[: dice.randrange(len(data))]
    else:
        for _ in range(8):
            data[dice.randrange(min(len(data), 12_000))] = dice.randrange(256)
    path = tmp_path / "damaged.gguf"
    path.write_bytes(data)
    try:
        geometry = read_geometry(path)
    except ModelFileError:
        return
    assert not cut
    assert geometry.layers


def test_an_array_that_claims_more_than_the_file_holds(tmp_path: Path, toy: Bytes) -> None:
    toy_bytes = toy.content
    # The length of the token list stands behind its type (9: array) and its elements' type (8: string).
    at = toy_bytes.index(b"tokenizer.ggml.tokens") + len(b"tokenizer.ggml.tokens") + 8
    path = tmp_path / "long.gguf"
    path.write_bytes(toy_bytes[:at] + struct.pack("<Q", 1 << 40) + toy_bytes[at + 8 :])
    with pytest.raises(ModelFileError, match="damaged"):
        read_geometry(path)
