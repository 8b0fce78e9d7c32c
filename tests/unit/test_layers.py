"""Imports point down the house: no room knows a room above it, and vendors stay in their own files."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "appliance"

LEVELS = [
    ["errors", "clock", "events"],
    ["engines.ports"],
    ["audio.ports"],
    ["turns", "speech", "capacity"],
    ["engines.worker", "models.digest"],
    ["engines", "audio", "skills", "models", "telemetry"],
    ["store", "demo"],
    ["conversation"],
    ["config"],
    ["setup"],
    ["app"],
    ["converse", "service"],
    ["bench"],
    ["tui"],
    ["cli"],
]

VENDORS = {
    "llama_cpp": {"engines/llama", "bench/llm.py"},
    "ctranslate2": {"engines/whisper.py"},
    "faster_whisper": {"engines/whisper.py", "bench/asr.py"},
    "onnxruntime": {"engines/native.py"},
    "piper": {"engines/piper.py", "engines/espeak.py"},
    "kokoro_onnx": {"engines/kokoro.py"},
    "sounddevice": {"audio/catalog.py"},
    "livekit": {"audio/echo.py"},
    "pymicro_wakeword": {"audio/wakeword.py"},
    "sqlite_utils": {"store"},
    "textual": {"tui"},
    "torch": set(),
}


def level_of(module: str) -> int:
    best, found = -1, ""
    for level, rooms in enumerate(LEVELS):
        for room in rooms:
            if (module == room or module.startswith(room + ".")) and len(room) > len(found):
                best, found = level, room
    return best


def room_of(module: str) -> str:
    return module.split(".", maxsplit=1)[0]


def imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names if node.module == "appliance"}
    return names


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    relative = path.relative_to(ROOT).with_suffix("")
    me = ".".join(relative.parts).removesuffix(".__init__")
    if me == "__init__" or relative.parts[0].startswith("__"):
        return
    mine = level_of(me)
    assert mine >= 0, f"{me} has no place in LEVELS"
    for name in imports(path):
        if not name.startswith("appliance."):
            continue
        other = name.removeprefix("appliance.")
        if room_of(other) == room_of(me) or level_of(other) < 0:
            continue
        assert level_of(other) < mine, f"{me} imports {other}, which lies above or beside it"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_vendors_stay_in_their_own_file(path: Path) -> None:
    relative = path.relative_to(ROOT).as_posix()
    for name in imports(path):
        allowed = VENDORS.get(name.split(".", maxsplit=1)[0])
        assert allowed is None or any(relative.startswith(a) for a in allowed), f"{relative} imports {name}"
