"""Two language models as one: a second, smaller one answers while `use_small` says so.

Owns which model takes the turn in the air. Both hear every settled turn, so that a switch costs nothing when it is
needed. It knows neither why nor how long the small one is wanted.
"""

from collections.abc import Callable, Sequence

from appliance.engines.ports import ChatSession, Generation, Halt, LanguageModel, Message, Sampling
from appliance.errors import NoRoomError


class FallbackModel:
    """`ports.LanguageModel` over `main` and `small`. `use_small` is asked once a turn, when its first words come."""

    def __init__(self, main: LanguageModel, small: LanguageModel, use_small: Callable[[], bool]) -> None:
        self._main, self._small, self._use_small = main, small, use_small

    async def open(self, session: str, history: Sequence[Message] = ()) -> ChatSession:
        main = await self._main.open(session, history)
        try:
            small = await self._small.open(session, history)
        except NoRoomError:
            await main.close()
            raise
        return _FallbackSession(main, small, self._use_small)


class _FallbackSession:
    def __init__(self, main: ChatSession, small: ChatSession, use_small: Callable[[], bool]) -> None:
        self._main, self._small, self._use_small = main, small, use_small
        self._chosen: ChatSession | None = None  # takes the turn in the air

    async def anticipate(self, words: str) -> float | None:
        return await self._choose().anticipate(words)

    def generate(self, words: str, sampling: Sampling, *, note: str = "", halt: Halt | None = None) -> Generation:
        return self._choose().generate(words, sampling, note=note, halt=halt)

    async def settle(self, heard: str | None, reply: str | None = None) -> None:
        chosen, self._chosen = self._choose(), None
        await chosen.settle(heard, reply)
        if heard is not None:
            await (self._small if chosen is self._main else self._main).settle(heard, reply)

    async def close(self) -> None:
        await self._main.close()
        await self._small.close()

    def _choose(self) -> ChatSession:
        if self._chosen is None:
            self._chosen = self._small if self._use_small() else self._main
        return self._chosen
