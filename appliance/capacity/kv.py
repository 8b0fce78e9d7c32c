"""KV arithmetic: how many bytes llama.cpp will allocate for so many sessions of so many tokens, written out.

Owns the sums behind `appliance plan kv`, the admission limiter and every tier's verdict. It knows llama.cpp's
cache layouts (plain, windowed, MLA, recurrent) and nothing about files, devices or live sessions.
"""

from dataclasses import dataclass

from appliance.capacity.geometry import Geometry, Layer
from appliance.capacity.text import count, size
from appliance.errors import UsageError

# Bytes of one block and elements in it, as ggml stores them.
KV_TYPES: dict[str, tuple[int, int]] = {
    "f32": (4, 1),
    "f16": (2, 1),
    "bf16": (2, 1),
    "q8_0": (34, 32),
    "q5_1": (24, 32),
    "q5_0": (22, 32),
    "q4_1": (20, 32),
    "q4_0": (18, 32),
    "iq4_nl": (18, 32),
}
QUANTISED = frozenset(name for name, (_, block) in KV_TYPES.items() if block > 1)
_CELL_PAD = 256  # llama.cpp rounds contexts and windows up to this many cells
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class KvPlan:
    """What one llama.cpp context is asked to hold. The defaults are the appliance's own way of running it.

    `context_tokens` is one session's share; `prefix_tokens` the shared system prompt, held once.
    `reserved_sequences` counts sequences beside the sessions (the prefix's); they widen windows and state.
    """

    context_tokens: int = 8192
    sessions: int = 10
    k_type: str = "f16"
    v_type: str = "f16"
    prefix_tokens: int = 0
    reserved_sequences: int = 0
    unified: bool = True
    window_full: bool = False
    flash_attention: bool = True
    ubatch_tokens: int = 512
    rows_per_sequence: int = 1  # of logits, in one step
    outputs: int = 0  # rows of logits in one step, whatever the sequences; 0 means rows_per_sequence for each

    @property
    def sequences(self) -> int:
        return self.sessions + self.reserved_sequences

    @property
    def rows(self) -> int:
        """Rows of logits that one step may ask for."""
        return self.outputs or self.rows_per_sequence * self.sequences


@dataclass(frozen=True, slots=True)
class KvBudget:
    """The result, all in bytes. `lines` is the sum written out, one term a line, the total last.

    `bytes_per_cell` is what one more token of context costs (the window part not counted, as it does not grow).
    """

    bytes_per_cell: int
    cells: int
    window_cells: int
    global_bytes: int
    window_bytes: int
    state_bytes: int
    compute_bytes: int
    output_bytes: int
    weights_bytes: int
    lines: tuple[str, ...]

    @property
    def kv_bytes(self) -> int:
        return self.global_bytes + self.window_bytes + self.state_bytes

    @property
    def total_bytes(self) -> int:
        return self.kv_bytes + self.compute_bytes + self.output_bytes + self.weights_bytes


def element_bytes(kv_type: str, elements: int) -> int:
    """Bytes of one row of `elements` in ggml's `kv_type`. Raises UsageError for a type or row that cannot be."""
    if kv_type not in KV_TYPES:
        raise UsageError(f"there is no K/V type {kv_type!r}", f"choose one of {', '.join(KV_TYPES)}")
    size_bytes, block = KV_TYPES[kv_type]
    if elements % block:
        raise UsageError(
            f"{kv_type} stores blocks of {block}, but a row of this model has {elements} elements",
            "choose f16 for this model",
        )
    return elements // block * size_bytes


def padded(cells: int) -> int:
    """`cells` rounded up as llama.cpp does."""
    return -(-cells // _CELL_PAD) * _CELL_PAD


def cell_bytes(layer: Layer, plan: KvPlan, widest_v: int = 0) -> int:
    """One cell of one layer. Without flash attention V lies transposed and every layer takes the widest row."""
    v = layer.v if plan.flash_attention or not layer.v else max(widest_v, layer.v)
    return element_bytes(plan.k_type, layer.k) + element_bytes(plan.v_type, v)


def context_cells(plan: KvPlan) -> int:
    """Cells that llama.cpp makes in all: what to pass as n_ctx."""
    if plan.unified:
        return padded(plan.context_tokens * plan.sessions + plan.prefix_tokens)
    return padded(plan.context_tokens + plan.prefix_tokens) * plan.sequences


def window_cells(geometry: Geometry, plan: KvPlan) -> int:
    """Cells of each windowed layer, all streams together: pad256(min(n_ctx_seq, window × sequences + ubatch))."""
    total = context_cells(plan)
    if geometry.windowed_layers == 0:
        return 0
    if plan.window_full:
        return total
    streams = 1 if plan.unified else plan.sequences
    per_stream = total // streams
    wanted = geometry.window_tokens * (plan.sequences if plan.unified else 1) + plan.ubatch_tokens
    return padded(min(per_stream, wanted)) * streams


def compute_bytes(geometry: Geometry, plan: KvPlan) -> int:
    """The scratch buffer of one step, an upper estimate within about 15 % of what llama.cpp reserves.

    llama.cpp reuses memory from one operation to the next, so the largest moment counts. For n tokens of a
    micro-batch, in float32 rows: feed-forward, 3 × its width + 4 embeddings; attention, 5 embeddings + 3 × the
    queries + K + V, and without flash attention heads × n_kv scores besides; the output, 2 embeddings + the
    vocabulary, for each row that is sampled. The masks (n_kv × n, float16 with flash attention, else float32, one
    for the global and one for the windowed cache) live through all but the last.
    """
    tokens = min(plan.ubatch_tokens, max(1, context_cells(plan)))
    streams = 1 if plan.unified else plan.sequences
    seen = context_cells(plan) // streams if any(layer.k for layer in geometry.layers) else 0
    masks = (seen + window_cells(geometry, plan) // streams) * tokens * (2 if plan.flash_attention else 4)
    queries = geometry.heads * geometry.key_length
    widest = max((layer.k + layer.v for layer in geometry.layers), default=0)
    feed_forward = tokens * 4 * (3 * geometry.feed_forward + 4 * geometry.embedding)
    attention = tokens * 4 * (5 * geometry.embedding + 3 * queries + widest)
    if not plan.flash_attention:
        attention += tokens * 4 * geometry.heads * seen
    rows = min(tokens, plan.rows)
    output = rows * 4 * (geometry.vocabulary + 2 * geometry.embedding)
    return max(masks + feed_forward, masks + attention, output)


def kv_budget(geometry: Geometry, plan: KvPlan) -> KvBudget:
    """The whole memory of one context, exact for K/V and state, an estimate for the compute buffer.

    Raises UsageError for a plan that makes no sense, naming what to change.
    """
    _check(geometry, plan)
    widest_v = max((layer.v for layer in geometry.layers), default=0)
    global_layers = [layer for layer in geometry.layers if layer.k and not layer.windowed]
    window_layers = [layer for layer in geometry.layers if layer.windowed]
    per_cell = sum(cell_bytes(layer, plan, widest_v) for layer in global_layers)
    per_window_cell = sum(cell_bytes(layer, plan, widest_v) for layer in window_layers)
    cells = context_cells(plan) if global_layers or window_layers else 0
    in_window = window_cells(geometry, plan)
    state = sum(layer.state for layer in geometry.layers) * 4 * max(1, plan.sequences)
    outputs = plan.rows * geometry.vocabulary * 4
    compute = compute_bytes(geometry, plan)
    budget = KvBudget(
        bytes_per_cell=per_cell,
        cells=cells,
        window_cells=in_window,
        global_bytes=cells * per_cell,
        window_bytes=in_window * per_window_cell,
        state_bytes=state,
        compute_bytes=compute,
        output_bytes=outputs,
        weights_bytes=geometry.weights_bytes,
        lines=(),
    )
    lines = _lines(geometry, plan, budget, len(global_layers), len(window_layers), per_window_cell)
    return KvBudget(**{name: getattr(budget, name) for name in budget.__slots__ if name != "lines"}, lines=lines)


def _check(geometry: Geometry, plan: KvPlan) -> None:
    for value, name in ((plan.context_tokens, "context"), (plan.sessions, "number of sessions")):
        if value < 1:
            raise UsageError(f"the {name} must be at least 1, not {value}", "give a positive whole number")
    if plan.prefix_tokens < 0 or plan.reserved_sequences < 0 or plan.outputs < 0 or plan.ubatch_tokens < 1:
        raise UsageError("prefix, outputs and micro-batch cannot be negative", "leave them at their defaults")
    if plan.v_type in QUANTISED and not plan.flash_attention:
        raise UsageError(
            f"V in {plan.v_type} needs flash attention; llama.cpp makes no context without it",
            "switch flash attention on, or choose f16 for V",
        )
    for kv_type, length, what in (
        (plan.k_type, geometry.key_length, "keys"),
        (plan.v_type, geometry.value_length, "values"),
    ):
        block = KV_TYPES.get(kv_type, (0, 1))[1]
        if plan.flash_attention and length % block:
            raise UsageError(
                f"this model's {what} of {length} cannot be stored as {kv_type}, whose blocks hold {block}",
                "choose f16 for this model",
            )


def _lines(
    geometry: Geometry, plan: KvPlan, budget: KvBudget, global_layers: int, window_layers: int, per_window_cell: int
) -> tuple[str, ...]:
    types = plan.k_type if plan.k_type == plan.v_type else f"K {plan.k_type}, V {plan.v_type}"
    lines = [f"{size(geometry.weights_bytes)}  weights"]
    if global_layers:
        prefix = f" + {count(plan.prefix_tokens)} shared" if plan.prefix_tokens else ""
        lines.append(
            f"{size(budget.global_bytes)}  K/V: {count(plan.sessions)} sessions × {count(plan.context_tokens)} tokens"
            f"{prefix} = {count(budget.cells)} cells × {count(budget.bytes_per_cell)} bytes"
            f" ({global_layers} layers, {types})"
        )
    if window_layers:
        why = f"{plan.sequences} × {count(geometry.window_tokens)} + {plan.ubatch_tokens}"
        lines.append(
            f"{size(budget.window_bytes)}  windows: {count(budget.window_cells)} cells"
            f" ({'all' if plan.window_full else why}, padded)"
            f" × {count(per_window_cell)} bytes ({window_layers} layers)"
        )
    if budget.state_bytes:
        each = budget.state_bytes // plan.sequences
        lines.append(f"{size(budget.state_bytes)}  recurrent state: {plan.sequences} sequences × {count(each)} bytes")
    lines.append(f"{size(budget.compute_bytes)}  compute buffer (estimate)")
    lines.append(f"{size(budget.output_bytes)}  logits kept for sampling")
    lines.append(f"{size(budget.total_bytes)}  in all")
    return tuple(lines)
