"""Being called: a wake word, push to talk, and the window in which neither is needed.

Owns the detector (pymicro-wakeword, whose models come with it; loaded on first use, on a thread of its own)
and a `Source` that lets blocks through only while somebody is meant to be heard. The wake word and the chime
stay on this side. Knows nothing of conversations; it is told when one goes on.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from appliance.audio.ports import Block, Source
from appliance.engines.ports import BLOCK, Audio
from appliance.errors import ConfigError, MissingError

WORDS = ("okay_nabu", "hey_jarvis", "hey_mycroft", "alexa")


@dataclass(frozen=True, slots=True)
class WakeSettings:
    """When a station listens."""

    word: str = ""  # one of okay_nabu, hey_jarvis, hey_mycroft, alexa; empty: none
    threshold: float = 0.0  # 0: as the word's model says
    follow_up_s: float = 8.0  # after an answer, no wake word is needed for so long
    chime: bool = True
    guard_s: float = 0.15  # detectors fire before the word has quite ended; its rest is not let through
    release_tail_s: float = 1.5  # silence that ends the turn once the talk key is let go


class Detector(Protocol):
    async def heard(self, samples: Audio) -> bool:
        """Whether the word was completed within these samples (16 kHz, following the last ones)."""
        ...

    def reset(self) -> None:
        """Forget what was heard so far."""
        ...


class WakeWord:
    """A `Detector` for one of `WORDS`. Raises ConfigError for another word; MissingError on first use without
    the library."""

    def __init__(self, word: str, threshold: float = 0.0) -> None:
        if word not in WORDS:
            raise ConfigError(f"There is no wake word called {word}.", f"Choose one of {', '.join(WORDS)}.")
        self._word, self._threshold = word, threshold
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="wake word")
        self._model: Any = None
        self._features: Any = None
        self._forget = False

    async def heard(self, samples: Audio) -> bool:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._look, samples)

    def reset(self) -> None:
        self._forget = True

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _look(self, samples: Audio) -> bool:
        if self._model is None:
            self._load()
        if self._forget:
            self._forget = False
            self._features.reset()
            self._model.reset()
        pcm = np.rint(np.clip(samples, -1.0, 1.0) * 32767.0).astype("<i2").tobytes()
        found = False
        for features in self._features.process_streaming(pcm):
            found = bool(self._model.process_streaming(features)) or found
        return found

    def _load(self) -> None:
        try:
            from pymicro_wakeword import MicroWakeWord, MicroWakeWordFeatures, Model
        except ImportError as error:
            raise MissingError(
                "The wake word needs the pymicro-wakeword package.", "Install it, or set wake_word to nothing."
            ) from error
        self._model = MicroWakeWord.from_builtin(Model(self._word))
        if self._threshold > 0:
            self._model.probability_cutoff = self._threshold
        self._features = MicroWakeWordFeatures()


class WakeSource:
    """A `Source` that is deaf until it is called: by its word, by `wake`, or by the talk key.

    `changed` is told of each change of `awake` with the instant of the block that brought it. The detector
    rests while awake.
    """

    def __init__(
        self,
        source: Source,
        detector: Detector | None,
        settings: WakeSettings,
        changed: Callable[[bool, float], None] = lambda awake, at: None,
    ) -> None:
        self.awake = False
        self._source = source
        self._detector = detector
        self._settings = settings
        self._changed = changed
        self._now = 0.0  # captured_at of the newest block
        self._until = 0.0  # awake until this instant unless held
        self._held = False
        self._pressed = False
        self._silent_until = 0.0
        self._deaf_until = 0.0

    def wake(self, window_s: float | None = None) -> None:
        """Listen now, for `window_s` (default: the follow-up window), as if the word had been said."""
        self._until = self._now + (self._settings.follow_up_s if window_s is None else window_s)
        self._update()

    def hold(self, held: bool) -> None:
        """Stay awake while a conversation goes on; letting go opens the follow-up window."""
        if self._held and not held:
            self._until = max(self._until, self._now + self._settings.follow_up_s)
        self._held = held
        self._update()

    def sleep(self) -> None:
        """Close the window at once: the visitor has left."""
        self._held = self._pressed = False
        self._until = self._silent_until = 0.0
        self._update()

    def press(self, pressed: bool) -> None:
        """The talk key. Let go, it gives the turn the silence it ends with, whatever the room sounds like."""
        if self._pressed and not pressed:
            self._silent_until = self._now + self._settings.release_tail_s
        self._pressed = pressed
        self._update()

    def deafen(self, seconds: float) -> None:
        """Let nothing through for a while: a chime is being played."""
        self._deaf_until = max(self._deaf_until, self._now + seconds)

    async def blocks(self) -> AsyncIterator[Block]:
        async for block in self._source.blocks():
            self._now = block.captured_at
            self._update()
            if not self.awake:
                if self._detector is not None and await self._detector.heard(block.samples):
                    self.deafen(self._settings.guard_s)
                    self.wake()
                continue
            if self._now < self._deaf_until:
                continue
            if not self._pressed and self._now < self._silent_until:
                block = Block(np.zeros(BLOCK, dtype=np.float32), block.start, block.captured_at)  # noqa: PLW2901
            yield block

    async def close(self) -> None:
        await self._source.close()

    def _update(self) -> None:
        awake = self._held or self._pressed or self._now < max(self._until, self._silent_until)
        if awake != self.awake:
            self.awake = awake
            if not awake and self._detector is not None:
                self._detector.reset()
            self._changed(awake, self._now)
