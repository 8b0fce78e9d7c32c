"""Every kind of file that must work, and every kind of fault that must be named in one sentence."""

import os
import struct
import tracemalloc
import wave
from pathlib import Path

import numpy as np
import pytest
import soundfile

from appliance.audio.files import WavWriter, open_audio, write_wav
from appliance.errors import DiskFullError, UsageError


def tone(rate: int, seconds: float = 1.0, hz: float = 440.0) -> np.ndarray:
    return (0.4 * np.sin(2 * np.pi * hz * np.arange(int(rate * seconds)) / rate)).astype(np.float32)


def peak_hz(audio: np.ndarray, rate: int = 16_000) -> float:
    return float(np.abs(np.fft.rfft(audio * np.hanning(len(audio)))).argmax() * rate / len(audio))


@pytest.mark.parametrize("rate", [8_000, 16_000, 22_050, 44_100, 48_000])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize(
    ("kind", "subtype"),
    [
        ("wav", "PCM_16"),
        ("wav", "PCM_24"),
        ("wav", "PCM_32"),
        ("wav", "FLOAT"),
        ("wav", "DOUBLE"),
        ("flac", "PCM_16"),
        ("flac", "PCM_24"),
        ("ogg", "VORBIS"),
        ("ogg", "OPUS"),
    ],
)
def test_every_rate_width_and_coding_is_heard(
    tmp_path: Path, rate: int, channels: int, kind: str, subtype: str
) -> None:
    if subtype == "OPUS" and rate not in (8_000, 16_000, 48_000):
        pytest.skip("Opus knows no such rate")
    path = tmp_path / f"a.{kind}"
    soundfile.write(path, np.repeat(tone(rate)[:, None], channels, axis=1), rate, subtype=subtype)
    file = open_audio(path)
    assert (file.rate, file.channels, file.note) == (rate, channels, "")
    audio = file.read()
    assert audio.dtype == np.float32
    assert abs(len(audio) - 16_000) <= 2
    assert abs(peak_hz(audio) - 440) < 2
    assert 0.37 < np.abs(audio[2000:-2000]).max() < 0.45  # lossy codings ring a little


def test_chunks_join_to_the_same_signal_whatever_their_size(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, tone(44_100, 2.0), 44_100)
    file = open_audio(path)
    pieces = list(file.chunks(512))
    assert {len(piece) for piece in pieces[:-1]} == {512}
    assert np.array_equal(np.concatenate(pieces), np.concatenate(list(file.chunks(7_777))))


def test_faults_name_the_file_in_one_sentence_and_carry_a_hint(tmp_path: Path) -> None:
    (tmp_path / "empty.wav").touch()
    (tmp_path / "text.wav").write_text("not audio at all, but long enough to look at\n" * 20)
    (tmp_path / "noise.raw").write_bytes(os.urandom(4000))
    soundfile.write(tmp_path / "zero.wav", np.zeros(0, dtype=np.float32), 16_000)
    soundfile.write(tmp_path / "zero.flac", np.zeros(0, dtype=np.float32), 16_000)
    bad = tone(16_000)
    bad[9_000] = np.nan
    soundfile.write(tmp_path / "nan.wav", bad, 16_000, subtype="FLOAT")
    bad[9_000] = np.inf
    soundfile.write(tmp_path / "inf.wav", bad, 16_000, subtype="DOUBLE")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe.wav")
    names = ["missing.wav", "folder", "empty.wav", "text.wav", "noise.raw", "pipe.wav"]
    names += ["zero.wav", "zero.flac", "nan.wav", "inf.wav", "text.wav/inside.wav"]
    for name in names:
        with pytest.raises(UsageError) as caught:
            open_audio(tmp_path / name)
        error = caught.value
        assert name in error.message, name
        assert error.message.endswith(".")
        assert "\n" not in error.message
        assert error.hint
        assert error.exit_code == 2


def test_a_header_that_promises_too_much_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.wav", tmp_path / "cut.wav"
    soundfile.write(whole, tone(16_000), 16_000)
    cut.write_bytes(whole.read_bytes()[: 44 + 16_000])
    file = open_audio(cut)
    assert len(file.read()) == 8_000
    assert "16000 bytes shorter" in file.note


@pytest.mark.parametrize("length", [0xFFFFFFFF, 0x7FFFFFFF])
def test_a_header_written_by_a_pipe_is_read_whole(tmp_path: Path, length: int) -> None:
    path = tmp_path / "piped.wav"
    soundfile.write(path, tone(16_000), 16_000)
    data = bytearray(path.read_bytes())
    data[40:44] = struct.pack("<I", length)
    path.write_bytes(data)
    assert len(open_audio(path).read()) == 16_000


def test_a_header_that_promises_less_is_believed(tmp_path: Path) -> None:
    path = tmp_path / "less.wav"
    soundfile.write(path, tone(16_000), 16_000)
    data = bytearray(path.read_bytes())
    data[40:44] = struct.pack("<I", 8_000)
    path.write_bytes(data)
    assert len(open_audio(path).read()) == 4_000


def test_a_flac_damaged_in_the_middle_is_a_named_fault(tmp_path: Path) -> None:
    path = tmp_path / "damaged.flac"
    rng = np.random.default_rng(1)
    soundfile.write(path, rng.normal(0, 0.1, 160_000), 16_000)
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 4_000] = bytes(4_000)
    path.write_bytes(data)
    with pytest.raises(UsageError, match=r"damaged\.flac is damaged near second \d"):
        open_audio(path).read()


def test_three_hours_pass_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "long.wav"
    with soundfile.SoundFile(path, "w", 8_000, 1, "PCM_16") as out:
        for _ in range(3 * 60):
            out.write(np.zeros(8_000 * 60, dtype=np.int16))
    tracemalloc.start()
    samples = sum(len(chunk) for chunk in open_audio(path).chunks(512))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert samples == 3 * 3600 * 16_000
    assert peak < 8 * 2**20


def test_written_wav_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "out.wav"
    assert write_wav(path, [tone(22_050, 0.5), tone(22_050, 0.25)], 22_050) == 16_537
    with wave.open(str(path)) as back:
        assert (back.getframerate(), back.getnchannels(), back.getsampwidth()) == (22_050, 1, 2)
    assert len(open_audio(path).read(22_050)) == 16_537
    assert [p.name for p in tmp_path.iterdir()] == ["out.wav"]


def test_a_failing_write_leaves_the_old_file_and_no_part(tmp_path: Path) -> None:
    path = tmp_path / "out.wav"
    path.write_bytes(b"old")

    def chunks():  # type: ignore[no-untyped-def]
        yield tone(16_000)
        raise RuntimeError("the source of the audio failed")

    with pytest.raises(RuntimeError):
        write_wav(path, chunks(), 16_000)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["out.wav"]


def test_places_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "no" / "such" / "a.wav", tmp_path / "file" / "a.wav"):
        with pytest.raises(UsageError) as caught:
            write_wav(place, [tone(16_000)], 16_000)
        assert str(place) in caught.value.message
        assert caught.value.hint


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.wav"
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    writer = WavWriter(path, 16_000)
    os.dup2(os.open(full, os.O_WRONLY), writer._raw.fileno())  # from here on the disk is full
    with pytest.raises(DiskFullError) as caught:
        writer.write(tone(16_000, 10.0))
    assert str(path) in caught.value.message
    assert not list(tmp_path.iterdir())
