"""KV arithmetic: the published table, the formulas one by one, and what must hold for any model."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.capacity.cap import MAX_SEQUENCES, Room, configured, memory_cap, smaller
from appliance.capacity.catalogue import CATALOGUE, lookup
from appliance.capacity.geometry import Geometry, Layer, uniform
from appliance.capacity.kv import KV_TYPES, KvPlan, element_bytes, kv_budget, padded, window_cells
from appliance.capacity.text import plain_size
from appliance.errors import UsageError

# KiB a token in f16 (the global part), and GB for ten sessions of 8K in f16 and q8_0.
TABLE = [
    ("gemma-3-4b", 20, 2.95, 1.57),
    ("gemma-3-12b", 64, 8.9, 4.7),
    ("gemma-3-27b", 80, 11.3, 6.0),
    ("llama-3.1-8b", 128, 10.7, 5.7),
    ("llama-3.3-70b", 320, 26.8, 14.3),
    ("qwen3-4b", 144, 12.1, 6.4),
    ("qwen3-8b", 144, 12.1, 6.4),
    ("smollm2-135m", 22.5, 1.9, 1.0),
]


@pytest.mark.parametrize(("model", "kib", "f16_gb", "q8_gb"), TABLE)
def test_the_published_table(model: str, kib: float, f16_gb: float, q8_gb: float) -> None:
    geometry = lookup(model)
    f16 = kv_budget(geometry, KvPlan(8192, 10))
    q8 = kv_budget(geometry, KvPlan(8192, 10, "q8_0", "q8_0"))
    assert f16.bytes_per_cell == kib * 1024
    assert f16.kv_bytes / 1e9 == pytest.approx(f16_gb, rel=0.02)
    # The table prints one decimal below ten.
    assert q8.kv_bytes / 1e9 == pytest.approx(q8_gb, rel=0.02)


def test_llama_4_scout_in_the_table() -> None:
    scout = lookup("Llama 4 Scout")
    # 48 layers of 4 KiB; its windows of 8,192 tokens hold the whole share, so nothing is saved at 8K.
    budget = kv_budget(scout, KvPlan(8192, 10))
    assert (budget.bytes_per_cell + 36 * 4096) / 1024 == 192
    assert budget.kv_bytes / 1e9 == pytest.approx(16.1, rel=0.02)
    assert kv_budget(scout, KvPlan(8192, 10, "q8_0", "q8_0")).kv_bytes / 1e9 == pytest.approx(8.6, rel=0.02)


def test_qwen_keeps_12_kib_a_token() -> None:
    assert kv_budget(lookup("qwen2.5-coder-0.5b"), KvPlan()).bytes_per_cell == 12 * 1024


def test_bytes_of_the_kv_types() -> None:
    assert element_bytes("f16", 128) == 256
    assert element_bytes("q8_0", 128) == 128 // 32 * 34
    assert element_bytes("q4_0", 128) == 128 // 32 * 18
    with pytest.raises(UsageError, match="no K/V type 'q9'"):
        element_bytes("q9", 128)
    with pytest.raises(UsageError, match="blocks of 32"):
        element_bytes("q8_0", 48)


def test_windows_are_padded_and_grow_with_the_sequences_of_one_pool() -> None:
    geometry = lookup("gemma-3-4b")
    # pad256(min(n_ctx, 1024 × 10 + 512))
    assert window_cells(geometry, KvPlan(8192, 10)) == 10_752
    assert window_cells(geometry, KvPlan(8192, 10, reserved_sequences=1)) == 11_776
    # A pool smaller than its windows keeps everything.
    assert window_cells(geometry, KvPlan(512, 4)) == 2048
    assert window_cells(geometry, KvPlan(8192, 10, window_full=True)) == 81_920
    # Streams of their own have a window each.
    assert window_cells(geometry, KvPlan(8192, 10, unified=False)) == 10 * padded(1024 + 512)
    assert window_cells(lookup("llama-3.1-8b"), KvPlan()) == 0


def test_mla_keeps_keys_only_and_recurrent_state_does_not_grow() -> None:
    mla = replace(lookup("llama-3.1-8b"), layers=(Layer(512 + 64, 0),) * 60, mla=True)
    assert kv_budget(mla, KvPlan()).bytes_per_cell == 60 * 576 * 2
    lfm2 = lookup("lfm2.5-1.2b")
    short, long = (kv_budget(lfm2, KvPlan(tokens, 10, reserved_sequences=1)) for tokens in (512, 8192))
    assert short.state_bytes == long.state_bytes == 10 * 2 * 2048 * 4 * 11
    assert long.bytes_per_cell == 6 * 2 * 512 * 2


def test_halving_the_context_halves_a_session() -> None:
    for name in ("llama-3.1-8b", "qwen3-4b", "smollm2-135m"):
        long, short = (kv_budget(lookup(name), KvPlan(tokens, 1)).kv_bytes for tokens in (8192, 4096))
        assert long == 2 * short


def test_logits_of_a_whole_batch_cost_half_a_gib_at_262k_words() -> None:
    """What llama.cpp's default of one output a token would take, and what one a session takes."""
    geometry = lookup("gemma-3-4b")
    assert kv_budget(geometry, KvPlan(outputs=512)).output_bytes == 512 * 262_144 * 4 == 512 << 20
    assert kv_budget(geometry, KvPlan(sessions=10)).output_bytes == 10 * 262_144 * 4


def test_the_prefix_is_held_once() -> None:
    geometry = lookup("llama-3.1-8b")
    bare, shared = (kv_budget(geometry, KvPlan(2048, 8, prefix_tokens=tokens)) for tokens in (0, 512))
    assert shared.cells - bare.cells == 512


def test_a_head_that_is_no_whole_number_of_blocks_cannot_be_quantised() -> None:
    """llama.cpp looks at the length of one head, not at the whole row, and makes no context."""
    eighty = replace(lookup("llama-3.1-8b"), layers=uniform(32, 32, 80), key_length=80, value_length=80)
    assert kv_budget(eighty, KvPlan()).bytes_per_cell == 32 * 2 * 32 * 80 * 2
    with pytest.raises(UsageError, match="keys of 80 cannot be stored as q8_0"):
        kv_budget(eighty, KvPlan(k_type="q8_0", v_type="q8_0"))


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (KvPlan(context_tokens=0), "context"),
        (KvPlan(sessions=0), "sessions"),
        (KvPlan(sessions=-3), "sessions"),
        (KvPlan(prefix_tokens=-1), "negative"),
        (KvPlan(ubatch_tokens=0), "negative"),
        (KvPlan(v_type="q8_0", flash_attention=False), "flash attention"),
        (KvPlan(k_type="q3"), "q3"),
    ],
)
def test_nonsense_is_refused_with_a_hint(plan: KvPlan, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        kv_budget(lookup("llama-3.1-8b"), plan)
    assert refused.value.hint


def test_the_sum_is_written_out() -> None:
    lines = kv_budget(lookup("gemma-3-4b"), KvPlan(8192, 10, prefix_tokens=256)).lines
    text = "\n".join(lines)
    for words in ("2.49 GB  weights", "10 sessions × 8,192 tokens + 256 shared", "× 20,480 bytes", "10 × 1,024 + 512"):
        assert words in text
    assert lines[-1].endswith("in all")


def test_catalogue_names_are_found_however_they_are_spelled() -> None:
    for spelled in ("gemma-3-4b", "Gemma 3 4B", "gemma-3-4b-it-q4_k_m", "GEMMA-3-4B-it"):
        assert lookup(spelled).name == "Gemma 3 4B"
    assert lookup("llama-4-scout-17b-16e-instruct-q4_k_m").architecture == "llama4"
    assert lookup("qwen3-0.6b").name != lookup("qwen3-8b").name
    with pytest.raises(UsageError, match="gemma-4-4b") as missed:
        lookup("gemma-4-4b")
    assert "gemma-3-4b" in missed.value.hint
    with pytest.raises(UsageError):
        lookup("")


def test_sizes_in_words() -> None:
    assert [plain_size(n) for n in (0, 999, 1000, 22_500_000, 2.95e9, 99.96e9, 1.2e12)] == [
        "0 B", "999 B", "1.00 kB", "22.5 MB", "2.95 GB", "100 GB", "1.20 TB",
    ]  # fmt: skip


GEOMETRIES = st.builds(
    lambda n, heads, length, every, window, state: Geometry(
        "any", "any", tuple(replace(layer, state=state) for layer in uniform(n, heads, length, window_every=every)),
        1000, 4096, 256, 512, 8, 10**8, heads, length, length, window_tokens=window,
    ),
    st.integers(1, 40), st.integers(1, 16), st.sampled_from([32, 64, 128]), st.sampled_from([0, 2, 4, 6]),
    st.integers(1, 4096), st.integers(0, 4096),
)  # fmt: skip
PLANS = st.builds(
    KvPlan,
    st.integers(1, 20_000),
    st.integers(1, 64),
    st.sampled_from(sorted(KV_TYPES)),
    st.sampled_from(sorted(KV_TYPES)),
    prefix_tokens=st.integers(0, 3000),
    reserved_sequences=st.integers(0, 2),
    unified=st.booleans(),
    window_full=st.booleans(),
    ubatch_tokens=st.integers(1, 1024),
)


@given(GEOMETRIES, PLANS)
def test_more_of_anything_never_costs_less(geometry: Geometry, plan: KvPlan) -> None:
    budget = kv_budget(geometry, plan)
    assert budget.cells >= plan.context_tokens * plan.sessions + plan.prefix_tokens
    assert budget.cells % 256 == 0
    assert budget.total_bytes >= budget.kv_bytes + geometry.weights_bytes
    for more in (
        replace(plan, sessions=plan.sessions + 1),
        replace(plan, context_tokens=plan.context_tokens + 256),
        replace(plan, window_full=True),
        replace(plan, k_type="f32"),
    ):
        assert kv_budget(geometry, more).kv_bytes >= budget.kv_bytes


@given(GEOMETRIES, PLANS, st.integers(10**8, 10**11))
def test_the_memory_cap_is_the_largest_number_that_fits(geometry: Geometry, plan: KvPlan, available: int) -> None:
    room = Room("a box", available, asr_bytes=10**7, reserve_bytes=10**7)
    cap = memory_cap(geometry, plan, room)

    def needed(sessions: int) -> float:
        return kv_budget(geometry, replace(plan, sessions=sessions)).total_bytes + room.beside_bytes

    assert cap.sessions <= MAX_SEQUENCES - plan.reserved_sequences
    if cap.sessions:
        assert needed(cap.sessions) <= available
        assert cap.short_bytes == 0
    else:
        assert cap.short_bytes == needed(1) - available
    if cap.limited_by == "memory":
        assert needed(cap.sessions + 1) > available


def test_the_smaller_cap_counts_and_says_which_it_is() -> None:
    memory = memory_cap(lookup("llama-3.1-8b"), KvPlan(8192, 10), Room("RTX 4090", 24e9))
    assert memory.limited_by == "memory"
    cap = smaller(memory, configured(4))
    assert (cap.sessions, cap.limited_by) == (4, "config")
    assert cap.lines[-1].strip() == "4  sessions in all, limited by config"
    assert smaller(memory, configured(memory.sessions)).limited_by == "memory"
    assert all(geometry.weights_bytes > 0 for geometry in CATALOGUE.values())
