"""Microphone and speaker on a real PortAudio stack: what goes in comes out, when it says it does, and comes back."""

import asyncio

import numpy as np
import pytest
from bench import bench, longest, loud, pitch, steady, tone
from rig import RATE, Rig

from appliance.audio.devices import DeviceSettings, StationSettings, choose, list_devices
from appliance.audio.player import Player
from appliance.engines.ports import Spoken

pytestmark = pytest.mark.box


def plain(mic: str = "counter_mic", spk: str = "counter_spk", latency_ms: float = 60.0) -> StationSettings:
    """60 ms, twice the default: what is tested here is order and truth, on a machine that may be busy."""
    return StationSettings(
        input=DeviceSettings(device=mic, latency_ms=latency_ms),
        output=DeviceSettings(device=spk, latency_ms=latency_ms),
    )


def test_devices_are_found_by_name_part_and_role(rig: Rig) -> None:
    devices = list_devices()
    for wanted, name in (("room_mic", "room_mic"), ("ROOM_m", "room_mic"), ("default", "default")):
        found = choose(devices, wanted, "input")
        assert found is not None
        assert found.name == name
    assert choose(devices, "no such thing", "input") is None


def test_a_tone_is_heard_once_whole_and_when_the_sink_says(rig: Rig) -> None:
    async def scene() -> None:
        async with bench(plain()) as the:
            sink = the.station.sink
            starts, said = [], []
            with rig.hear() as heard:
                for n in range(5):
                    begin = sink.write(tone(0.2, sink.sample_rate, 440 + 110 * n))
                    starts.append(begin)
                    await the.until(lambda: sink.played() >= begin + int(0.2 * sink.sample_rate))  # noqa: B023
                    await the.passes(0.13 + 0.05 * n)
            said = [sink.audible_at(position) for position in starts]
        stretches = loud(heard.audio[:, 0])
        assert len(stretches) == 5
        for n, (begin, end) in enumerate(stretches):
            assert end - begin == pytest.approx(0.2, abs=0.015)
            assert pitch(heard.audio[int((begin + 0.02) * RATE) : int((end - 0.02) * RATE), 0], RATE) == pytest.approx(
                440 + 110 * n, abs=8
            )
        # Two clocks with an unknown offset: the offset must be the same for every tone.
        offsets = [begin - at for (begin, _), at in zip(stretches, said, strict=True) if at is not None]
        assert len(offsets) == 5
        assert max(offsets) - min(offsets) < 0.020

    steady(scene)


def test_what_is_said_arrives_in_unbroken_blocks(rig: Rig) -> None:
    async def scene() -> None:
        async with bench(plain()) as the:
            since = len(the.blocks)
            await asyncio.to_thread(rig.say(tone(1.0, 22_050, 700), 22_050).wait)
            await the.passes(0.3)
            sound = the.sound(since)
            assert len(loud(sound, 16_000)) == 1
            begin, end = longest(loud(sound, 16_000))
            assert end - begin == pytest.approx(1.0, abs=0.02)
            assert pitch(sound[int((begin + 0.1) * 16_000) : int((end - 0.1) * 16_000)], 16_000) == pytest.approx(
                700, abs=3
            )
            starts = [block.start for block in the.blocks]
            assert np.all(np.diff(starts) % 512 == 0) or the.station.microphone.overruns
            instants = np.array([block.captured_at for block in the.blocks])
            assert np.all(np.diff(instants) > 0.02)
            assert all(block.samples.dtype == np.float32 and len(block.samples) == 512 for block in the.blocks)
            assert the.clock.now() - instants[-1] < 0.25

    steady(scene)


def test_muted_nothing_leaves_the_callback_and_positions_keep_step(rig: Rig) -> None:
    async def scene() -> None:
        async with bench(plain()) as the:
            the.station.microphone.mute(True)
            await asyncio.to_thread(rig.say(tone(0.1, RATE, level=0.0), RATE).wait)
            before = len(the.blocks)
            sound = np.concatenate((tone(0.4, RATE), tone(0.3, RATE, level=0.0)))
            await asyncio.to_thread(rig.say(sound, RATE).wait)
            assert len(the.blocks) == before
            assert not the.station.microphone._captured
            the.station.microphone.mute(False)
            await the.until(lambda: len(the.blocks) > before + 3)
            gap = the.blocks[before].start - the.blocks[before - 1].start
            instants = the.blocks[before].captured_at - the.blocks[before - 1].captured_at
            assert gap / 16_000 == pytest.approx(instants, abs=0.03)
            assert gap > 0.4 * 16_000
            assert not loud(the.sound(before), 16_000)

    steady(scene)


def test_a_microphone_unplugged_and_plugged_in_again_goes_on(rig: Rig) -> None:
    async def scene() -> None:
        async with bench(plain()) as the:
            for _ in range(2):
                rig.unplug()
                await asyncio.to_thread(rig.passes, 0.5)
                rig.plug_in()
                since = len(the.blocks)
                voice = rig.say(tone(3.0, RATE, 600), RATE)
                took = await the.until(lambda: bool(loud(the.sound(since), 16_000)), 3.0)  # noqa: B023
                voice.kill()
                voice.wait()
                assert took < 3.0
                await the.passes(0.3)
            starts = np.array([block.start for block in the.blocks])
            assert np.all(np.diff(starts) > 0)

    steady(scene)


def test_a_sound_server_that_dies_is_noticed_and_the_answer_goes_on_when_it_is_back(rig: Rig) -> None:
    async def scene() -> None:
        async with bench() as the:
            sink = the.station.sink
            player = Player(sink, the.clock)
            player.begin(1)
            player.play(Spoken(tone(3.0, sink.sample_rate), sink.sample_rate, "one two three four five six"), 27)
            player.end()
            await the.passes(0.4)
            died = the.clock.now()
            await asyncio.to_thread(rig.kill)
            try:
                await the.until(lambda: "lost" in the.statuses("input") and "lost" in the.statuses("output"), 3.0)
                noticed = max(event.at for event in the.events if event.status == "lost")
                assert noticed - died < 1.0
                held = sink.played()
                # It has looked for both several times in vain.
                await the.until(lambda: all("waiting" in the.statuses(role) for role in ("input", "output")), 6.0)
                assert sink.played() - held < 0.05 * sink.sample_rate
                assert player.active
            finally:
                await asyncio.to_thread(rig.start)
            since = len(the.blocks)
            took = await the.until(lambda: len(the.blocks) > since + 5 and sink.lost_since is None, 5.0)
            assert took < 3.0
            await the.until(lambda: not player.active, 6.0)
            assert player.spoken == "one two three four five six"
            assert player.starvation_ms < 5  # a device that was away is not the voice's fault
            assert the.statuses("input")[-1] == "open"

    steady(scene)


def test_without_a_microphone_it_says_so_and_waits_for_one(rig: Rig) -> None:
    async def scene() -> None:
        rig.kill()
        try:
            async with bench(wait=False) as the:
                await the.until(lambda: "waiting" in the.statuses("input"), 3.0)
                assert the.blocks == []
                await asyncio.to_thread(rig.start)
                assert await the.until(lambda: len(the.blocks) > 3, 5.0) < 3.0
                assert the.statuses("input")[-1] == "open"
        finally:
            if not rig.running:
                rig.start()

    steady(scene)


def test_a_cut_answer_is_silent_within_200_ms_and_nothing_stale_follows(rig: Rig) -> None:
    async def scene() -> None:
        delays = []
        async with bench(plain()) as the:
            sink = the.station.sink
            cuts = []
            with rig.hear() as heard:
                for n in range(6):
                    begin = sink.write(tone(2.0, sink.sample_rate))
                    await the.until(lambda: sink.audible_at(begin) is not None)  # noqa: B023
                    await the.passes(0.1 + 0.037 * n)
                    at = the.clock.now()
                    end = sink.flush()
                    first = sink.audible_at(begin)
                    assert first is not None
                    cuts.append((at - first, (end - begin) / sink.sample_rate))
                    await the.passes(0.3)
                    assert sink.played() == end
        stretches = loud(heard.audio[:, 0])
        assert len(stretches) == 6  # one a cut and nothing behind it
        for (begin, end), (cut, heard_s) in zip(stretches, cuts, strict=True):
            delays.append((end - begin - cut) * 1000)
            assert end - begin == pytest.approx(heard_s, abs=0.06)  # what it says was heard is what was recorded
        assert np.percentile(delays, 95) < 200
        print(f"flush to silence ms: median {np.median(delays):.0f}, most {max(delays):.0f}")

    steady(scene)


def test_paused_it_is_silent_and_resumes_where_it_stopped(rig: Rig) -> None:
    async def scene() -> None:
        async with bench(plain()) as the:
            sink = the.station.sink
            with rig.hear() as heard:
                begin = sink.write(tone(1.0, sink.sample_rate))
                await the.until(lambda: sink.played() > begin + 0.3 * sink.sample_rate)
                sink.pause(True)
                await the.passes(0.5)
                held = sink.played()
                sink.pause(False)
                await the.until(lambda: sink.played() == begin + sink.sample_rate)
                await the.passes(0.1)
        stretches = loud(heard.audio[:, 0])
        assert len(stretches) == 2
        (a, b), (c, d) = stretches
        assert b - a == pytest.approx((held - begin) / sink.sample_rate, abs=0.03)
        assert (b - a) + (d - c) == pytest.approx(1.0, abs=0.03)
        assert c - b > 0.35

    steady(scene)


def test_two_stations_do_not_hear_each_other(rig: Rig) -> None:
    async def scene() -> None:
        async with bench(plain()) as counter, bench(plain("room_mic", "room_spk")) as room:
            marks = len(counter.blocks), len(room.blocks)
            voices = rig.say(tone(0.6, RATE, 500), RATE, "micfeed"), rig.say(tone(0.6, RATE, 900), RATE, "micfeed2")
            with rig.hear("spk.monitor") as left, rig.hear("spk2.monitor") as right:
                for the, hz in ((counter, 300.0), (room, 1_200.0)):
                    the.station.sink.write(tone(0.4, the.station.sink.sample_rate, hz))
                await counter.passes(0.8)
            for voice in voices:
                voice.wait()
            for the, since, hz in ((counter, marks[0], 500), (room, marks[1], 900)):
                assert loud(the.sound(since), 16_000)
                assert pitch(the.sound(since), 16_000) == pytest.approx(hz, abs=8)
            for heard, hz in ((left, 300), (right, 1_200)):
                assert loud(heard.audio[:, 0])
                assert pitch(heard.audio[:, 0], RATE) == pytest.approx(hz, abs=8)

    steady(scene)


def test_the_stack_itself_costs_little(rig: Rig) -> None:
    """A dummy that answers the first loud block: microphone's feed to loudspeaker, both in one recording."""

    async def scene() -> None:
        async with bench(plain(latency_ms=DeviceSettings().latency_ms)) as the:
            sink = the.station.sink
            with rig.hear_both() as heard:
                for _ in range(5):
                    since = len(the.blocks)
                    voice = rig.say(tone(0.15, RATE, 800), RATE)
                    await the.until(lambda: bool(loud(the.sound(since), 16_000)))  # noqa: B023
                    sink.write(tone(0.15, sink.sample_rate, 500))
                    voice.wait()
                    await the.passes(0.4)
        asked, answered = (loud(heard.audio[:, side]) for side in (0, 1))
        assert len(asked) == len(answered) == 5
        delays = [(b[0] - a[0]) * 1000 for a, b in zip(asked, answered, strict=True)]
        print(f"feed to speaker ms: median {np.median(delays):.0f}, most {max(delays):.0f}")
        assert np.median(delays) < 250

    steady(scene)
