"""The parts of the audio room that need no device: rings, clocks, levels, echo decisions, wake gate, choice."""

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.audio.catalog import DeviceInfo, choose
from appliance.audio.levels import LevelSettings, LevelWatch, dbfs, first_audible
from appliance.audio.ports import Block
from appliance.audio.ring import History, Ring
from appliance.audio.timeline import ClockOffset, StreamClock
from appliance.audio.wakeword import WakeSettings, WakeSource, WakeWord
from appliance.errors import ConfigError

# --- ring -------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 70)), max_size=60))
def test_ring_gives_back_in_order_what_it_took(steps: list[tuple[bool, int]]) -> None:
    ring, sent, got = Ring(64), 0, 0
    for push, count in steps:
        if push:
            sent += ring.push(np.arange(sent, sent + count, dtype=np.float32))
        else:
            out = np.full(count, -1, np.float32)
            n = ring.pop(out)
            assert np.array_equal(out[:n], np.arange(got, got + n, dtype=np.float32))
            got += n
        assert 0 <= ring.available == sent - got <= 64


def test_ring_refuses_the_newest_when_full() -> None:
    ring = Ring(10)
    assert ring.push(np.ones(8, np.float32)) == 8
    assert ring.push(np.ones(8, np.float32)) == 2


def test_ring_never_gives_samples_behind_a_limit() -> None:
    ring = Ring(100)
    ring.push(np.ones(50, np.float32))
    out = np.zeros(40, np.float32)
    assert ring.pop(out, 30) == 30
    assert ring.pop(out, 30) == 0
    assert ring.pop(out) == 20


def test_rewind_leaves_a_running_consumer_its_period_and_fades() -> None:
    ring = Ring(1000)
    ring.push(np.ones(800, np.float32))
    ring.pop(np.zeros(100, np.float32))
    assert ring.rewind(110, fade=10, spare=64) == 164
    out = np.zeros(500, np.float32)
    assert ring.pop(out) == 64
    assert np.all(out[:54] == 1)
    assert out[63] == 0
    assert ring.push(np.ones(10, np.float32)) == 10


def test_history_keeps_the_newest_and_is_silent_elsewhere() -> None:
    history = History(10)
    for n in range(5):
        history.write(np.full(4, n + 1, np.float32))
    assert history.read(12, 8).tolist() == [4, 4, 4, 4, 5, 5, 5, 5]
    assert history.read(8, 4).tolist() == [0, 0, 3, 3]  # the first two were overwritten
    assert history.read(18, 4).tolist() == [5, 5, 0, 0]  # the last two are not known yet


# --- clock ------------------------------------------------------------------------------------------------


def test_stream_clock_averages_jitter_and_follows_drift() -> None:
    rng = np.random.default_rng(0)
    clock = StreamClock(48_000)
    errors = []
    for n in range(6000):  # a minute; the device runs 200 ppm fast
        true = 10.0 + n * 480 / (48_000 * 1.0002)
        clock.feed(n * 480, true + rng.uniform(-0.006, 0.006))
        errors.append((clock.instant(n * 480) or 0.0) - true)
    assert max(abs(error) for error in errors[500:]) < 0.0025
    frame = clock.frame(clock.instant(123_456) or 0.0)
    assert frame == pytest.approx(123_456, abs=0.01)


def test_stream_clock_believes_an_interruption_that_two_stamps_agree_on() -> None:
    clock = StreamClock(1000, jump_s=0.04)
    assert clock.feed(0, 5.0)
    assert not clock.feed(10, 5.011)
    assert not clock.feed(20, 5.5)
    assert clock.feed(30, 5.51)
    assert clock.instant(30) == 5.51


def test_stream_clock_passes_over_a_single_late_callback() -> None:
    clock = StreamClock(1000, jump_s=0.04)
    for n in range(20):
        assert clock.feed(n * 10, 5.0 + n * 0.01 + (0.1 if n % 5 == 4 else 0.0)) == (n == 0)
    assert clock.instant(200) == pytest.approx(5.2)


# --- levels -----------------------------------------------------------------------------------------------


def test_levels_are_relative_to_full_scale() -> None:
    assert dbfs(np.ones(100, np.float32)) == pytest.approx(0, abs=1e-6)
    assert dbfs(np.full(100, 0.1, np.float32)) == pytest.approx(-20, abs=1e-3)
    assert dbfs(np.zeros(100, np.float32)) == -120
    assert dbfs(np.zeros(0, np.float32)) == -120
    assert first_audible(np.array([0, 0.001, -0.01, 1], np.float32)) == 2
    assert first_audible(np.zeros(9, np.float32)) is None


def test_a_nearly_silent_and_a_clipping_microphone_are_told_once_each() -> None:
    watch = LevelWatch(LevelSettings(nearly_silent_after_s=1.0))
    quiet, speech = np.full(512, 1e-5, np.float32), np.full(512, 0.1, np.float32)
    told = [watch.feed(quiet) for _ in range(100)]
    assert [word for word in told if word] == ["silent"]
    assert watch.feed(speech) == "ok"
    told = [watch.feed(np.ones(512, np.float32)) for _ in range(40)]
    assert [word for word in told if word] == ["clipping"]
    told = [watch.feed(speech) for _ in range(80)]
    assert [word for word in told if word] == ["ok"]


# --- choice -----------------------------------------------------------------------------------------------


def device(index: int, name: str, ins: int = 1, outs: int = 0, **marks: bool) -> DeviceInfo:
    return DeviceInfo(index, name, "ALSA", ins, outs, 48_000, **marks)


def test_a_device_keeps_its_name_when_its_card_number_changes() -> None:
    before = [device(0, "HDA Intel: ALC (hw:0,0)"), device(1, "USB Mic: Audio (hw:1,0)", default_input=True)]
    after = [device(0, "USB Mic: Audio (hw:2,0)"), device(1, "HDA Intel: ALC (hw:0,0)", default_input=True)]
    name = before[1].stable_name
    for devices, index in ((before, 1), (after, 0)):
        found = choose(devices, name, "input")
        assert found is not None
        assert found.index == index


def test_roles_and_parts_of_names() -> None:
    devices = [device(0, "Monitor", 0, 2, default_output=True), device(1, "Jabra Speakerphone", 1, 1), device(2, "Cam")]
    assert choose(devices, "communications", "output") == devices[1]
    assert choose(devices, "default", "output") == devices[0]
    assert choose(devices, "default", "input") == devices[1]  # nothing is marked: the first that can
    assert choose(devices, "jabra", "input") == devices[1]
    assert choose(devices, "Monitor", "input") is None
    assert choose([], "default", "input") is None


class Scripted:
    def __init__(self, count: int) -> None:
        self.count = count

    async def blocks(self) -> AsyncIterator[Block]:
        for n in range(self.count):
            yield Block(np.full(512, 0.1, np.float32), n * 512, 10.0 + (n + 1) * 0.032)

    async def close(self) -> None:
        return


class At:
    """A detector that hears the word in its n-th block."""

    def __init__(self, at: int) -> None:
        self.at, self.seen, self.resets = at, 0, 0

    async def heard(self, samples: np.ndarray) -> bool:
        self.seen += 1
        return self.seen == self.at

    def reset(self) -> None:
        self.resets += 1


def test_nothing_passes_before_the_word_nor_the_word_itself() -> None:
    async def scene() -> None:
        changes: list[bool] = []
        gate = WakeSource(
            Scripted(200), At(50), WakeSettings("alexa", follow_up_s=1.6), lambda awake, at: changes.append(awake)
        )
        starts = [block.start // 512 async for block in gate.blocks()]
        assert starts[0] == 50 + 4  # the word's block is the 50th, its rest is guarded for 150 ms
        assert starts[-1] == pytest.approx(99, abs=1)  # 1.6 s later the window closes
        assert changes == [True, False]

    asyncio.run(scene())


def test_a_conversation_holds_the_gate_open_and_leaves_a_window() -> None:
    async def scene() -> None:
        gate = WakeSource(Scripted(300), At(10), WakeSettings("alexa", follow_up_s=1.6))
        starts = []
        async for block in gate.blocks():
            starts.append(block.start // 512)
            if starts[-1] == 20:
                gate.hold(True)
            if starts[-1] == 200:
                gate.hold(False)
        assert starts[-1] == pytest.approx(250, abs=1)

    asyncio.run(scene())


def test_the_talk_key_gives_its_turn_an_end() -> None:
    async def scene() -> None:
        source = WakeSource(Scripted(300), None, WakeSettings(release_tail_s=0.64))
        source.press(True)
        got = []
        async for block in source.blocks():
            got.append((block.start // 512, bool(block.samples.any())))
            if block.start // 512 == 100:
                source.press(False)
        assert all(sound for n, sound in got if n <= 100)
        tail = [n for n, sound in got if not sound]
        assert tail[0] == 101
        assert len(tail) == pytest.approx(20, abs=1)
        assert got[-1][0] == tail[-1]

    asyncio.run(scene())


def test_an_unknown_wake_word_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="hey_you") as caught:
        WakeWord("hey_you")
    assert "okay_nabu" in caught.value.hint


def test_a_callback_that_waits_between_its_readings_does_not_move_the_clock() -> None:
    rng = np.random.default_rng(4)
    offset, seen = ClockOffset(), []
    for n in range(1000):
        theirs = 1.7e9 + n * 0.01
        late = 0.05 if rng.random() < 0.2 else 0.0002
        seen.append(offset.feed(100.0 + n * 0.01 + late, theirs) + theirs - (100.0 + n * 0.01))
    assert max(seen[20:]) < 0.001
