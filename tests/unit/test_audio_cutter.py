"""A microphone's way to blocks: whole callbacks, positions and instants, whatever is held back on the way."""

import numpy as np
import pytest

from appliance.audio.catalog import own_rate
from appliance.audio.cutter import BlockCutter
from appliance.audio.levels import LevelWatch
from appliance.audio.microphone import whole, whole_blocks
from appliance.audio.timeline import StreamClock
from appliance.engines.ports import BLOCK, RATE, Audio

FRAME = RATE // 100


class Framing:
    """A cleaner that gives back whole frames of 10 ms, as the canceller does."""

    def __init__(self) -> None:
        self.held: Audio = np.zeros(0, dtype=np.float32)

    def clean(self, audio: Audio, instant: float) -> Audio:
        self.held = np.concatenate((self.held, audio))
        whole_frames = len(self.held) // FRAME * FRAME
        ready, self.held = self.held[:whole_frames], self.held[whole_frames:]
        return ready

    def restart(self) -> None:
        self.held = self.held[:0]


@pytest.mark.parametrize(("cleaner", "late_ms"), [(None, 2.0), (Framing, 13.0)], ids=["plain", "framed"])
@pytest.mark.parametrize("rate", [16_000, 48_000, 96_000])
def test_every_callback_of_a_block_ends_a_block(rate: int, cleaner: type[Framing] | None, late_ms: float) -> None:
    frames = whole_blocks(rate)
    assert frames == rate * BLOCK // RATE
    ramp = np.arange(60 * frames, dtype=np.float32) / rate / 4  # every sample says its own time, s / 4
    clock, cutter = StreamClock(rate), BlockCutter(cleaner and cleaner(), LevelWatch(None))
    before = None
    for number in range(60):
        first = number * frames
        clock.feed(first, 100.0 + first / rate)
        blocks = cutter.feed(ramp[first : first + frames], first, clock)
        end = 100.0 + (first + frames) / rate
        assert len(blocks) == 1 or number == 0
        for block in blocks:
            assert (end - block.captured_at) * 1000 < late_ms
            assert 4 * float(block.samples[-1]) == pytest.approx(block.captured_at - 100.0 - 1 / RATE, abs=5e-4)
            assert before is None or block.start == before + BLOCK
            before = block.start


def test_chunks_of_any_length_lose_nothing_behind_the_first() -> None:
    rng = np.random.default_rng(3)
    clock, cutter = StreamClock(48_000), BlockCutter(Framing(), LevelWatch(None))
    sound = rng.uniform(-0.5, 0.5, 48_000 * 3).astype(np.float32)
    clock.feed(0, 0.0)
    blocks, at = [], 0
    while at < len(sound):
        count = int(rng.integers(1, 3_000))
        blocks += cutter.feed(sound[at : at + count], at, clock)
        at += count
    starts = [block.start for block in blocks]
    assert np.all(np.diff(starts) == BLOCK)
    assert starts[0] < BLOCK
    assert len(blocks) * BLOCK / RATE > 3.0 - 0.032 - 0.032 - 0.012


def test_a_rate_without_whole_blocks_keeps_the_devices_own_period() -> None:
    assert whole_blocks(44_100) == 0
    assert whole_blocks(8_000) == 256


def test_what_alsa_is_said_to_run_at_is_only_portaudios_favourite() -> None:
    assert own_rate("ALSA", 44_100) == 48_000
    assert own_rate("ALSA", 16_000) == 16_000
    assert own_rate("Core Audio", 44_100) == 44_100


def test_a_wait_for_sound_ends_behind_a_callback() -> None:
    assert whole(0.032, 0.01) == pytest.approx(0.04)
    assert whole(0.02, 0.01) == pytest.approx(0.02)
    assert whole(0.003, 0.032) == pytest.approx(0.032)
    assert whole(0.02, 0.0) == 0.02
