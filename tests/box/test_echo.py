"""The speaker fed back into the microphone: the appliance must not hear itself, and must still hear others."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from bench import babble, bench, loud, steady, tone
from rig import RATE, Rig

from appliance.audio.devices import EchoSettings, StationSettings
from appliance.audio.files import open_audio
from appliance.audio.levels import dbfs
from appliance.audio.player import Player
from appliance.config import load
from appliance.engines.ports import Spoken
from appliance.engines.silero import SileroVad
from appliance.engines.worker import Worker
from appliance.setup.audio_doctor import check_audio, describe

pytestmark = pytest.mark.box


def test_the_played_signal_is_cancelled_and_a_voice_over_it_is_heard(rig: Rig) -> None:
    async def scene() -> None:
        async with bench(StationSettings(echo=EchoSettings(residual_db=0.0))) as the:
            sink = the.station.sink
            with rig.echo(-10.0, 80):
                await the.passes(0.5)
                sink.write(babble(18.0, sink.sample_rate))
                await the.passes(3.5)
                # Where the stamps of a busy machine slip, the judge leaves out the second that follows.
                await the.until(lambda: the.station.echo.judge.removed_db is not None, 12.0)
                alone = dbfs(the.sound(len(the.blocks) - 40))
                since = len(the.blocks)
                voice = rig.say(babble(0.8, RATE, seed=9, pitch_hz=210), RATE)
                await the.passes(1.2)
                over = dbfs(the.sound(since))
                voice.wait()
            removed = the.station.echo.judge.removed_db
            assert removed is not None
            print(f"echo removed: median {removed:.0f} dB; rest {alone:.0f} dBFS; voice over it {over:.0f} dBFS")
            assert removed > 12
            assert over > -35
            assert over > alone + 10
            assert the.station.echo.mode == "cancel"

    steady(scene)


@pytest.mark.models
def test_an_answer_does_not_trigger_the_vad_and_an_interruption_does(rig: Rig, models_root: Path) -> None:
    """The answer in the appliance's own voice, comes back at -10 dB after 80 ms; silero listens."""
    piper = pytest.importorskip("piper")
    voice = piper.PiperVoice.load(str(models_root / "piper-en_US-joe-medium/en_US-joe-medium.onnx"))
    text = "Your timer is set for ten minutes, and I will tell you when it is over."
    pieces = list(voice.synthesize(text))
    answer = np.concatenate([piece.audio_float_array for piece in pieces]).astype(np.float32)
    spoken = Spoken(answer, pieces[0].sample_rate, text)
    person = open_audio(models_root / "recordings-pocketsphinx/cards/001.wav").read(RATE)

    async def scene() -> None:
        worker = Worker("vad")
        vad = SileroVad(models_root / "silero-vad/silero_vad_16k_op15.onnx", worker)

        async def voiced(name: str, since: int) -> int:
            """The longest run of voiced blocks."""
            run = most = 0
            for block in the.blocks[since:]:
                run = run + 1 if await vad.probability(name, block.samples) > 0.5 else 0
                most = max(most, run)
            return most

        try:
            async with bench() as the:
                player = Player(the.station.sink, the.clock)
                with rig.echo(-10.0, 80):
                    await the.passes(0.3)
                    for turn in range(2):
                        since = len(the.blocks)
                        player.begin(turn)
                        player.play(spoken, len(text))
                        player.end()
                        await player.drained()
                        await the.passes(0.25)
                        assert await voiced("itself", since) < 4
                    player.begin(3)
                    player.play(spoken, len(text))
                    await player.started()
                    await the.passes(0.8)
                    since = len(the.blocks)
                    mouth = rig.say(np.clip(person * 2, -1, 1), RATE)
                    await the.passes(1.2)
                    player.stop()
                    mouth.wait()
                    assert await voiced("person", since) >= 4
        finally:
            worker.stop()

    steady(scene)


def test_half_duplex_hears_nothing_while_something_is_audible_and_everything_after(rig: Rig) -> None:
    async def scene() -> None:
        async with bench(StationSettings(echo=EchoSettings(mode="half-duplex"))) as the:
            sink = the.station.sink
            with rig.echo(-3.0, 40):
                await the.passes(0.5)
                since = len(the.blocks)
                sink.write(tone(1.0, sink.sample_rate))
                await the.passes(1.6)
                assert not loud(the.sound(since), 16_000, 0.01)
                since = len(the.blocks)
                rig.say(tone(0.5, RATE, 700), RATE).wait()
                await the.until(lambda: loud(the.sound(since), 16_000), 3.0)

    steady(scene)


def test_the_doctor_measures_the_way_from_speaker_to_microphone(rig: Rig) -> None:
    async def scene() -> None:
        findings, measured = await asyncio.to_thread(check_audio, StationSettings())
        assert measured is not None
        assert measured.heard
        assert measured.delay_ms == pytest.approx(80, abs=25)  # both devices' stamps against a known delay
        assert measured.echo_return_loss_db == pytest.approx(10, abs=2)
        assert measured.advice == "cancel"
        assert {finding.status for finding in findings} <= {"ok", "warn"}
        print(f"doctor: delay {measured.delay_ms:.0f} ms, round trip {measured.round_trip_ms:.0f} ms")

    with rig.echo(-10.0, 80):
        rig.passes(0.5)
        steady(scene)


def test_the_doctor_writes_the_delay_into_the_config(rig: Rig, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('tier = "tiny"  # mine\n')
    command = [sys.executable, "-c", "from appliance.cli.main import main; main()", "doctor", "--quick", "--write"]
    with rig.echo(-10.0, 80):
        rig.passes(0.5)
        done = subprocess.run(
            [*command, "--config", str(path)],
            env={**os.environ, **rig.env},
            capture_output=True,
            text=True,
            check=False,
        )
    assert f"config: {path}" in done.stderr, done.stderr
    [station] = load(path).stations
    assert station.echo.delay_ms == pytest.approx(80, abs=25)
    assert station.echo.mode == "auto"
    assert "# mine" in path.read_text()


def test_the_doctor_hears_no_echo_where_there_is_none(rig: Rig) -> None:
    from appliance.audio.devices import list_devices

    findings, measured = check_audio(StationSettings())
    assert measured is not None
    assert not measured.heard
    assert measured.advice == "off"
    assert any(finding.name == "echo" and finding.status == "ok" for finding in findings)
    assert any("default" in line for line in describe(list_devices()))
