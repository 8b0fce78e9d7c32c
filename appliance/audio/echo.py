"""Not hearing oneself: WebRTC's audio processing with the played signal as reference, or deafness while speaking.

Owns the alignment of the two streams. Both sides carry instants of one clock, so each 10 ms of microphone is
paired with what the loudspeaker was playing at that instant. What was only queued, or was cut, is never taken
for played. Knows nothing of devices; runs on the microphone's thread.
"""

from collections import deque
from typing import Any, Protocol, cast

import numpy as np

from appliance.audio.isolation import Isolation
from appliance.audio.levels import SILENCE_DBFS, dbfs
from appliance.audio.resample import EMPTY, LiveResampler
from appliance.audio.ring import History
from appliance.audio.settings import EchoSettings
from appliance.audio.status import Report
from appliance.audio.timeline import StreamClock
from appliance.engines.ports import RATE, Audio

FRAME = RATE // 100  # WebRTC takes exactly 10 ms
# The reference is taken this much ahead of the microphone's instant: a canceller copes with an echo that comes
# late, not with one that seems to come early because of two devices' stamping errors. It must stay below the
# output latency, or the reference is not written yet.
LEAD_S = 0.015
_SLIP = int(0.004 * RATE)  # samples by which the two clocks may part before the reference is moved
_QUIET_S = 1.0  # without anything played for this long, cancelling rests
_AUDIBLE_DBFS = -55.0
_SETTLING_S = 1.2  # WebRTC needs about so long to find the echo again when its delay has changed


class Played(Protocol):
    """What a loudspeaker keeps of its output: frames at the device's rate, and their clock."""

    history: History
    history_clock: StreamClock


class Reference:
    """The played signal at 16 kHz, by instant. Asked in order it runs without seams."""

    def __init__(self, played: Played) -> None:
        self._played = played
        self._clock: StreamClock | None = None
        self._resampler = LiveResampler(RATE, RATE)
        self._tape = History(4 * RATE)
        self._origin = 0  # device frame of the tape's first sample
        self._read = 0  # device frame to read next
        self._next = 0  # tape position to give next
        self._silent_frames = 0
        self._fresh = True
        self.slipped = False  # the last `take` found the streams moved against each other

    def take(self, instant: float, count: int) -> Audio:
        """The `count` samples heard from `instant` on; zero where nothing was played or is not known yet."""
        self._pull()
        assert self._clock is not None
        frame = self._clock.frame(instant)
        if frame is None:
            return np.zeros(count, dtype=np.float32)
        place = round((frame - self._origin) * RATE / self._clock.rate)
        self.slipped = abs(place - self._next) > _SLIP
        if self.slipped:
            self._next = place
            self.slipped, self._fresh = not self._fresh, False
        out = self._tape.read(self._next, count)
        self._next += count
        return out

    def _pull(self) -> None:
        """Bring the tape up to date. Long silence is skipped, and the tape begun anew behind it."""
        history, clock = self._played.history, self._played.history_clock
        if clock is not self._clock or history.written - self._read > history.capacity // 2:
            self._begin(clock, max(0, history.written - int(0.1 * clock.rate)))
        fresh = history.read(self._read, history.written - self._read)
        self._read += len(fresh)
        if fresh.any():
            if self._silent_frames > clock.rate * _QUIET_S:
                self._begin(clock, self._read - len(fresh))
                self._read += len(fresh)
            self._silent_frames = 0
        else:
            self._silent_frames += len(fresh)
            if self._silent_frames > clock.rate * _QUIET_S:
                return
        self._tape.write(self._resampler.push(fresh))

    def _begin(self, clock: StreamClock, frame: int) -> None:
        self._clock = clock
        self._resampler = LiveResampler(int(clock.rate), RATE)
        self._tape = History(4 * RATE)
        self._origin = self._read = frame
        self._fresh = True


class EchoJudge:
    """Decides from levels whether cancelling is good enough. Pure: decibels in, a verdict out.

    Only frames in which the loudspeaker plays and the microphone hears something count. A person talking over
    an answer looks like bad cancelling, so the verdict needs more of it than an interruption takes: the
    median over `window` frames (10 ms each).
    """

    def __init__(self, settings: EchoSettings, *, window: int = 400) -> None:
        self._settings = settings
        self._removed: deque[float] = deque(maxlen=window)
        self._left: deque[float] = deque(maxlen=window)
        self._uncancelled: deque[float] = deque(maxlen=window)

    def feed(self, far_dbfs: float, near_dbfs: float, out_dbfs: float) -> None:
        if far_dbfs > -45.0 and near_dbfs > self._settings.strong_echo_dbfs - 10.0:
            self._removed.append(near_dbfs - out_dbfs)
            self._left.append(out_dbfs)

    def feed_uncancelled(self, far_dbfs: float, near_dbfs: float) -> None:
        """One frame in half duplex, where nothing is cancelled: how strong is the echo still?"""
        if far_dbfs > -45.0:
            self._uncancelled.append(near_dbfs)

    @property
    def weak_again(self) -> bool:
        """In half duplex: what comes back would pass for a weak echo as it is, e.g. since a headset was put on.

        Three frames of four must be 6 dB below what counts as strong; whoever talks meanwhile only delays it.
        """
        if len(self._uncancelled) < (self._uncancelled.maxlen or 0):
            return False
        return float(np.quantile(self._uncancelled, 0.75)) < self._settings.strong_echo_dbfs - 6.0

    @property
    def removed_db(self) -> float | None:
        """Echo return loss enhancement: what cancelling removed, the median in dB; None before a second of echo."""
        return float(np.median(self._removed)) if len(self._removed) >= 100 else None

    @property
    def too_strong(self) -> bool:
        if len(self._left) < (self._left.maxlen or 0):
            return False
        left, removed = float(np.median(self._left)), float(np.median(self._removed))
        return left > self._settings.strong_echo_dbfs and removed < self._settings.weak_cancelling_db


class ResidualGate:
    """Silences what cancelling leaves over while it has not settled. Pure: decibels in, a decision out.

    The echo to be expected is the reference's level plus the coupling seen so far (microphone minus reference,
    over the last seconds). Ordinarily a lower quartile of it counts, which a person talking does not move, and
    what reaches that less `residual_db` comes through, with `HOLD` frames after. `unsettled` (the delay has
    just changed, so nothing is cancelled for a while) only what exceeds the loudest echo comes through.
    """

    HOLD = 20  # frames of 10 ms
    CEILING_DBFS = -36.0  # however loud the echo: once cancelling has settled, a voice above this is heard
    ABOVE_DB = 3.0

    def __init__(self, residual_db: float) -> None:
        self._residual_db = residual_db
        self._coupling: deque[float] = deque(maxlen=300)
        self._open = 0

    def passes(self, far_dbfs: float, near_dbfs: float, out_dbfs: float, *, unsettled: bool = False) -> bool:
        """Levels of one frame; `far_dbfs` the loudest of the last 200 ms."""
        if far_dbfs > -45.0:
            self._coupling.append(near_dbfs - far_dbfs)
        if self._residual_db <= 0 or far_dbfs < _AUDIBLE_DBFS:
            return True
        if len(self._coupling) < self.HOLD:
            return False  # the very first sounds: nothing is known yet
        low, high = np.quantile(self._coupling, (0.25, 0.95))
        if unsettled:
            limit = far_dbfs + float(high) + self.ABOVE_DB
        else:
            limit = min(far_dbfs + float(low) - self._residual_db, self.CEILING_DBFS)
        if out_dbfs > limit:
            self._open = self.HOLD
        elif unsettled:
            self._open = min(self._open, self.HOLD // 4)
        self._open = max(-1, self._open - 1)
        return self._open >= 0


class EchoCanceller:
    """A microphone's `Cleaner`.

    mode cancel: WebRTC; half-duplex: silence instead of what is captured while something is audible and
    `tail_ms` after; auto: cancel until the judge finds the echo too strong, then half-duplex until it finds it
    weak, both said through `report`; off: only noise suppression and gain control, where asked for.
    """

    def __init__(self, settings: EchoSettings, played: Played | None, report: Report, device: str = "") -> None:
        self._settings = settings
        self._reference = Reference(played) if played is not None else None
        self._report, self._device = report, device
        self.judge = EchoJudge(settings)
        self._gate = ResidualGate(settings.residual_db)
        self._isolation = Isolation()
        self._far_levels: deque[float] = deque(maxlen=20)
        self.mode = settings.mode if settings.mode != "auto" else "cancel"
        if self._reference is None and self.mode == "cancel":
            self.mode = "off"  # nothing is played on this station, so nothing comes back
        self._apm: Any = None
        self._cancels = True  # its library is there
        self._held: Audio = EMPTY
        self._held_at = 0.0  # instant of _held[0]
        self._audible_until = float("-inf")
        self._active_until = float("-inf")
        self._unsettled_until = float("-inf")

    def clean(self, audio: Audio, instant: float) -> Audio:
        """Whole 10 ms frames come back; up to one frame is held."""
        if len(self._held) == 0:
            self._held_at = instant
        else:
            self._held_at = instant - len(self._held) / RATE
        self._held = np.concatenate((self._held, audio))
        frames = len(self._held) // FRAME
        out = [
            self._frame(self._held[k * FRAME : (k + 1) * FRAME], self._held_at + k * FRAME / RATE)
            for k in range(frames)
        ]
        self._held = self._held[frames * FRAME :]
        return np.concatenate(out) if out else EMPTY

    def restart(self) -> None:
        self._held = EMPTY
        self._apm = None

    def _frame(self, near: Audio, instant: float) -> Audio:
        far = self._reference.take(instant + LEAD_S, FRAME) if self._reference is not None else None
        far_dbfs = dbfs(far) if far is not None else SILENCE_DBFS
        if far_dbfs > _AUDIBLE_DBFS:
            self._audible_until = instant + LEAD_S + FRAME / RATE + self._settings.tail_ms / 1000.0
            self._active_until = instant + _QUIET_S
        if self.mode == "half-duplex":
            self.judge.feed_uncancelled(far_dbfs, dbfs(near))
            if self._settings.mode == "auto" and self._cancels and self.judge.weak_again:
                self._go_full_duplex()
            elif instant < self._audible_until:
                return np.zeros(FRAME, dtype=np.float32)
            return self._process(near, None) if self._always else near
        if self.mode == "cancel" and far is not None and (instant < self._active_until or self._always):
            out = self._process(near, far)
            near_dbfs, out_dbfs = dbfs(near), dbfs(out)
            self._far_levels.append(far_dbfs)
            if self._reference is not None and self._reference.slipped:
                self._unsettled_until = instant + _SETTLING_S
            unsettled = instant < self._unsettled_until
            if not unsettled:
                self.judge.feed(far_dbfs, near_dbfs, out_dbfs)
            passes = self._gate.passes(max(self._far_levels), near_dbfs, out_dbfs, unsettled=unsettled)
            if self._isolation.feed(near, far, near_dbfs, far_dbfs) and not self._always:
                return near
            if not passes:
                out = np.zeros(FRAME, dtype=np.float32)
            if self._settings.mode == "auto" and self.judge.too_strong:
                self._go_half_duplex("the loudspeaker is too loud at the microphone to be cancelled")
            return out
        return self._process(near, None) if self._always else near

    @property
    def _always(self) -> bool:
        return self._settings.noise_suppression or self._settings.gain_control

    def _go_half_duplex(self, why: str) -> None:
        self.mode = "half-duplex"
        self._apm = None
        self._report("input", self._device, "half-duplex", why)

    def _go_full_duplex(self) -> None:
        self.mode = "cancel"
        self._apm = None
        self.judge = EchoJudge(self._settings)
        self._gate = ResidualGate(self._settings.residual_db)
        self._report("input", self._device, "full-duplex", "the loudspeaker is hardly heard at the microphone any more")

    def _process(self, near: Audio, far: Audio | None) -> Audio:
        if self._apm is None:
            try:
                self._apm = _Apm(self._settings, cancel=self.mode == "cancel")
            except ImportError:
                self._cancels = False
                self._go_half_duplex("the echo canceller is not installed")
                return np.zeros(FRAME, dtype=np.float32)
        return cast(Audio, self._apm.process(near, far))


class _Apm:
    """WebRTC's audio processing module as the livekit wheel ships it. 16 kHz mono, 10 ms, int16 inside."""

    def __init__(self, settings: EchoSettings, *, cancel: bool) -> None:
        from livekit.rtc import AudioFrame
        from livekit.rtc.apm import AudioProcessingModule

        self._frame = AudioFrame
        self._cancel = cancel
        self._apm = AudioProcessingModule(
            echo_cancellation=cancel,
            noise_suppression=settings.noise_suppression,
            high_pass_filter=cancel,
            auto_gain_control=settings.gain_control,
        )
        if cancel:
            self._apm.set_stream_delay_ms(round(LEAD_S * 1000 + settings.delay_ms))

    def process(self, near: Audio, far: Audio | None) -> Audio:
        if self._cancel and far is not None:
            self._apm.process_reverse_stream(self._pcm(far))
        frame = self._pcm(near)
        self._apm.process_stream(frame)
        return np.frombuffer(frame.data, dtype="<i2").astype(np.float32) / 32768.0

    def _pcm(self, audio: Audio) -> Any:
        pcm = np.rint(np.clip(audio, -1.0, 1.0) * 32767.0).astype("<i2")
        return self._frame(bytearray(pcm.tobytes()), RATE, 1, FRAME)
