"""llama.cpp, thinly: models, contexts and batches as typed Python objects, and nothing else.

Owns every pointer and the checks that keep calls away from llama.cpp's assertions (they end the process). It
does not know sessions, turns or policies. Not thread-safe: one thread owns a `Context`.
"""

import ctypes
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from appliance.engines.llama.settings import LlamaSettings
from appliance.engines.openmp import wait_briefly
from appliance.errors import EngineError, ModelFileError

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]

_TYPES = {"f16": 1, "q4_0": 2, "q8_0": 8}  # enum ggml_type
MAX_SEQUENCES = 256  # LLAMA_MAX_SEQ
PARTIAL_ONLY = 1  # LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY: window and recurrent parts

# llama.cpp's log is process-wide; the newest lines explain a NULL it returned.
_log: deque[str] = deque(maxlen=64)
_buffers: deque[str] = deque(maxlen=256)
_callback: Any = None


def library() -> Any:
    """The llama_cpp module, with its log routed into memory. Imported at first use: it takes 0.2 s."""
    global _callback  # noqa: PLW0603  the process has one log callback; ctypes needs it kept alive
    wait_briefly()
    import llama_cpp

    if _callback is None:

        def keep(level: int, text: bytes, _user: Any) -> None:
            line = text.decode("utf-8", "replace").rstrip()
            if "buffer size" in line:
                _buffers.append(line)
            if level in (3, 4) and line:  # GGML_LOG_LEVEL_WARN, _ERROR
                _log.append(line)

        _callback = llama_cpp.llama_log_callback(keep)
        llama_cpp.llama_log_set(_callback, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
    return llama_cpp


def last_log_line() -> str:
    """The newest warning or error of llama.cpp, or ""."""
    return _log[-1] if _log else ""


class Model:
    """Weights and vocabulary. Raises ModelFileError for files that hold no causal language model."""

    def __init__(self, path: Path, gpu_layers: int = 0) -> None:
        self._lib = library()
        self.path = path
        if not path.is_file():
            raise ModelFileError(f"the language model {path} is missing", "run: appliance models pull")
        params = self._lib.llama_model_default_params()
        params.n_gpu_layers = gpu_layers
        self.pointer = self._lib.llama_model_load_from_file(str(path).encode(), params)
        if not self.pointer:
            raise ModelFileError(
                f"llama.cpp cannot load {path.name}: {last_log_line() or 'no reason given'}",
                "run: appliance models verify",
            )
        lib = self._lib
        if lib.llama_model_has_encoder(self.pointer) or not lib.llama_model_has_decoder(self.pointer):
            self.close()
            raise ModelFileError(f"{path.name} is an encoder, not a chat model", "choose a GGUF of a chat model")
        pooling = self.metadata(f"{self.metadata('general.architecture')}.pooling_type")
        if pooling not in ("", "0"):
            self.close()
            raise ModelFileError(
                f"{path.name} is an embedding model, not a chat model", "choose a GGUF of a chat model"
            )
        self._vocab = lib.llama_model_get_vocab(self.pointer)
        self.vocabulary = int(lib.llama_vocab_n_tokens(self._vocab))
        if lib.llama_vocab_type(self._vocab) == 0 or self.vocabulary == 0:
            self.close()
            raise ModelFileError(f"{path.name} has no tokenizer", "choose a GGUF of a chat model")
        self.context_train = int(lib.llama_model_n_ctx_train(self.pointer))
        self.window = int(lib.llama_model_n_swa(self.pointer))
        self.recurrent = bool(lib.llama_model_is_recurrent(self.pointer) or lib.llama_model_is_hybrid(self.pointer))
        self.bos, self.eos = int(lib.llama_vocab_bos(self._vocab)), int(lib.llama_vocab_eos(self._vocab))
        self.adds_bos = bool(lib.llama_vocab_get_add_bos(self._vocab))
        self._piece = ctypes.create_string_buffer(512)
        self._pieces: dict[int, bytes] = {}
        self._ends: dict[int, bool] = {}

    @property
    def vocab(self) -> Any:
        return self._vocab

    def metadata(self, key: str) -> str:
        """A scalar of the file's metadata as text, "" where absent."""
        buffer = ctypes.create_string_buffer(256)
        n = self._lib.llama_model_meta_val_str(self.pointer, key.encode(), buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace") if n >= 0 else ""

    def chat_template(self) -> str:
        text = self._lib.llama_model_chat_template(self.pointer, None)
        return text.decode("utf-8", "replace") if text else ""

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """Tokens of `text`. Control tokens are recognised only with `special`, so that no words can forge them."""
        data = text.encode("utf-8", "replace")
        room = len(data) + 16
        tokens = (ctypes.c_int32 * room)()
        n = self._lib.llama_tokenize(self._vocab, data, len(data), tokens, room, False, special)
        if n < 0:
            raise EngineError("llama.cpp could not tokenise a text", "report the model's name")
        return list(tokens[:n])

    def piece(self, token: int) -> bytes:
        """The bytes of one token; control tokens have none."""
        known = self._pieces.get(token)
        if known is None:
            n = self._lib.llama_token_to_piece(self._vocab, token, self._piece, len(self._piece), 0, False)
            known = self._piece.raw[: max(0, n)]
            self._pieces[token] = known
        return known

    def special_text(self, token: int) -> str:
        """The text of a control token ("<|im_end|>"), "" for a negative id."""
        if token < 0:
            return ""
        n = self._lib.llama_token_to_piece(self._vocab, token, self._piece, len(self._piece), 0, True)
        return self._piece.raw[: max(0, n)].decode("utf-8", "replace")

    def ends(self, token: int) -> bool:
        """Whether `token` ends a generation."""
        known = self._ends.get(token)
        if known is None:
            known = bool(self._lib.llama_vocab_is_eog(self._vocab, token))
            self._ends[token] = known
        return known

    def is_control(self, token: int) -> bool:
        return bool(self._lib.llama_vocab_is_control(self._vocab, token))

    def close(self) -> None:
        if self.pointer:
            self._lib.llama_model_free(self.pointer)
            self.pointer = None


class Batch:
    """Input of one decode: numpy views over the arrays llama.cpp reads, filled by slices."""

    def __init__(self, lib: Any, room: int, outputs: int) -> None:
        self.room, self.outputs_max = room, outputs
        self.token: Ints = np.zeros(room, np.int32)
        self.pos: Ints = np.zeros(room, np.int32)
        self.seq: Ints = np.zeros(room, np.int32)
        self.logits: NDArray[np.int8] = np.zeros(room, np.int8)
        self._ones: Ints = np.ones(room, np.int32)
        # llama.cpp wants a pointer to each token's list of sequences; ours have one sequence each.
        self._rows = (self.seq.ctypes.data + 4 * np.arange(room + 1, dtype=np.uint64)).astype(np.uint64)
        self._rows[room] = 0
        self.native = lib.llama_batch()
        for name, array, kind in (
            ("token", self.token, ctypes.c_int32),
            ("pos", self.pos, ctypes.c_int32),
            ("n_seq_id", self._ones, ctypes.c_int32),
            ("seq_id", self._rows, ctypes.POINTER(ctypes.c_int32)),
            ("logits", self.logits, ctypes.c_int8),
        ):
            setattr(self.native, name, ctypes.cast(array.ctypes.data, ctypes.POINTER(kind)))
        self.size = 0
        self.outputs = 0

    def clear(self) -> None:
        self.size = self.outputs = 0

    def add(self, seq: int, start: int, tokens: list[int]) -> int:
        """Append `tokens` of sequence `seq` at positions from `start`; returns the index of the first."""
        first, end = self.size, self.size + len(tokens)
        if end > self.room:
            raise EngineError(f"a batch of {end} tokens exceeds {self.room}")
        self.token[first:end] = tokens
        self.pos[first:end] = np.arange(start, start + len(tokens), dtype=np.int32)
        self.seq[first:end] = seq
        self.logits[first:end] = 0
        self.size = end
        return first

    def want(self, index: int) -> int:
        """Ask for the logits after the token at `index`. Indices must come in rising order; returns the row."""
        if self.outputs >= self.outputs_max:
            raise EngineError(f"more than {self.outputs_max} outputs in one batch")
        self.logits[index] = 1
        self.outputs += 1
        return self.outputs - 1


class Context:
    """One llama_context with unified KV. Sequence numbers are 0 .. `sequences` - 1."""

    def __init__(self, model: Model, settings: LlamaSettings, *, cells: int, sequences: int) -> None:
        lib = self._lib = library()
        self.model = model
        params = lib.llama_context_default_params()
        params.n_ctx = cells
        params.n_batch = settings.batch_tokens
        params.n_ubatch = min(settings.ubatch_tokens, settings.batch_tokens)
        params.n_seq_max = sequences
        # A prompt may want two rows (the end-of-turn probe and its last token); never fewer rows than sequences.
        self.outputs = 2 * sequences
        params.n_outputs_max = self.outputs
        params.n_threads, params.n_threads_batch = settings.threads, settings.threads_batch
        params.flash_attn_type = 1 if settings.flash_attention else 0
        params.type_k = params.type_v = _TYPES[settings.kv_type]
        params.kv_unified = True
        params.swa_full = False
        params.no_perf = True
        _buffers.clear()
        self._pointer = lib.llama_init_from_model(model.pointer, params)
        if not self._pointer:
            raise EngineError(
                f"llama.cpp could not create a context of {cells} cells: {last_log_line() or 'no reason given'}",
                "choose fewer sessions, a shorter share or a smaller K/V type",
            )
        self.buffer_lines = list(_buffers)
        self.cells = int(lib.llama_n_ctx(self._pointer))
        self.sequences = sequences
        self._memory = lib.llama_get_memory(self._pointer)
        if not self._memory:
            raise ModelFileError(f"{model.path.name} keeps no memory of what it read", "choose a GGUF of a chat model")
        self.can_shift = bool(lib.llama_memory_can_shift(self._memory)) and not model.recurrent
        self.shift_pending = False  # moved positions are applied to the keys by the next decode
        self.batch = Batch(lib, int(lib.llama_n_batch(self._pointer)), self.outputs)

    def decode(self) -> int:
        """Evaluate the batch. llama.cpp's code: 0 done, 1 no cells, 2 aborted, negative failed."""
        if self.batch.size == 0:
            return 0
        self.batch.native.n_tokens = self.batch.size
        code = int(self._lib.llama_decode(self._pointer, self.batch.native))
        self.shift_pending = self.shift_pending and code != 0
        return code

    def logits(self) -> Floats:
        """The rows asked for in the last decode, in the order asked: (rows, vocabulary) float32, writable.

        The memory is llama.cpp's own and valid until the next decode.
        """
        pointer = self._lib.llama_get_logits(self._pointer)
        address = ctypes.cast(pointer, ctypes.c_void_p).value
        if not address or not self.batch.outputs:
            raise EngineError("llama.cpp returned no logits")
        size = self.batch.outputs * self.model.vocabulary
        rows: Floats = np.ctypeslib.as_array((ctypes.c_float * size).from_address(address))
        return rows.reshape(self.batch.outputs, self.model.vocabulary)

    def remove(self, seq: int, start: int = 0, end: int = -1) -> bool:
        """Forget positions [start, end) of `seq`; False where the model cannot do so in part."""
        self._check(seq)
        return bool(self._lib.llama_memory_seq_rm(self._memory, seq, start, end))

    def share(self, source: int, target: int, start: int = 0, end: int = -1) -> None:
        """Let `target` see positions [start, end) of `source`: metadata only, no copy."""
        self._check(source)
        self._check(target)
        self._lib.llama_memory_seq_cp(self._memory, source, target, start, end)

    def shift(self, seq: int, start: int, end: int, delta: int) -> None:
        """Move positions [start, end) of `seq` by `delta`. Never over cells that another sequence shares."""
        self._check(seq)
        if not self.can_shift:
            raise EngineError("this model's positions cannot be shifted")
        self._lib.llama_memory_seq_add(self._memory, seq, start, end, delta)
        self.shift_pending = True

    def span(self, seq: int) -> tuple[int, int]:
        """The lowest and highest position of `seq`, (-1, -1) when it is empty."""
        self._check(seq)
        lib = self._lib
        return int(lib.llama_memory_seq_pos_min(self._memory, seq)), int(
            lib.llama_memory_seq_pos_max(self._memory, seq)
        )

    def save(self, seq: int, flags: int = 0) -> bytes:
        """The state of `seq` as bytes."""
        self._check(seq)
        size = int(self._lib.llama_state_seq_get_size_ext(self._pointer, seq, flags))
        data = (ctypes.c_uint8 * size)()
        n = int(self._lib.llama_state_seq_get_data_ext(self._pointer, data, size, seq, flags))
        return bytes(memoryview(data)[:n])

    def load(self, seq: int, state: bytes, flags: int = 0) -> bool:
        """Put a saved state into `seq`, replacing what it held; False when it does not fit."""
        self._check(seq)
        data = (ctypes.c_uint8 * len(state)).from_buffer_copy(state)
        return int(self._lib.llama_state_seq_set_data_ext(self._pointer, data, len(state), seq, flags)) > 0

    def close(self) -> None:
        if self._pointer:
            self._lib.llama_free(self._pointer)
            self._pointer = None

    def _check(self, seq: int) -> None:
        if not 0 <= seq < self.sequences:
            raise EngineError(f"sequence {seq} is outside 0..{self.sequences - 1}")
