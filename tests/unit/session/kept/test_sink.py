"""A sink beside the journal: it hears of everything first, and may stop what would follow."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest

from plait.engine.spec import default_specification
from plait.events.named import NamedEvent
from plait.kernel.tools import Tool
from plait.session.opening import init_session
from plait.session.session import Session
from plait.session.turns import run_turn
from plait.store.opening import load_journal
from plait.store.sessions import Sessions
from plait.testing import Call, ScriptedModel

SPEC = default_specification("m", "http://127.0.0.1:1/v1")
ECHO = Tool("echo", "Say it again.", lambda text: f"echo:{text}", parameters={"type": "object"}, mutates=True)
HI = Call("echo", {"text": "hi"})


def opened(**options: Any) -> Session:
    """Return a session with the tool `echo`."""
    return init_session(SPEC, **{"tools": [ECHO], "strict_cache_proof": False, **options})


class Sink:
    """Takes records, and refuses one kind of them."""

    def __init__(self, refused: str = "") -> None:
        self.records: list[Mapping[str, object]] = []
        self.refused = refused

    def append(self, record: Mapping[str, object]) -> None:
        """Take a record."""
        if record["type"] == self.refused:
            raise OSError("the audit is full")
        self.records.append(record)


def test_e39_a_sink_hears_everything_first() -> None:
    """It gets the journal's records in their order, each before it is shown to a handler, without a journal too."""
    for durable in (True, False):
        sink, shown = Sink(), []

        def show(_: str, event: NamedEvent, sink: Sink = sink, shown: list[Any] = shown) -> None:
            shown.append((event.type, sink.records[-1]["type"] if sink.records else None))

        session = opened(session_id=f"s{durable}", durable_sink=sink, durable=durable, on_event=show)
        with session, ScriptedModel([HI, "One."]) as model:
            run_turn(model, "m", session, "Begin.")
        kept = [record for record in sink.records if "seq" in record]
        types = [record["type"] for record in kept]
        wanted = "session_start turn_start message message tool_start tool_end round message turn_end".split()
        assert wanted == types[:9]
        assert list(range(1, len(types) + 1)) == [record["seq"] for record in kept]
        assert ("tool_call", "tool_start") in shown
        if durable:
            journal = load_journal(Sessions.of(os.environ).place_of("sTrue").journal)
            assert [entry.seq for entry in journal.entries] == [record["seq"] for record in kept]


@pytest.mark.parametrize(
    "refused, requests, ran", [("turn_start", 0, 0), ("model_request", 0, 0), ("tool_start", 1, 0), ("tool_end", 1, 1)]
)
def test_a_sink_that_raises_stops_what_would_follow(refused: str, requests: int, ran: int) -> None:
    """No request is sent, no tool is run, not even one that only reads; later the session goes on where it was."""
    calls: list[str] = []
    tool = Tool("echo", "", lambda text: calls.append(text), parameters={"type": "object"}, idempotent=True)
    sink = Sink(refused)
    with opened(session_id="s", tools=[tool], durable_sink=sink) as session, ScriptedModel([HI, "One."]) as model:
        with pytest.raises(OSError, match="the audit is full"):
            run_turn(model, "m", session, "Begin.")
        assert (requests, ran) == (len(model.requests), len(calls))
        sink.refused = ""
        assert "One." == run_turn(model, "m", session, None).final_reply

    assert [1, 1] == [len(calls), sum(record["type"] == "tool_end" for record in sink.records)]
    numbers = [record["seq"] for record in sink.records if "seq" in record]
    assert list(range(1, len(numbers) + 1)) == numbers
