"""A language model's weights in types that the processor multiplies quickly, made once and kept beside the file.

llama.cpp has no fast kernels on x86 for 5-bit types, in which "Q4_K_M" files of models with odd widths hold most of
their weights. Owns the recipes and the derived file; which recipe a pack uses is its settings'.
"""

import ctypes
import os
import re
import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from appliance.engines.llama.binding import last_log_line, library
from appliance.errors import ApplianceError, DiskFullError, EngineError
from appliance.models.digest import hash_file, stamped_hash, write_stamp


class _Recipe(NamedTuple):
    """In numbers of enum llama_ftype and ggml_type: 2 q4_0, 7 and 8 q8_0, 12 q4_K, 20 iq4_nl."""

    rest: int  # all that is not named
    named: tuple[tuple[str, int], ...] = ()  # by pattern of tensor names
    output: int | None = None  # the layer that every token passes; None: as it is


# "iq4_nl": the feed-forward matrices are most of what a token reads; iq4_nl is q4_0 with better steps and as quick. The
# attention is small, and 4 bits there cost more than elsewhere.
_RECIPES = {
    "q8_0": _Recipe(7),
    "iq4_nl": _Recipe(
        2,
        (
            *((name, 8) for name in ("attn_q", "attn_k", "attn_v", "attn_output")),
            *((name, 20) for name in ("ffn_gate", "ffn_up")),
            ("ffn_down", 12),
        ),
        output=2,
    ),
}


def fast_weights(source: Path, recipe: str, say: Callable[[str], None] = lambda _: None) -> Path:
    """The file to load for `source`, whose hash has been checked: its weights in `recipe`, made now if they are not
    there (half a minute to two for half a billion). Where that fails, `source` itself, and `say` gets the reason.
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


def _forms(source: Path) -> list[Path]:
    """All that was ever made of a file of this name, also by recipes that are no more."""
    name = re.compile(rf"\.{re.escape(source.stem)}\.\w+\.[0-9a-f]{{12}}\.[\w.]+\.gguf")
    return [path for path in source.parent.iterdir() if name.fullmatch(path.name)]


def _make(source: Path, target: Path, recipe: str) -> None:
    """Write `target` whole or not at all."""
    if shutil.disk_usage(source.parent).free < 2 * source.stat().st_size:
        raise DiskFullError(f"there is no room beside {source.name} for a second form of them", "free some disk space")
    temporary = target.with_name(f"{target.name}.{os.getpid()}.new")
    try:
        _quantise(source, temporary, recipe)
        for old in _forms(source):
            old.unlink()
        temporary.replace(target)
        write_stamp(target, hash_file(target))
    finally:
        temporary.unlink(missing_ok=True)


def _quantise(source: Path, target: Path, recipe: str) -> None:
    lib = library()
    rest, named, output = _RECIPES[recipe]
    overrides = (lib.llama_model_tensor_override * (len(named) + 1))()  # a NULL pattern ends the list
    for place, (pattern, tensor_type) in enumerate(named):
        overrides[place].pattern, overrides[place].type = pattern.encode(), tensor_type
    params = lib.llama_model_quantize_default_params()
    params.ftype = rest
    params.nthread = os.cpu_count() or 1
    params.allow_requantize = True
    params.quantize_output_tensor = output is not None
    if output is not None:
        params.output_tensor_type = output
    params.tt_overrides = ctypes.cast(overrides, ctypes.POINTER(lib.llama_model_tensor_override))
    if lib.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params)) != 0:
        raise EngineError(f"{source.name} could not be requantised: {last_log_line() or 'no reason given'}")
