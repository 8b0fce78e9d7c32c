"""The doctor's ears: which devices there are, and what a sweep sounds like on its way from speaker to microphone.

Owns the measurement and the advice that follows from it; `judge` is pure. Opens the station's own devices with
the same code that will run later, so that what is measured is what will be used. Knows nothing of the rest of
the doctor: it returns findings.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np

from appliance.audio.catalog import DeviceInfo, choose, list_devices
from appliance.audio.host import AudioHost
from appliance.audio.levels import SILENCE_DBFS, dbfs
from appliance.audio.microphone import DeviceSource
from appliance.audio.resample import resample
from appliance.audio.settings import StationSettings
from appliance.audio.speaker import DeviceSink
from appliance.clock import MonotonicClock
from appliance.engines.ports import BLOCK, RATE, Audio
from appliance.errors import ApplianceError

_SWEEP_S = 1.0
_SWEEP_HZ = (150.0, 6_500.0)
_SWEEP_PEAK = 0.25  # -12 dBFS: loud enough to measure, soft enough for a night
_NOISE_S = 1.0
_SEARCH_S = 0.6  # the longest delay looked for


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor. `status`: ok, warn or fail; a fail or warn has a hint."""

    name: str
    status: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Loopback:
    """What the sweep told. Delays count from the instant a sample is heard to the one it is captured."""

    heard: bool
    delay_ms: float = 0.0  # speaker to microphone by the devices' own stamps
    round_trip_ms: float = 0.0  # from writing a sample to holding it captured
    echo_return_loss_db: float = 0.0  # played level minus captured level
    noise_dbfs: float = SILENCE_DBFS
    sweep_dbfs: float = SILENCE_DBFS
    clipped: bool = False
    underruns: int = 0

    @property
    def advice(self) -> str:
        """The echo mode for the config: off, cancel or half-duplex."""
        if not self.heard:
            return "off"
        if self.clipped or self.echo_return_loss_db < 0 or self.delay_ms > 400:
            return "half-duplex"
        return "cancel"


def check_audio(station: StationSettings, *, loopback: bool = True) -> tuple[list[Finding], Loopback | None]:
    """Everything the doctor can say about sound, never an exception for a broken machine.

    `loopback` plays an audible sweep for a second. The second value, where measured, has the delay and the
    advice for the config (`audio.delay_ms`, `echo.mode`).
    """
    try:
        devices = list_devices()
    except ApplianceError as error:
        return [Finding("audio", "fail", error.message, error.hint)], None
    findings = [_device_finding(devices, "input", station.input.device)]
    findings.append(_device_finding(devices, "output", station.output.device))
    if not loopback or any(finding.status == "fail" for finding in findings):
        return findings, None
    try:
        result = asyncio.run(measure(station))
    except ApplianceError as error:
        return [*findings, Finding("loopback", "fail", error.message, error.hint)], None
    return findings + judge(result), result


def describe(devices: list[DeviceInfo]) -> list[str]:
    """One line a device: what the doctor and the set-up print."""
    lines = []
    for device in devices:
        ends = [f"{device.channels(kind)} {kind}" for kind in ("input", "output") if device.channels(kind)]
        marks = [kind for kind, on in (("input", device.default_input), ("output", device.default_output)) if on]
        default = f" (default {' and '.join(marks)})" if marks else ""
        lines.append(f"{device.stable_name}: {device.rate} Hz, {', '.join(ends)}, {device.host}{default}")
    return lines


def judge(result: Loopback) -> list[Finding]:
    """What the measurement means, in words. Pure."""
    findings = []
    if result.noise_dbfs <= -100:
        findings.append(
            Finding(
                "microphone",
                "warn",
                "The microphone delivers digital silence.",
                "It is muted or its volume is 0: look at alsamixer or pavucontrol.",
            )
        )
    elif result.noise_dbfs > -40:
        findings.append(
            Finding(
                "microphone",
                "warn",
                f"The room is loud at the microphone: {result.noise_dbfs:.0f} dBFS of noise.",
                "Lower the microphone's gain, or set echo.noise_suppression = true.",
            )
        )
    else:
        findings.append(Finding("microphone", "ok", f"Noise floor {result.noise_dbfs:.0f} dBFS."))
    if result.underruns:
        findings.append(
            Finding(
                "speaker",
                "warn",
                f"The speaker ran out of samples {result.underruns} times in two seconds.",
                "Raise latency_ms of the station's output.",
            )
        )
    if not result.heard:
        findings.append(
            Finding("echo", "ok", "The microphone does not hear the speaker: no echo to cancel (or one is muted).")
        )
        return findings
    if result.clipped:
        findings.append(
            Finding(
                "echo",
                "warn",
                "The speaker drives the microphone into clipping; an echo that clips cannot be cancelled.",
                'Lower either volume, or set echo.mode = "half-duplex".',
            )
        )
    measured = (
        f"Speaker to microphone {result.delay_ms:.0f} ms, round trip {result.round_trip_ms:.0f} ms, "
        f"echo return loss {result.echo_return_loss_db:.0f} dB."
    )
    if result.advice == "half-duplex" and not result.clipped:
        findings.append(Finding("echo", "warn", measured + " That is too much echo.", 'Set echo.mode = "half-duplex".'))
    else:
        findings.append(Finding("echo", "ok", measured))
    return findings


async def measure(station: StationSettings, *, timeout_s: float = 8.0) -> Loopback:
    """Play a sweep and record it. Raises ApplianceError where a device does not open in time."""
    host, clock = AudioHost(), MonotonicClock()
    trouble: list[str] = []

    def report(role: str, name: str, status: str, detail: str) -> None:
        if status in ("waiting", "lost"):
            trouble.append(f"{role} {name}: {detail}")

    sink = DeviceSink(station.output, host, report)
    source = DeviceSource(station.input, host, report)
    tape: list[tuple[Audio, float, float]] = []  # samples, instant of the first, instant held

    async def listen() -> None:
        async for block in source.blocks():
            tape.append((block.samples, block.captured_at - BLOCK / RATE, clock.now()))

    task = asyncio.create_task(listen())
    try:
        await _until(lambda: bool(tape) and sink.lost_since is None, timeout_s)
        if not tape or sink.lost_since is not None:
            raise ApplianceError(
                f"The audio devices do not open ({'; '.join(trouble) or 'no sound arrives'}).",
                "Is another program holding them? Does `aplay -l` list them?",
            )
        await asyncio.sleep(0.3)
        tape.clear()
        await asyncio.sleep(_NOISE_S)
        noise = len(tape)
        written_at, before = clock.now(), sink.underruns
        position = sink.write(sweep(sink.sample_rate))
        await _until(lambda: sink.audible_at(position) is not None, 2.0)
        audible_at = sink.audible_at(position)
        await asyncio.sleep(_SWEEP_S + _SEARCH_S + 0.2)
        if audible_at is None:
            raise ApplianceError("The speaker takes no samples.", "Is another program holding it?")
        return _evaluate(tape, noise, written_at, audible_at, sink.underruns - before)
    finally:
        await source.close()
        await task
        await asyncio.to_thread(sink.close)
        host.stop()


async def _until(true: Callable[[], bool], timeout_s: float) -> None:
    end = asyncio.get_running_loop().time() + timeout_s
    while not true() and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110  callbacks set no events
        await asyncio.sleep(0.005)


def sweep(rate: int) -> Audio:
    """An exponential sine sweep of one second at `rate`, faded at both ends."""
    t = np.arange(int(_SWEEP_S * rate)) / rate
    low, high = _SWEEP_HZ
    growth = np.log(high / low)
    phase = 2 * np.pi * low * _SWEEP_S / growth * (np.exp(t / _SWEEP_S * growth) - 1)
    fade = np.minimum(1.0, np.minimum(t, _SWEEP_S - t) / 0.01)
    return cast(Audio, (_SWEEP_PEAK * fade * np.sin(phase)).astype(np.float32))


def find(recording: Audio, reference: Audio) -> tuple[int, float]:
    """Where `reference` begins in `recording`, and how sure that is: peak over the RMS of the correlation."""
    size = 1 << int(np.ceil(np.log2(len(recording) + len(reference))))
    spectrum = np.fft.rfft(recording, size) * np.conj(np.fft.rfft(reference, size))
    # Whitening sharpens the peak; the floor keeps bands the sweep does not reach from being blown up.
    spectrum /= np.abs(spectrum) + 1e-3 * np.abs(spectrum).max() + 1e-12
    lags = np.abs(np.fft.irfft(spectrum, size))[: max(1, len(recording))]
    at = int(lags.argmax())
    return at, float(lags[at] / (np.sqrt(np.mean(lags**2)) + 1e-12))


def _evaluate(
    tape: list[tuple[Audio, float, float]], noise_blocks: int, written_at: float, audible_at: float, underruns: int
) -> Loopback:
    noise = np.concatenate([samples for samples, _, _ in tape[:noise_blocks]])
    after = [entry for entry in tape[noise_blocks:] if entry[1] + BLOCK / RATE >= audible_at - 0.05]
    recording = np.concatenate([samples for samples, _, _ in after])
    reference = resample(sweep(48_000), 48_000, RATE)
    at, certainty = find(recording, reference)
    noise_dbfs = dbfs(noise)
    heard = recording[at : at + len(reference)]
    sweep_dbfs = dbfs(heard)
    if certainty < 12 or len(heard) < len(reference) // 2 or sweep_dbfs < noise_dbfs + 3:
        return Loopback(False, noise_dbfs=noise_dbfs, underruns=underruns)
    arrived = after[0][1] + at / RATE
    held = after[at // BLOCK][2]
    return Loopback(
        True,
        delay_ms=(arrived - audible_at) * 1000.0,
        round_trip_ms=(held - written_at) * 1000.0,
        echo_return_loss_db=dbfs(reference) - sweep_dbfs,
        noise_dbfs=noise_dbfs,
        sweep_dbfs=sweep_dbfs,
        clipped=bool(np.mean(np.abs(heard) > 0.99) > 0.001),
        underruns=underruns,
    )


def _device_finding(devices: list[DeviceInfo], kind: str, wanted: str) -> Finding:
    device = choose(devices, wanted, kind)
    if device is not None:
        return Finding(kind, "ok", f"{wanted} is {describe([device])[0]}")
    if not any(entry.channels(kind) for entry in devices):
        return Finding(
            kind,
            "fail",
            f"This machine has no {kind} device that can be reached.",
            "Plug one in. In a service: is the sound server of this user running (lingering), is the user in audio?",
        )
    names = ", ".join(entry.stable_name for entry in devices if entry.channels(kind))
    return Finding(kind, "fail", f"There is no {kind} device called {wanted}.", f"There are: {names}.")
