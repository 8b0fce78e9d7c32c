"""Cancelling echo: the reference, the verdict, the gate, and one real canceller."""

import numpy as np
import pytest

from appliance.audio.echo import FRAME, LEAD_S, EchoCanceller, EchoJudge, Reference, ResidualGate
from appliance.audio.levels import dbfs
from appliance.audio.ring import History
from appliance.audio.settings import EchoSettings
from appliance.audio.timeline import StreamClock


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


def test_judge_finds_the_echo_weak_again_once_it_stays_so() -> None:
    judge_ = EchoJudge(EchoSettings())

    def hear(near: float, seconds: float) -> bool:
        for _ in range(int(seconds * 100)):
            judge_.feed_uncancelled(-20.0, near)
        return judge_.weak_again

    assert not hear(-20, 5)  # as loud as ever
    assert not hear(-62, 2.9)  # a headset was put on, but not for long
    assert hear(-62, 0.3)
    assert not hear(-25, 1.1)  # a person over a quarter of it: better to wait


def test_half_duplex_chosen_by_itself_is_taken_back_by_itself() -> None:
    rng = np.random.default_rng(5)
    spoke = Spoke(16_000)
    said: list[str] = []
    demanding = EchoSettings(strong_echo_dbfs=-60.0, weak_cancelling_db=90.0)
    echo = EchoCanceller(demanding, spoke, lambda *a: said.append(a[2]))
    for n in range(1_600):
        spoke.history.write(rng.uniform(-0.5, 0.5, FRAME).astype(np.float32))
        near = rng.uniform(-0.5, 0.5, FRAME) * (1.0 if n < 800 else 0.0005)  # then a headset is put on
        echo.clean(near.astype(np.float32), 50.0 + (n - 5) * 0.01)
    assert said == ["half-duplex", "full-duplex"]
    assert echo.mode == "cancel"


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
