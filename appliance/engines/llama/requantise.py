"""A language model's weights in types that the processor multiplies quickly, made once and kept beside the file.

llama.cpp has no fast kernels on x86 for 5-bit types, in which "Q4_K_M" files of models with odd widths hold most of
their weights. Owns the recipes and the derived file; which recipe a pack uses is its settings'.
"""

import ctypes
import os
import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from appliance.engines.llama.binding import last_log_line, library
from appliance.errors import ApplianceError, DiskFullError, EngineError
from appliance.models.digest import hash_file, stamped_hash, write_stamp

# (type of all that is not named, types by pattern of tensor names); the output layer stays as it is. Perplexity on
# 1,200 tokens of prose against the file's own: Qwen 0.5B 1.00 with q8_0, 1.05 with q4_0; SmolLM2 1.00 and 1.19.
_RECIPES: dict[str, tuple[int, tuple[tuple[str, int], ...]]] = {
    "q8_0": (7, ()),
    "q4_0": (2, (("attn_q", 8), ("attn_k", 8), ("attn_v", 8), ("attn_output", 8), ("ffn_down", 12))),
}  # enum llama_ftype and ggml_type: 2 q4_0, 7 and 8 q8_0, 12 q4_K


def fast_weights(source: Path, recipe: str, say: Callable[[str], None] = lambda _: None) -> Path:
    """The file to load for `source`, whose hash has been checked: its weights in `recipe`, made now if they are not
    there (seconds for half a billion weights). Where that fails, `source` itself, and `say` gets the reason.
    """
    target = _target(source, recipe)
    if target is None or made(source, recipe) is not None:
        return target or source
    try:
        _make(source, target, recipe)
    except (ApplianceError, OSError) as error:
        reason = error.message if isinstance(error, ApplianceError) else f"{error.strerror}"
        say(f"the language model runs with slower weights: {reason}")
        return source
    return target


def made(source: Path, recipe: str) -> Path | None:
    """The weights of `source` in `recipe` where they are there, as they were written."""
    target = _target(source, recipe)
    return target if target is not None and stamped_hash(target) else None


def _target(source: Path, recipe: str) -> Path | None:
    """Named after all that decides its contents. None: no recipe, or a folder that not even a stamp could go to."""
    digest = stamped_hash(source)
    if not recipe or digest is None:
        return None
    return source.with_name(f".{source.stem}.{recipe}.{digest[:12]}.{version('llama-cpp-python')}.gguf")


def _make(source: Path, target: Path, recipe: str) -> None:
    """Write `target` whole or not at all."""
    if shutil.disk_usage(source.parent).free < 2 * source.stat().st_size:
        raise DiskFullError(f"there is no room beside {source.name} for a second form of them", "free some disk space")
    temporary = target.with_name(f"{target.name}.{os.getpid()}.new")
    try:
        _quantise(source, temporary, recipe)
        for old in source.parent.glob(f".{source.stem}.{recipe}.*.gguf"):
            old.unlink()
        temporary.replace(target)
        write_stamp(target, hash_file(target))
    finally:
        temporary.unlink(missing_ok=True)


def _quantise(source: Path, target: Path, recipe: str) -> None:
    lib = library()
    kind, named = _RECIPES[recipe]
    overrides = (lib.llama_model_tensor_override * (len(named) + 1))()  # a NULL pattern ends the list
    for place, (pattern, tensor_type) in enumerate(named):
        overrides[place].pattern, overrides[place].type = pattern.encode(), tensor_type
    params = lib.llama_model_quantize_default_params()
    params.ftype = kind
    params.nthread = os.cpu_count() or 1
    params.allow_requantize = True
    params.quantize_output_tensor = False
    params.tt_overrides = ctypes.cast(overrides, ctypes.POINTER(lib.llama_model_tensor_override))
    if lib.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params)) != 0:
        raise EngineError(f"{source.name} could not be requantised: {last_log_line() or 'no reason given'}")
