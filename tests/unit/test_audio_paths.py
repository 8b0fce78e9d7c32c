"""File source, file sink and player on a clock that the tests own."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.audio.files import open_audio, write_wav
from appliance.audio.player import Player
from appliance.audio.ports import Block, Sink, Source
from appliance.audio.sink import FileSink
from appliance.audio.source import FileSource
from appliance.engines.ports import Spoken, Word

RATE = 22_050


class HandClock:
    """Time moves when the test says so, or when a coroutine sleeps."""

    def __init__(self) -> None:
        self.time = 100.0

    def now(self) -> float:
        return self.time

    async def sleep_until(self, instant: float) -> None:
        await asyncio.sleep(0)
        self.time = max(self.time, instant)


def tone(seconds: float, rate: int = RATE) -> np.ndarray:
    return (0.3 * np.sin(2 * np.pi * 300 * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def spoken(text: str, seconds: float, *, words: tuple[Word, ...] = (), last: bool = True) -> Spoken:
    return Spoken(tone(seconds), RATE, text, words, last)


async def collect(source: FileSource) -> list[Block]:
    return [block async for block in source.blocks()]


# --- source -----------------------------------------------------------------------------------------------


def test_paced_blocks_are_stamped_by_the_sample_count_not_by_the_wake_up() -> None:
    class Late(HandClock):
        async def sleep_until(self, instant: float) -> None:
            await super().sleep_until(instant + 0.007)  # every wake-up is late

    async def scene() -> None:
        clock = Late()
        source = FileSource([tone(1.0, 16_000)], clock, gap_ms=0)
        source.end()
        blocks = await collect(source)
        assert [b.start for b in blocks] == [512 * n for n in range(32)]
        for block in blocks:
            assert block.captured_at == pytest.approx(100.0 + (block.start + 512) / 16_000, abs=1e-9)
            assert len(block.samples) == 512
        assert source.said[0].start == 0
        assert source.said[0].end == 16_000

    asyncio.run(scene())


def test_paced_source_is_silent_between_utterances_until_the_end() -> None:
    async def scene() -> None:
        source: Source = FileSource([], HandClock())
        assert isinstance(source, FileSource)
        task = asyncio.create_task(collect(source))
        for _ in range(50):
            await asyncio.sleep(0)
        source.say(tone(0.5, 16_000), after_ms=320, name="q")
        await source.drained()
        source.end()
        blocks = await task
        said = source.said[0]
        sound = np.concatenate([b.samples for b in blocks])
        assert not sound[: said.start].any()
        assert np.array_equal(sound[said.start : said.end], tone(0.5, 16_000))
        assert not sound[said.end :].any()

    asyncio.run(scene())


def test_unpaced_source_waits_instead_of_spinning() -> None:
    async def scene() -> None:
        source = FileSource([tone(0.2, 16_000)], HandClock(), pace=False, gap_ms=0)
        got: list[Block] = []

        async def listen() -> None:
            async for block in source.blocks():
                got.append(block)

        task = asyncio.create_task(listen())
        await source.drained()
        for _ in range(200):
            await asyncio.sleep(0)
        assert len(got) == 7  # 0.2 s in whole blocks and nothing more
        source.silence(64)
        await source.drained()
        assert len(got) == 9
        source.end()
        await task
        assert got[-1].start == 8 * 512

    asyncio.run(scene())


def test_close_ends_a_source_in_the_middle_of_a_file(tmp_path: Path) -> None:
    write_wav(tmp_path / "q.wav", [tone(30.0, 44_100)], 44_100)

    async def scene() -> None:
        source = FileSource([open_audio(tmp_path / "q.wav")], HandClock())
        task = asyncio.create_task(collect(source))
        for _ in range(40):
            await asyncio.sleep(0)
        await source.close()
        assert len(await task) < 60
        await source.drained()

    asyncio.run(scene())


# --- sink -------------------------------------------------------------------------------------------------


def test_sink_knows_what_would_have_been_heard_when() -> None:
    clock = HandClock()
    sink = FileSink(1000, clock)
    port: Sink = sink
    assert port.write(np.ones(500, np.float32)) == 0
    assert port.played() == 0
    clock.time += 0.2
    assert sink.played() == 200
    assert sink.audible_at(199) == pytest.approx(100.199)
    assert sink.audible_at(200) is None
    clock.time += 1.0  # dry since 100.5
    assert sink.played() == 500
    assert sink.write(np.ones(100, np.float32)) == 500
    clock.time += 0.05
    assert sink.audible_at(499) == pytest.approx(100.499)
    assert sink.audible_at(500) == pytest.approx(101.2)


def test_pause_holds_and_resume_goes_on_from_there() -> None:
    clock = HandClock()
    sink = FileSink(1000, clock)
    sink.write(np.ones(500, np.float32))
    clock.time += 0.2
    sink.pause(True)
    clock.time += 5.0
    assert 200 <= sink.played() <= 210
    held = sink.played()
    sink.write(np.ones(50, np.float32))
    sink.pause(False)
    clock.time += 0.1
    assert sink.played() == held + 100
    assert sink.audible_at(held) == pytest.approx(105.2)


def test_flush_drops_what_was_not_heard_and_writing_goes_on_from_there() -> None:
    clock = HandClock()
    sink = FileSink(1000, clock)
    sink.write(np.ones(500, np.float32))
    clock.time += 0.2
    position = sink.flush()
    assert 200 <= position <= 210
    clock.time += 1.0
    assert sink.played() == position
    assert sink.write(np.ones(10, np.float32)) == position
    clock.time += 1.0
    assert sink.played() == position + 10
    assert sink.audible_at(position) == pytest.approx(101.2)


def test_unpaced_sink_hears_at_once() -> None:
    sink = FileSink(1000, HandClock(), paced=False)
    sink.write(np.ones(5000, np.float32))
    assert sink.played() == 5000
    assert sink.audible_at(4999) == 100.0


def test_rendering_keeps_gaps_inside_an_answer_and_shortens_those_between(tmp_path: Path) -> None:
    clock = HandClock()
    sink = FileSink(1000, clock, out=tmp_path / "o.wav")
    sink.next_answer()
    sink.write(np.full(300, 0.5, np.float32))
    clock.time += 1.3  # 1.0 s dry inside the answer
    sink.write(np.full(200, 0.5, np.float32))
    clock.time += 30.0
    sink.next_answer()
    sink.write(np.full(400, 0.25, np.float32))
    clock.time += 0.1
    sink.flush()
    clock.time += 1.0
    sink.close()
    audio = open_audio(tmp_path / "o.wav").read(1000)
    expected = [(300, 0.5), (1000, 0.0), (200, 0.5), (500, 0.0), (100, 0.25)]
    at = 0
    for samples, level in expected:
        assert np.allclose(audio[at + 6 : at + samples - 6], level, atol=1e-3), (at, level)
        at += samples
    assert at <= len(audio) <= at + 6


def test_a_cut_in_the_rendering_fades_instead_of_clicking(tmp_path: Path) -> None:
    clock = HandClock()
    sink = FileSink(16_000, clock, out=tmp_path / "o.wav")
    sink.write(np.full(16_000, 0.5, np.float32))
    clock.time += 0.5
    sink.flush()
    clock.time += 0.1
    sink.close()
    audio = open_audio(tmp_path / "o.wav").read()
    assert np.abs(np.diff(audio)).max() < 0.02
    assert abs(audio[-1]) < 0.02


# --- player -----------------------------------------------------------------------------------------------


def answer(clock: HandClock, sink_rate: int = RATE) -> tuple[Player, FileSink]:
    sink = FileSink(sink_rate, clock)
    player = Player(sink, clock)
    player.begin(1)
    return player, sink


def test_first_audible_skips_the_near_silence_a_synthesizer_begins_with() -> None:
    async def scene() -> None:
        clock = HandClock()
        player, _ = answer(clock)
        quiet = np.full(RATE // 4, 0.001, np.float32)
        player.play(Spoken(np.concatenate((quiet, tone(1.0))), RATE, "Hello there."), 12)
        assert player.first_audible_at is None
        at = await player.started()
        assert at == pytest.approx(100.25, abs=0.002)
        await player.drained()
        assert not player.active or player.turn == 1
        assert player.played_ms == pytest.approx(1250, abs=1)

    asyncio.run(scene())


def test_starvation_is_the_dry_time_between_clauses_without_pauses() -> None:
    clock = HandClock()
    player, _ = answer(clock)
    player.play(spoken("One two.", 1.0), 8)
    player.play(spoken("Three four.", 1.0), 20)
    clock.time += 2.25
    player.play(spoken("Five.", 1.0), 26)
    clock.time += 0.2
    assert player.starvation_ms == pytest.approx(250, abs=2)
    player.pause()
    clock.time += 3.0
    player.resume()
    player.play(spoken("Six.", 1.0), 31)
    clock.time += 1.5
    assert player.starvation_ms == pytest.approx(250, abs=2)
    assert player.spoken.startswith("One two. Three four. Five.")


def test_word_times_decide_what_was_heard() -> None:
    clock = HandClock()
    player, _ = answer(clock)
    words = (Word("It", 0.1, 0.2), Word("is", 0.2, 0.3), Word("half", 1.0, 1.4), Word("past", 1.4, 2.0))
    player.play(spoken("It is half past,", 2.1, words=words), 16)
    clock.time += 0.6
    assert player.spoken == "It is"
    assert player.heard_chars == 5
    clock.time += 0.5
    assert player.spoken == "It is"  # less than half of "half"
    clock.time += 0.2
    assert player.spoken == "It is half"
    clock.time += 0.8
    assert player.spoken == "It is half past,"
    assert player.heard_chars == 16


def test_a_rewritten_clause_scales_to_the_reply_and_is_exact_at_its_end() -> None:
    clock = HandClock()
    player, _ = answer(clock)
    player.play(spoken("three dollars and fifty cents,", 2.0), len("$3.50,"))
    player.play(spoken("right?", 0.5), len("$3.50, right?"))
    clock.time += 1.2
    assert player.spoken == "three dollars and"
    assert 0 < player.heard_chars < 6
    clock.time += 0.81
    assert player.heard_chars == 6


def test_pieces_of_a_clause_are_one_text() -> None:
    clock = HandClock()
    player, _ = answer(clock)
    player.play(spoken("one two three four", 0.5, last=False), 18)
    clock.time += 0.6
    assert player.spoken != "one two three four"  # more audio of it is to come
    player.play(spoken("", 0.7), 18)
    clock.time += 0.8
    assert player.spoken == "one two three four"


def test_stop_reports_what_was_heard_and_nothing_stale_follows() -> None:
    clock = HandClock()
    player, sink = answer(clock)
    player.play(spoken("one two three four five six seven eight", 2.0), 39)
    clock.time += 1.0
    player.pause()
    clock.time += 0.5
    cut = player.stop()
    assert cut.spoken == "one two three four"
    assert cut.heard_chars == 18
    assert cut.played_ms == pytest.approx(1005, abs=3)
    player.play(spoken("nine ten", 1.0), 48)
    clock.time += 9.0
    assert player.stop() is cut
    assert not player.active
    assert player.spoken == cut.spoken
    before = sink.played()
    player.begin(2)
    player.play(spoken("again", 1.0), 5)
    clock.time += 0.5
    assert sink.played() > before  # the pause did not outlive the answer
    assert player.starvation_ms == 0


def test_resampling_joins_pieces_and_keeps_the_duration() -> None:
    clock = HandClock()
    player, sink = answer(clock, sink_rate=48_000)
    for index in range(10):
        player.play(spoken("word", 0.1, last=index == 9), 4)
    clock.time += 2.0
    assert sink.played() == pytest.approx(48_000, abs=48)


def test_runs_dry_is_the_deadline_of_the_next_clause() -> None:
    clock = HandClock()
    player, _ = answer(clock)
    assert player.runs_dry_at == 100.0
    player.play(spoken("a", 2.0), 1)
    clock.time += 0.5
    assert player.runs_dry_at == pytest.approx(102.0, abs=1e-3)
    clock.time += 9
    assert player.runs_dry_at == clock.time


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 4000)),
        st.tuples(st.just("wait"), st.integers(1, 5000)),
        st.tuples(st.just("pause"), st.booleans()),
        st.tuples(st.just("flush"), st.none()),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_whatever_happens_the_ledger_stays_consistent(steps: list[tuple[str, Any]]) -> None:
    """Played never goes back but to a flush's answer, never beyond what was written; instants never go back."""
    clock = HandClock()
    sink = FileSink(1000, clock)
    written = floor = 0
    for step, value in steps:
        if step == "write":
            assert sink.write(np.ones(value, np.float32)) == written
            written += value
        elif step == "wait":
            clock.time += value / 1000
        elif step == "pause":
            sink.pause(value)
        else:
            written = sink.flush()
            assert written >= floor
            clock.time += 0.01
            floor = 0
        played = sink.played()
        assert floor <= played <= written
        floor = played
        instants = [sink.audible_at(p) for p in range(0, played, max(1, played // 7))]
        assert None not in instants
        assert instants == sorted(instants)  # type: ignore[type-var]
        assert all(at <= clock.time + 0.006 for at in instants if at is not None)
    sink.pause(False)
    clock.time += 1000.0
    assert sink.played() == written
