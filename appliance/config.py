"""Settings of the whole appliance: one TOML a tier, and a person's own file on top of it.

It owns the composition of every component's frozen settings and the refusal of what it does not know: an
unknown key, a wrong type or a wrong value is a ConfigError that names the key and the nearest right one.
It loads no model and opens no device.

A user's file names its tier (`tier = "starter"`) and holds only what differs.
"""

import dataclasses
import difflib
import functools
import json
import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from appliance.audio.settings import StationSettings, VisitSettings
from appliance.capacity.ladder import LadderSettings
from appliance.capacity.limiter import CapacitySettings, Objectives
from appliance.conversation.desk import TalkSettings
from appliance.engines.kokoro import KokoroSettings
from appliance.engines.llama.settings import LlamaSettings
from appliance.engines.piper import PiperSettings
from appliance.engines.smart_turn import SmartTurnSettings
from appliance.engines.whisper import WhisperSettings
from appliance.errors import ConfigError
from appliance.skills.skills import SkillSettings
from appliance.store.database import StoreSettings
from appliance.telemetry.spans import Budget


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """Ids of models/manifest.toml. An empty id means: none."""

    vad: str = "silero-vad"
    end_of_turn: str = "smart-turn-v3.2"
    asr: str = "whisper-base"
    llm: str = "qwen2.5-coder-0.5b"
    tts: str = "piper-en_US-joe-medium"
    voices: str = ""  # Kokoro's voices
    asr_small: str = ""  # what the degrade ladder falls back to
    llm_small: str = ""

    def ids(self) -> tuple[str, ...]:
        """Every model this tier needs, each once."""
        return tuple(dict.fromkeys(i for i in dataclasses.astuple(self) if i))


@dataclass(frozen=True, slots=True)
class ScreenSettings:
    hide_words: bool = False


@dataclass(frozen=True, slots=True)
class Config:
    """Everything. `tier` is the file it came from or is layered over."""

    tier: str = "starter"
    summary: str = ""
    gpu: str = ""  # the smallest GPU this tier is meant for; "" is none
    models: ModelChoice = field(default_factory=ModelChoice)
    talk: TalkSettings = field(default_factory=TalkSettings)
    asr: WhisperSettings = field(default_factory=WhisperSettings)
    end_of_turn: SmartTurnSettings = field(default_factory=SmartTurnSettings)
    llm: LlamaSettings = field(default_factory=LlamaSettings)
    piper: PiperSettings = field(default_factory=PiperSettings)
    kokoro: KokoroSettings = field(default_factory=KokoroSettings)
    skills: SkillSettings = field(default_factory=SkillSettings)
    budget: Budget = field(default_factory=Budget)
    capacity: CapacitySettings = field(default_factory=CapacitySettings)
    objectives: Objectives = field(default_factory=Objectives)
    ladder: LadderSettings = field(default_factory=LadderSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    screen: ScreenSettings = field(default_factory=ScreenSettings)
    visits: VisitSettings = field(default_factory=VisitSettings)
    stations: tuple[StationSettings, ...] = (StationSettings(),)


def configs_root() -> Path:
    """The folder with one TOML a tier: the checkout's, else the one packed into the wheel."""
    package = Path(__file__).parent
    checkout = package.parent / "configs"
    return checkout if checkout.is_dir() else package / "_data" / "configs"


def tiers() -> tuple[str, ...]:
    """Names of the tiers, smallest first. A file that is layered over another tier is a use of one, not a tier."""
    order = ["tiny", "starter", "desktop", "entry", "balanced", "recommended", "pro", "flagship"]
    found = {path.stem for path in configs_root().glob("*.toml") if "tier" not in _read(path)}
    return (*(t for t in order if t in found), *sorted(found - set(order)))


def user_config_path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "appliance" / "config.toml"


def load(path: Path | None = None, tier: str | None = None) -> Config:
    """The settings of `path` (layered over its tier), of `tier`, or of the user's own file, else of `starter`.

    Raises ConfigError with the file, the key and a hint.
    """
    if path is not None:
        own = _read(path)
        return _build(_layered(own, path, tier), path)
    if tier is None and user_config_path().is_file():
        return load(user_config_path())
    return _build(_tier(tier or "starter"), tier_path(tier or "starter"))


def tier_path(name: str) -> Path:
    """The file of tier `name`; ConfigError with the nearest name when there is none."""
    path = configs_root() / f"{name}.toml"
    if "/" in name or not path.is_file():
        raise ConfigError(f"there is no tier {name!r}", _nearest(name, tiers()))
    return path


def _tier(name: str) -> dict[str, Any]:
    """A tier's tables; one that names another tier (the kiosk) is layered over it."""
    own = _read(tier_path(name))
    base = own.get("tier", name)
    return {**(own if base == name else _merge(_tier(base), own)), "tier": name}


def _layered(own: dict[str, Any], path: Path, tier: str | None) -> dict[str, Any]:
    base = tier or own.get("tier")
    if base is None:
        return own
    if not isinstance(base, str):
        raise ConfigError(f"{path}: tier must be a name in quotes", f"one of {', '.join(tiers())}")
    if path.resolve() == (configs_root() / f"{base}.toml").resolve():
        return own
    return _merge(_tier(base), own)


def _merge(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = _merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist", "name a TOML file, or a tier with --tier") from None
    except IsADirectoryError:
        raise ConfigError(f"{path} is a folder, not a TOML file", "name the file in it") from None
    except PermissionError:
        raise ConfigError(f"{path} may not be read", "check its permissions") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not a text file", "a config is TOML in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}", "compare it with the files in configs/") from None


def _build(data: dict[str, Any], path: Path) -> Config:
    _refuse_unknown(Config, data, "", path)
    try:
        # JSON's strict mode: no text for a number, but tables become dataclasses and lists become tuples.
        return _adapter().validate_json(json.dumps(data, default=str), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        if first["type"] == "value_error":
            raise ConfigError(f"{path}: {key}: {first['msg'].removeprefix('Value error, ')}", f"change {key}") from None
        raise ConfigError(f"{path}: {key} is {_shown(first['input'])}", _expects(key)) from None


@functools.cache
def _adapter() -> TypeAdapter[Config]:
    return TypeAdapter(Config)


def _refuse_unknown(kind: type, data: dict[str, Any], where: str, path: Path) -> None:
    """Walk the tables of `data` beside the dataclasses; the first key that has no field is an error."""
    hints = get_type_hints(kind)
    for key, value in data.items():
        name = f"{where}{key}"
        if key not in hints:
            raise ConfigError(f"{path}: there is no key {name!r}", _nearest(key, hints, where))
        inner = hints[key]
        if get_origin(inner) is tuple and dataclasses.is_dataclass(get_args(inner)[0]):
            for entry in value if isinstance(value, list) else ():
                if isinstance(entry, dict):
                    _refuse_unknown(get_args(inner)[0], entry, f"{name}.", path)
        elif dataclasses.is_dataclass(inner) and isinstance(value, dict):
            _refuse_unknown(inner, value, f"{name}.", path)  # type: ignore[arg-type]


def _nearest(word: str, known: Any, where: str = "") -> str:
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    if close:
        return f"did you mean {where}{close[0]}?"
    return f"known here: {', '.join(known)}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _expects(key: str) -> str:
    """What the field at the dotted `key` wants, in words."""
    kind: Any = Config
    for part in key.split("."):
        if dataclasses.is_dataclass(kind):
            kind = get_type_hints(kind).get(part, kind)
        elif get_origin(kind) is tuple:
            kind = get_args(kind)[0]
    names = {int: "a whole number", float: "a number", str: "text in quotes", bool: "true or false"}
    wanted = names.get(kind, "a list" if get_origin(kind) is tuple else "a table")
    return f"{key} wants {wanted}"
