"""ONNX sessions as this box wants them: few threads that rest between runs, a plain error for what cannot be loaded.

Owns session options and device choice. Knows nothing of any model. A thread that spins while it waits takes a core
from the other engines, so it may do so within a run, where asleep it would be late for the next operator (Piper's
first piece takes 12 to 20 % less on two cores), and never between runs.
"""

from pathlib import Path
from typing import Any

import numpy as np

from appliance.engines.ports import Audio
from appliance.errors import EngineError, MissingError, ModelFileError


def require_file(path: Path, what: str) -> Path:
    """`path` itself, or ModelFileError when it is not a file."""
    if not path.is_file():
        raise ModelFileError(
            f"the {what} file {path} is missing", hint="run `appliance models pull` for this tier, then try again"
        )
    return path


def onnx_session(
    path: Path,
    *,
    what: str,
    threads: int = 1,
    device: str = "cpu",
    model: bytes | None = None,
    varied: bool = False,
) -> Any:
    """An InferenceSession on `path` (or on `model`, an edited copy of it) with `threads` intra-op threads.

    `varied`: inputs have a new shape each time, so no memory plan is kept for every shape seen.
    Raises ModelFileError when the file is absent or not an ONNX model, MissingError when `device` is "cuda" and
    this machine's onnxruntime cannot run there.
    """
    require_file(path, what)
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)  # its warnings name graph nodes, which help nobody here
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.enable_mem_pattern = not varied
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if threads > 1 else "0")
    options.add_session_config_entry("session.force_spinning_stop", "1")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    providers: list[str] = ["CPUExecutionProvider"]
    if device == "cuda":
        if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
            raise MissingError(
                f"the {what} model is to run on CUDA, but this onnxruntime has no CUDA support",
                hint="install onnxruntime-gpu, or set this engine's device to cpu",
            )
        providers.insert(0, "CUDAExecutionProvider")
    elif device != "cpu":
        raise EngineError(f"unknown device {device!r} for the {what} model", hint="use cpu or cuda")
    try:
        session = onnxruntime.InferenceSession(model or str(path), sess_options=options, providers=providers)
    except _faults_of_onnxruntime() as error:
        raise ModelFileError(
            f"{path} is not a usable {what} model ({type(error).__name__})",
            hint="run `appliance models verify`; it fetches altered files again",
        ) from error
    if device == "cuda" and session.get_providers()[0] != "CUDAExecutionProvider":
        raise MissingError(
            f"the {what} model could not be put on the GPU",
            hint="run `appliance doctor`, or set this engine's device to cpu",
        )
    return session


def _faults_of_onnxruntime() -> tuple[type[Exception], ...]:
    """Its binding raises a dozen unrelated classes for a bad file, and Python's own for bad options."""
    from onnxruntime.capi import onnxruntime_pybind11_state as binding

    own = [kind for kind in vars(binding).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    return (*own, RuntimeError, ValueError, OSError)


def require_io(session: Any, path: Path, what: str, inputs: set[str]) -> None:
    """ModelFileError when the model does not have at least `inputs`: a model of another kind under this name."""
    have = {i.name for i in session.get_inputs()}
    if not inputs <= have:
        raise ModelFileError(
            f"{path} is not a {what} model: its inputs are {', '.join(sorted(have))}",
            hint="run `appliance models verify`",
        )


def checked(audio: Audio, what: str) -> Audio:
    """`audio` as contiguous mono float32; EngineError when it is not one-dimensional or not finite.

    One NaN in a recurrent state would never leave it, so it is refused at the door.
    """
    samples = np.ascontiguousarray(audio, dtype=np.float32)
    if samples.ndim != 1:
        raise EngineError(f"the audio given to {what} has {samples.ndim} dimensions, not one")
    # A sum is finite exactly when no sample is NaN or infinite, short of overflow that real audio cannot reach.
    if not np.isfinite(samples.sum(dtype=np.float64)):
        raise EngineError(f"the audio given to {what} contains NaN or infinite samples", hint="check its source")
    return samples
