"""Choosing devices on a real PortAudio stack: the list, a level that follows what is said, a sound that is heard."""

import asyncio
from collections.abc import Callable

import pytest
from bench import loud, pitch, tone
from rig import RATE, Rig, until

from appliance.setup.devices import Chosen, Heard, Trial
from appliance.tui.devices import DeviceScreen, Ear

pytestmark = pytest.mark.box


async def becomes(true: Callable[[], object]) -> None:
    await asyncio.to_thread(until, true, 10.0)


def test_the_level_follows_what_is_said_and_a_sound_is_heard(rig: Rig) -> None:
    trial = Trial()
    heard: list[Heard] = []

    async def scene() -> None:
        choices = await asyncio.to_thread(trial.look, Chosen())
        assert choices.trouble == {}
        assert choices.inputs[0].name == "default"
        assert {"counter_mic", "room_mic"} <= {choice.name for choice in choices.inputs}
        assert {"counter_spk", "room_spk"} <= {choice.name for choice in choices.outputs}

        listening = asyncio.create_task(trial.listen("counter_mic", heard.append))
        await becomes(lambda: len(heard) > 3)
        assert not any(each.trouble for each in heard)
        assert heard[-1].dbfs < -100
        voice = rig.say(tone(3.0, RATE, 600), RATE)
        await becomes(lambda: heard[-1].dbfs > -25)
        voice.kill()
        voice.wait()
        await becomes(lambda: heard[-1].dbfs < -100)

        with rig.hear() as recorded:
            assert await trial.play("counter_spk") == ""
            await asyncio.to_thread(rig.passes, 0.2)
        sound = recorded.audio[:, 0]
        (begin, *_), (*_, end) = loud(sound)[0], loud(sound)[-1]
        assert end - begin == pytest.approx(0.18, abs=0.06)
        assert 850 < pitch(sound[int(begin * RATE) : int(end * RATE)], RATE) < 1_200
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)

        assert rig.listeners() == 0

    try:
        asyncio.run(scene())
    finally:
        trial.close()


def test_a_device_that_does_not_open_is_a_sentence(rig: Rig) -> None:
    trial = Trial()
    heard: list[Heard] = []

    async def scene() -> None:
        listening = asyncio.create_task(trial.listen("no such thing", heard.append))
        await becomes(lambda: bool(heard))
        assert "no such thing" in heard[0].trouble
        assert "no such thing" in await trial.play("no such thing")
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)

    try:
        asyncio.run(scene())
    finally:
        trial.close()


def test_the_screen_shows_it_and_closes_everything(rig: Rig) -> None:
    app = DeviceScreen(Trial(), Chosen("counter_mic", "counter_spk"))

    async def scene() -> None:
        async with app.run_test(size=(100, 30)) as pilot:
            ear = app.query_one(Ear)
            await becomes(lambda: ear.shown_dbfs < -60 and not ear.heard.trouble and rig.listeners() == 1)
            quiet = ear.shown_dbfs
            voice = rig.say(tone(3.0, RATE, 600), RATE)
            await becomes(lambda: ear.shown_dbfs > quiet + 40)
            assert "it hears you" in str(ear.render())
            voice.kill()
            voice.wait()
            await pilot.press("r")
            await becomes(lambda: "nothing arrives" in str(ear.render()))
            await pilot.press("enter", "enter")

    asyncio.run(scene())
    assert app.return_value == Chosen("counter_mic", "counter_spk")
    assert rig.listeners() == 0
