"""One rig for each file of box tests: what one file unplugs is not missing in the next."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import know_the_box
from rig import Rig, missing

from appliance.audio.catalog import portaudio


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """A running rig whose devices this very process sees."""
    if reason := missing():
        pytest.skip(reason)
    saved = {name: os.environ.get(name) for name in ("PULSE_SERVER", "ALSA_CONFIG_PATH")}
    with Rig() as rig:
        os.environ.update({name: rig.env[name] for name in saved})
        sounddevice = portaudio()
        sounddevice._terminate()  # it may have been imported with another environment
        sounddevice._initialize()
        yield rig
    for name, value in saved.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@pytest.fixture(scope="session")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """XDG_STATE_HOME of the appliances that are started here: how fast the box is stands there already."""
    folder = tmp_path_factory.mktemp("state")
    know_the_box(folder)
    return folder
