"""Writes recorded.jsonl: a scripted afternoon of the appliance, with a line `{"scene": …}` where a test may stop.

Run it after the events change: python tests/tui/record_events.py
"""

import json
import math
from pathlib import Path
from typing import Any

from appliance import events as e
from appliance.telemetry.wire import to_json

OUT = Path(__file__).with_name("recorded.jsonl")
SUM = (
    "KV 288 MiB for 24,576 cells of 12,288 bytes",
    "512 cells of prefix, shared by all sessions",
    "1,536 cells a session: 1,024 of context, 512 for the answer",
    "weights 491 MiB, compute 108 MiB, of 1,200 MiB allowed",
)
TURNS = [  # heard, reply, parts, extras
    (
        "What time is it in Tokyo?",
        "It is ten past four in the morning in Tokyo.",
        (212, 0, 0, 0, 14),
        {"speculation": e.Speculation(2, True, 6, 12, 188.0), "end_reason": "score", "tokens": 12, "ttft_ms": 61.0},
    ),
    (
        "Set a timer for ten minutes.",
        "Ten minutes, starting now.",
        (208, 88, 2, 96, 13),
        {"skill": "timers", "end_reason": "score"},
    ),
    (
        "Who wrote the first algorithm, um, meant for a machine?",
        "Ada Lovelace did, in eighteen forty three.",
        (618, 0, 310, 96, 22),
        {"speculation": e.Speculation(3, False, 31, 14, 0.0), "end_reason": "silence", "tokens": 14, "ttft_ms": 122.0},
    ),
    (
        "Tell me about the tides.",
        "The moon pulls the sea towards it, and the far side bulges too.",
        (224, 61, 148, 84, 12),
        {
            "interrupted": True,
            "spoken": "The moon pulls the sea",
            "barge_in_ms": 92.0,
            "end_reason": "score",
            "tokens": 21,
            "ttft_ms": 96.0,
        },
    ),
    (
        "And how high do they get?",
        "Up to sixteen metres, in the Bay of Fundy.",
        (204, 0, 41, 78, 12),
        {"speculation": e.Speculation(1, True, 0, 13, 142.0), "end_reason": "score", "tokens": 13, "ttft_ms": 70.0},
    ),
]


class Recorder:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.at = 1000.0

    def put(self, cls: type[e.Event], after: float = 0.0, **fields: Any) -> None:
        self.at += after
        fields.setdefault("session", "kitchen-1")
        self.lines.append(to_json(cls(at=round(self.at, 3), **fields)))

    def scene(self, name: str) -> None:
        self.lines.append(json.dumps({"scene": name}))

    def levels(self, count: int, speech: float, loud: float, out: float = -120.0, **who: Any) -> None:
        for n in range(count):
            wave = math.sin(n * 1.7) * 6
            self.put(
                e.Level,
                0.2,
                input_dbfs=round(loud + wave, 1),
                speech=round(max(0.0, speech - (n % 3) * 0.04), 2),
                output_dbfs=round(out + (wave if out > -100 else 0), 1),
                **who,
            )

    def stats(self, held: dict[str, tuple[int, int]], parked: int = 0, live: int = 1, waiting: int = 0) -> None:
        """`held`: the cells a session uses, and those it was promised beyond them."""
        self.put(
            e.LlmStats,
            session="",
            live=live,
            waiting=waiting,
            cells_total=24_576,
            cells_prefix=512,
            cells_used=sum(used for used, _ in held.values()),
            cells_reserved=sum(reserved for _, reserved in held.values()),
            cells_parked=parked,
            step_ms=28.0,
            tokens_per_s=34.0,
            held=tuple((name, used + reserved) for name, (used, reserved) in held.items()),
        )

    def capacity(self, sessions: int, queued: int = 0, refused: int = 0, level: int = 0, name: str = "normal") -> None:
        self.put(
            e.CapacitySnapshot,
            session="",
            cap=6,
            limited_by="KV cells",
            sessions=sessions,
            queued=queued,
            refused=refused,
            ladder_level=level,
            ladder_name=name,
            loop_lag_ms=3.0,
            sum_lines=SUM,
        )

    def question(self, turn: int, heard: str) -> None:
        who = {"turn": turn}
        self.put(e.StateChanged, state=e.State.HEARING, **who)
        self.put(e.SpeechStarted, **who)
        self.levels(8, 0.97, -22)
        self.put(
            e.Transcribed,
            kind="partial",
            text=heard.rsplit(" ", 2)[0],
            language="en",
            audio_ms=900.0,
            took_ms=80.0,
            **who,
        )

    def pause(self, turn: int, heard: str, done: float) -> None:
        who = {"turn": turn}
        self.put(e.StateChanged, state=e.State.PAUSE, **who)
        self.put(e.SpeechPaused, **who)
        self.levels(1, 0.06, -52)
        for n, silence in enumerate((100.0, 164.0, 228.0)):
            self.put(
                e.EndpointLooked,
                0.06,
                silence_ms=silence,
                audio_score=round(done - 0.2 + n * 0.1, 2),
                text_score=0.74,
                llm_score=None,
                done_probability=round(done - 0.24 + n * 0.12, 2),
                wait_ms=520.0 - n * 150,
                **who,
            )
        self.put(e.Transcribed, kind="draft", text=heard, language="en", audio_ms=1620.0, took_ms=91.0, **who)

    def think(self, turn: int, heard: str, reply: str, reason: str) -> None:
        who = {"turn": turn}
        self.put(e.TurnEnded, last_speech_at=self.at - 0.2, reason=reason, **who)
        self.put(e.StateChanged, state=e.State.THINKING, **who)
        self.put(e.Transcribed, kind="final", text=heard, language="en", audio_ms=1700.0, took_ms=88.0, **who)
        self.put(e.FirstToken, 0.07, ttft_ms=70.0, prompt_tokens=19, **who)
        self.put(e.ClauseReady, 0.03, index=0, text=reply, tokens=9, **who)

    def speak(self, turn: int, reply: str, words: int) -> None:
        who = {"turn": turn}
        self.put(e.ClauseSynthesized, 0.08, index=0, audio_ms=2300.0, took_ms=84.0, **who)
        self.put(e.PlaybackStarted, 0.02, **who)
        self.put(e.StateChanged, state=e.State.SPEAKING, **who)
        self.levels(6, 0.03, -58, out=-20)
        self.put(e.Heard, spoken=" ".join(reply.split()[:words]), played_ms=1300.0, **who)

    def finish(self, turn: int, heard: str, reply: str, parts: tuple[float, ...], extra: dict[str, Any]) -> None:
        values: dict[str, Any] = {"spoken": reply, "interrupted": False, "tokens_per_s": 33.0, **extra}
        record = e.TurnRecord(
            session="kitchen-1",
            turn=turn,
            started=f"2026-03-14T16:0{turn}:00.000+00:00",
            heard=heard,
            reply=reply,
            ms=e.LatencyParts(*parts),
            station="kitchen",
            **values,
        )
        self.put(e.TurnFinished, turn=turn, record=record)
        self.put(e.StateChanged, state=e.State.LISTENING)


def main() -> None:
    r = Recorder()
    r.put(e.SessionOpened, station="kitchen")
    r.put(e.DeviceChanged, session="", station="kitchen", role="input", name="USB microphone", status="open")
    r.put(e.StateChanged, state=e.State.LISTENING)
    r.capacity(1)
    r.stats({"kitchen-1": (0, 1536)})
    r.levels(12, 0.04, -56)
    r.scene("listening")
    for n, (heard, reply, parts, extra) in enumerate(TURNS, start=1):
        r.at += 4
        r.question(n, heard)
        if n == 1:
            r.scene("hearing")
        r.pause(n, heard, 0.84)
        if n == 1:
            r.scene("pause")
        r.think(n, heard, reply, extra["end_reason"])
        if n == 1:
            r.scene("thinking")
        r.stats({"kitchen-1": (180 * n, 1536 - 180 * n)})
        r.speak(n, reply, 5)
        if n == 4:
            r.put(e.BargeIn, action="duck", turn=n)
            r.put(e.BargeIn, 0.1, action="interrupt", to_silence_ms=92.0, turn=n)
            r.put(e.StateChanged, state=e.State.INTERRUPTED, turn=n)
            r.scene("interrupted")
        if n == 5:
            r.scene("speaking")
        r.finish(n, heard, reply, parts, extra)
        if n == 3:
            r.scene("over-budget")
    for n, name in enumerate(("lobby-2", "lobby-3"), start=2):
        r.put(e.SessionOpened, 2, session=name, station="lobby")
        r.put(e.AdmissionDecided, session=name, decision="admitted", reason="room for it")
        r.put(e.StateChanged, 0.2, session=name, turn=n, state=e.State.SPEAKING if n == 2 else e.State.HEARING)
    r.put(
        e.AdmissionDecided,
        1,
        session="lobby-4",
        decision="queued",
        reason="every share is taken",
        position=1,
        wait_s=12.0,
    )
    r.put(
        e.AdmissionDecided,
        1,
        session="",
        decision="refused",
        reason="the expected wait breaks the objective",
        wait_s=41.0,
    )
    r.put(e.LadderMoved, 0.2, session="", level=2, name="short answers", reason="2 waiting, oldest 12 s")
    r.put(
        e.Notice,
        0.1,
        session="",
        level="error",
        message="no space is left for the store; turns are kept in memory",
        hint="free some space",
    )
    r.capacity(3, 1, 1, 2, "short answers")
    r.stats({"kitchen-1": (7_200, 1_028), "lobby-2": (800, 1_536), "lobby-3": (1_200, 1_536)}, 2_048, live=3, waiting=1)
    r.scene("busy")
    OUT.write_text("\n".join(r.lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
