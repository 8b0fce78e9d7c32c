"""The settings of the language-model engine: plain values, defaults for two cores.

Owns names, defaults and their limits. It does not know where they come from.
"""

from dataclasses import dataclass

KV_TYPES = ("f16", "q8_0", "q4_0")
REQUANTISE = ("", "q8_0", "iq4_nl")


@dataclass(frozen=True, slots=True)
class LlamaSettings:
    """How one llama.cpp context is shared. Cells are KV cells: one token of one session each.

    `share_tokens` bounds what one session may hold beside the shared system prompt. `context_tokens` 0 means
    the system prompt and a full share for every session; less overcommits, and idle sessions are parked when room
    is needed. Prompt budgets are tokens a step: `prompt_quiet_tokens` while no answer is being written,
    `prompt_busy_tokens` while one is, fewer when that many would take longer than `step_target_ms`.
    """

    system_prompt: str = "You are a voice assistant. Answer in one or two short spoken sentences."
    context_tokens: int = 0
    share_tokens: int = 2048
    sessions: int = 4
    max_open: int = 64  # sessions that may exist, parked ones included
    requantise: str = ""  # on a processor: "q8_0" or "iq4_nl" makes the weights anew in types it multiplies quickly
    kv_type: str = "f16"
    flash_attention: bool = True
    gpu_layers: int = 0
    threads: int = 2
    threads_batch: int = 2
    batch_tokens: int = 512
    ubatch_tokens: int = 512
    prompt_quiet_tokens: int = 512
    prompt_busy_tokens: int = 128
    step_target_ms: float = 150.0
    first_clause_tokens: int = 12  # an answer younger than this is one that someone waits to hear
    later_every: int = 2  # while someone waits, older answers advance in every n-th step only
    unread_pieces: int = 256  # pieces a client may leave unread before its answer pauses
    stall_s: float = 20.0  # an answer paused for so long is cancelled
    chat_format: str = ""  # "" = the model's own template, "chatml" = ChatML whatever the model says
    summary_tokens: int = 96  # longest summary of older turns; 0 drops them without one
    compact_at: float = 0.7  # part of the share from which older turns are replaced in idle time
    compact_to: float = 0.4  # part of the share that remains after old turns went
    park_after_s: float = 120.0  # an idle session's KV moves out after this; 0 parks only for want of room
    park_ram_bytes: int = 256 * 1024 * 1024
    park_disk_bytes: int = 2 * 1024 * 1024 * 1024
    park_dir: str = ""  # "" keeps parked sessions in RAM only
    model_sha256: str = ""  # known from the manifest; computed when sessions are parked on disk and it is ""
    stats_every_s: float = 0.25

    def __post_init__(self) -> None:
        if self.requantise not in REQUANTISE:
            raise ValueError(f"requantise is empty, q8_0 or iq4_nl, not {self.requantise!r}")
