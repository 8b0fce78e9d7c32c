"""The speaker fed back into the microphone: the appliance must not hear itself, and must still hear others."""

import asyncio
import time

import numpy as np
import pytest
from bench import babble, bench, loud, steady, tone
from rig import RATE, Rig

from appliance.audio.devices import EchoSettings, StationSettings
from appliance.audio.levels import dbfs
from appliance.setup.audio_doctor import check_audio, describe

pytestmark = pytest.mark.box


def test_the_played_signal_is_cancelled_and_a_voice_over_it_is_heard(rig: Rig) -> None:
    async def scene() -> None:
        async with bench(StationSettings(echo=EchoSettings(residual_db=0.0))) as the:
            sink = the.station.sink
            with rig.echo(-10.0, 80):
                await asyncio.sleep(0.5)
                sink.write(babble(5.0, sink.sample_rate))
                await asyncio.sleep(3.5)
                alone = dbfs(the.sound(len(the.blocks) - 40))
                since = len(the.blocks)
                voice = rig.say(babble(0.8, RATE, seed=9, pitch_hz=210), RATE)
                await asyncio.sleep(1.2)
                over = dbfs(the.sound(since))
                voice.wait()
                await asyncio.sleep(0.4)
            removed = the.station.echo.judge.removed_db
            assert removed is not None
            print(f"echo removed: median {removed:.0f} dB; rest {alone:.0f} dBFS; voice over it {over:.0f} dBFS")
            assert removed > 12
            assert over > -35
            assert over > alone + 10
            assert the.station.echo.mode == "cancel"

    steady(scene)


def test_while_cancelling_settles_its_rest_is_kept_out(rig: Rig) -> None:
    async def scene() -> None:
        async with bench() as the:
            sink = the.station.sink
            with rig.echo(-10.0, 80):
                await asyncio.sleep(0.5)
                sink.write(babble(4.0, sink.sample_rate))
                await asyncio.sleep(1.2)
                since = len(the.blocks)
                await asyncio.sleep(2.6)
                quiet = [dbfs(block.samples) < -45 for block in the.blocks[since:]]
            assert np.mean(quiet) > 0.9

    steady(scene)


def test_half_duplex_hears_nothing_while_something_is_audible_and_everything_after(rig: Rig) -> None:
    async def scene() -> None:
        async with bench(StationSettings(echo=EchoSettings(mode="half-duplex"))) as the:
            sink = the.station.sink
            with rig.echo(-3.0, 40):
                await asyncio.sleep(0.5)
                since = len(the.blocks)
                sink.write(tone(1.0, sink.sample_rate))
                await asyncio.sleep(1.6)
                assert not loud(the.sound(since), 16_000, 0.01)
                since = len(the.blocks)
                rig.say(tone(0.5, RATE, 700), RATE).wait()
                await asyncio.sleep(0.3)
                assert loud(the.sound(since), 16_000)

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
        time.sleep(0.5)
        steady(scene)


def test_the_doctor_hears_no_echo_where_there_is_none(rig: Rig) -> None:
    from appliance.audio.devices import list_devices

    findings, measured = check_audio(StationSettings())
    assert measured is not None
    assert not measured.heard
    assert measured.advice == "off"
    assert any(finding.name == "echo" and finding.status == "ok" for finding in findings)
    assert any("default" in line for line in describe(list_devices()))
