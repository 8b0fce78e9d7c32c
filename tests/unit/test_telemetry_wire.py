"""Every event survives the wire; words stay where they may be; log lines carry none."""

import dataclasses
import logging
from typing import Any

import pytest

from appliance.events import Event, LatencyParts, Speculation, State, TurnFinished, TurnRecord
from appliance.telemetry import log
from appliance.telemetry.wire import KINDS, WORDS, from_json, to_json, turn_dict

RECORD = TurnRecord(
    session="s",
    turn=2,
    started="2026-01-01T00:00:00+00:00",
    heard="secret question",
    reply="secret answer",
    spoken="secret",
    interrupted=True,
    ms=LatencyParts(1.5, 2.5, 3, 4, 5),
    ttft_ms=80.0,
    speculation=Speculation(tries=2, held=True),
)
_SAMPLES: dict[Any, Any] = {
    str: "word",
    int: 3,
    float: 0.5,
    float | None: None,
    State: State.PAUSE,
    TurnRecord: RECORD,
    tuple[str, ...]: ("a", "b"),
    tuple[tuple[str, int], ...]: (("s", 3), ("t", 4)),
}


def sample(cls: type[Event]) -> Event:
    return cls(**{f.name: _SAMPLES[f.type] for f in dataclasses.fields(cls)})


@pytest.mark.parametrize("cls", [c for c in KINDS.values() if c is not Event])
def test_every_event_comes_back_as_it_went(cls: type[Event]) -> None:
    event = sample(cls)
    assert from_json(to_json(event)) == event


def test_unknown_fields_are_ignored_and_unknown_kinds_skipped() -> None:
    line = to_json(sample(KINDS["SessionOpened"])).replace("{", '{"from_the_future":1,', 1)
    assert from_json(line) == sample(KINDS["SessionOpened"])
    assert from_json('{"type":"FromTheFuture","at":1}') is None


@pytest.mark.parametrize("line", ["", "[]", "3", "{", '{"at":1}', '{"type":"Notice","at":1}', '{"type":[],"at":1}'])
def test_what_is_not_an_event_is_a_value_error(line: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        from_json(line)


def test_a_turn_as_json_begins_with_the_promised_keys() -> None:
    out = turn_dict(RECORD)
    assert list(out)[:6] == ["turn", "heard", "reply", "spoken", "interrupted", "ms"]
    assert out["ms"]["voice_to_voice"] == 16.0


@pytest.mark.parametrize("cls", [c for c in KINDS.values() if c is not Event])
def test_no_log_line_carries_a_word(cls: type[Event], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="appliance")
    values = {f.name: _SAMPLES[f.type] for f in dataclasses.fields(cls)}
    log.log_event(cls(**{k: "secret" if k in WORDS else v for k, v in values.items()}))
    assert "secret" not in caplog.text


def test_a_finished_turn_is_one_line_of_pairs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="appliance")
    log.log_event(TurnFinished(at=0, session="s", turn=2, record=RECORD))
    (line,) = [r.getMessage() for r in caplog.records]
    assert line.startswith("turn session=s turn=2 voice_to_voice=16 endpoint=2 asr=2")
    assert "ttft=80" in line
    assert "held=yes" in line
