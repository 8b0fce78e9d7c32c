"""A conversation over files: the driver that asks the next question once the last answer has been heard."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from appliance.app import Appliance
from appliance.audio.files import AudioFile
from appliance.audio.sink import FileSink
from appliance.audio.source import FileSource
from appliance.config import Config
from appliance.conversation.conversation import Conversation
from appliance.conversation.desk import Conduct
from appliance.events import TurnFinished, TurnRecord

_GAP_MS = 400.0  # silence before a question: nobody speaks in the first sample
_TAIL_MS = 4000.0  # unpaced, silence behind a question: more than the longest wait of the policy
_IDLE_S = 0.6  # nothing heard and nothing said for so long: the next question may come


@dataclass(frozen=True, slots=True)
class Talk:
    """What is said and where the answers go. `db` None keeps the turns in the user's store."""

    files: Sequence[AudioFile]
    out: Path | None = None
    paced: bool = True
    db: Path | None = None
    keep: bool = True


async def hold(
    config: Config,
    talk: Talk,
    tell: Callable[[TurnRecord], None],
    progress: Callable[[str], None] = lambda _: None,
) -> list[TurnRecord]:
    """Start the appliance, hold the conversation, stop. `progress` gets the stages of the start, `tell` each turn."""
    box = Appliance(config)
    try:
        await box.start(progress)
        if talk.keep:
            box.keep(talk.db)
        return await hold_in(box, talk, tell)
    finally:
        await box.stop()


async def hold_in(
    box: Appliance,
    talk: Talk,
    tell: Callable[[TurnRecord], None] = lambda _: None,
    *,
    session: str = "",
    conduct: Callable[[], Conduct] = Conduct,
    sink: FileSink | None = None,
    opened: Callable[[Conversation], None] = lambda _: None,
) -> list[TurnRecord]:
    """The same in an appliance that already runs; several may be held at once. `opened` gets the conversation."""
    source = FileSource([], box.clock, pace=talk.paced)
    sink = sink or FileSink(box.voice_rate, box.clock, paced=talk.paced, out=talk.out)
    subscription = box.bus.subscribe(durable=True)
    conversation = await box.open(sink, session=session, paced=talk.paced, conduct=conduct)
    opened(conversation)
    records: list[TurnRecord] = []

    async def listen() -> None:
        async for event in subscription:
            if isinstance(event, TurnFinished) and event.session == conversation.session:
                records.append(event.record)
                tell(event.record)

    listening = asyncio.create_task(listen())
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(conversation.run(source))
            group.create_task(_ask(source, conversation, talk, box))
    finally:
        subscription.close()
        await listening
        sink.close()
    return records


async def _ask(source: FileSource, conversation: Conversation, talk: Talk, box: Appliance) -> None:
    for file in talk.files:
        source.say(file, after_ms=_GAP_MS)
        if not talk.paced:
            source.silence(_TAIL_MS)
        await source.drained()
        if talk.paced:
            await _until_idle(conversation, box)
    source.end()


async def _until_idle(conversation: Conversation, box: Appliance) -> None:
    """Return once nobody has been heard and nothing has been said for a while."""
    quiet_since = box.clock.now()
    while box.clock.now() - quiet_since < _IDLE_S:
        await box.clock.sleep_until(box.clock.now() + 0.02)
        if not conversation.idle:
            quiet_since = box.clock.now()
