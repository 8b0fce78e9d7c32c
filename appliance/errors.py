"""Every error a person may meet: one sentence that names the thing, and a hint.

    ApplianceError            1  the job failed
    ├── UsageError            2  a wrong argument or input file
    │   └── ConfigError       2  a wrong key or value in a TOML file
    ├── MissingError          3  something this machine lacks: a model, a device, a library
    │   └── ModelFileError    3  a model file is absent, truncated, altered or of another kind
    ├── DiskFullError         1  no space left while pulling or storing
    ├── StoreError            1  the store cannot be opened or written
    ├── EngineError           1  a native engine failed
    │   └── NoRoomError       1  the engine has no cells left for this session
    └── Cancelled             1  the work was called off; never shown

The number is the process's exit code (see `appliance.cli.main`).
"""


class ApplianceError(Exception):
    """One sentence (`message`), one `hint`, and the exit code of the process."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(ApplianceError):
    exit_code = 2


class ConfigError(UsageError):
    pass


class MissingError(ApplianceError):
    exit_code = 3


class ModelFileError(MissingError):
    pass


class DiskFullError(ApplianceError):
    pass


class StoreError(ApplianceError):
    pass


class EngineError(ApplianceError):
    pass


class NoRoomError(EngineError):
    pass


class Cancelled(ApplianceError):
    """The work was called off by its owner. Raised inside workers, swallowed by whoever cancelled."""

    def __init__(self, message: str = "cancelled") -> None:
        super().__init__(message)


def first_of(group: BaseExceptionGroup[ApplianceError]) -> ApplianceError:
    """The first error of a group; of tasks side by side, one cause often makes several fail."""
    error = group.exceptions[0]
    return first_of(error) if isinstance(error, BaseExceptionGroup) else error
