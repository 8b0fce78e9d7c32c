"""Two transcribers as one: the smaller one takes over while the degrade ladder says so.

Owns only the choice, made anew for each utterance. It knows neither why nor how long.
"""

from collections.abc import Callable

from appliance.engines.ports import Audio, CancelToken, Transcriber, Transcript


class SmallerInNeed:
    """`ports.Transcriber` over `main` and `small`; both share one thread, so order of work stays one order."""

    def __init__(self, main: Transcriber, small: Transcriber, use_small: Callable[[], bool]) -> None:
        self._main, self._small, self._use_small = main, small, use_small

    async def transcribe(
        self,
        audio: Audio,
        *,
        priority: int,
        cancel: CancelToken,
        language: str | None = None,
        prompt: str = "",
        expected: str = "",
        quick: bool = False,
    ) -> Transcript:
        chosen = self._small if self._use_small() else self._main
        return await chosen.transcribe(
            audio,
            priority=priority,
            cancel=cancel,
            language=language,
            prompt=prompt,
            expected=expected,
            quick=quick,
        )
