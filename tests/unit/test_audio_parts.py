"""The parts of the audio room that need no device: rings, clocks, levels, echo decisions, wake gate, choice."""

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.audio.catalog import DeviceInfo, choose
from appliance.audio.echo import FRAME, LEAD_S, EchoCanceller, EchoJudge, Reference, ResidualGate
from appliance.audio.levels import LevelSettings, LevelWatch, dbfs, first_audible
from appliance.audio.ports import Block
from appliance.audio.ring import History, Ring
from appliance.audio.settings import EchoSettings
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


# --- echo -------------------------------------------------------------------------------------------------


class Spoke:
    """A loudspeaker that keeps what it played, 44.1 kHz, frame 0 heard at instant 50."""

    def __init__(self, rate: int = 44_100) -> None:
        self.history = History(4 * rate)
        self.history_clock = StreamClock(rate)
        self.history_clock.feed(0, 50.0)


def test_reference_is_what_was_heard_at_the_instant() -> None:
    spoke = Spoke()
    reference = Reference(spoke)
    reference.take(50.0, FRAME)  # the stream is open and silent
    t = np.arange(2 * 44_100) / 44_100
    played = (0.5 * np.sin(2 * np.pi * 500 * t) * (t > 0.5)).astype(np.float32)
    out = []
    for n in range(150):  # written 40 ms ahead of being heard
        at = n * 441
        spoke.history.write(played[at : at + 441])
        if n >= 4:
            out.append(reference.take(50.0 + (n - 4) * 0.01, FRAME))
    sound = np.concatenate(out)
    begin = np.flatnonzero(np.abs(sound) > 0.01)[0] / 16_000
    assert begin == pytest.approx(0.5, abs=0.002)
    expected = 0.5 * np.sin(2 * np.pi * 500 * np.arange(len(sound)) / 16_000)
    inner = slice(int(0.6 * 16_000), int(1.3 * 16_000))
    assert np.abs(sound[inner] - expected[inner]).max() < 0.05


def test_reference_is_exact_again_after_a_long_silence() -> None:
    spoke = Spoke(48_000)
    reference = Reference(spoke)
    rng = np.random.default_rng(2)
    at = 0.0
    for n in range(600):
        loud = n < 50 or n >= 400
        spoke.history.write((rng.standard_normal(480) * 0.1 * loud).astype(np.float32))
        at = 50.0 + n * 0.01
        sound = reference.take(at, FRAME)
        if n in (40, 500):
            assert dbfs(sound) > -30, n
        if n == 300:
            assert not sound.any()


def levels(judge_: EchoJudge, near: float, out: float, seconds: float) -> None:
    for _ in range(int(seconds * 100)):
        judge_.feed(-20.0, near, out)


def test_judge_wants_half_duplex_only_for_a_strong_echo_that_stays() -> None:
    settings_ = EchoSettings()
    judge_ = EchoJudge(settings_)
    levels(judge_, -25, -60, 10)
    assert not judge_.too_strong
    assert judge_.removed_db == pytest.approx(35)
    levels(judge_, -25, -24, 1.5)  # somebody talks over it
    assert not judge_.too_strong
    levels(judge_, -15, -14, 4)
    assert judge_.too_strong


def test_residual_gate_keeps_rests_out_and_voices_in() -> None:
    gate = ResidualGate(10.0)
    assert gate.passes(-20, -30, -30) is False  # the first sounds ever
    assert [gate.passes(-20, -30, -62) for _ in range(300)][-1] is False
    assert [gate.passes(-20, -30, -44) for _ in range(100)][-1] is False  # a lapse of the canceller
    assert gate.passes(-20, -29, -31, unsettled=True) is False  # the delay has changed: all of the echo is back
    assert gate.passes(-20, -18, -18, unsettled=True) is True  # but a voice is louder than it
    for _ in range(30):
        gate.passes(-20, -30, -62)
    assert gate.passes(-20, -24, -25) is True  # a voice over the answer
    assert gate.passes(-20, -30, -60) is True  # between its syllables
    assert gate.passes(-100, -70, -70) is True  # nothing is audible


def test_half_duplex_is_deaf_until_the_tail_is_over() -> None:
    spoke = Spoke(16_000)
    said: list[tuple[str, str, str, str]] = []
    echo = EchoCanceller(EchoSettings(mode="half-duplex", tail_ms=200), spoke, lambda *a: said.append(a))
    near = np.full(FRAME, 0.2, np.float32)
    heard = []
    for n in range(200):
        spoke.history.write(np.full(FRAME, 0.3 if n < 100 else 0.0, np.float32))
        # The microphone runs 50 ms behind what is written, as with a device.
        heard.append(bool(echo.clean(near, 50.0 + (n - 5) * 0.01).any()))
    open_again = heard.index(True, 10)
    assert not any(heard[7:open_again])
    assert (open_again - 5) * 0.01 == pytest.approx(1.0 + 0.2 - LEAD_S, abs=0.03)
    assert all(heard[open_again:])


def test_cleaner_returns_every_sample_in_order_whatever_the_chunks() -> None:
    echo = EchoCanceller(EchoSettings(), Spoke(16_000), lambda *a: None)
    sound = np.arange(5_000, dtype=np.float32) / 5_000
    out, at = [], 0
    for size in (100, 7, 512, 341, 1, 1_000, 3_039):
        out.append(echo.clean(sound[at : at + size], 50.0 + at / 16_000))
        at += size
    joined = np.concatenate(out)
    assert len(joined) == 5_000 - 5_000 % FRAME
    assert np.array_equal(joined, sound[: len(joined)])


def test_webrtc_removes_a_delayed_echo() -> None:
    spoke = Spoke(16_000)
    echo = EchoCanceller(EchoSettings(residual_db=0), spoke, lambda *a: None)
    rng = np.random.default_rng(5)
    shape = np.repeat(rng.uniform(0.02, 0.2, 60), 1_600)
    far = (rng.standard_normal(96_000) * shape).astype(np.float32)
    near = np.concatenate((np.zeros(1_280), far * 0.316)).astype(np.float32)  # -10 dB, 80 ms
    before, after = [], []
    for n in range(600):
        spoke.history.write(far[n * FRAME : (n + 1) * FRAME])
        if n >= 4:
            piece = near[(n - 4) * FRAME : (n - 3) * FRAME]
            out = echo.clean(piece, 50.0 + (n - 4) * 0.01)
            if n > 400:
                before.append(piece)
                after.append(out)
    removed = dbfs(np.concatenate(before)) - dbfs(np.concatenate(after))
    assert removed > 25


# --- wake -------------------------------------------------------------------------------------------------


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
