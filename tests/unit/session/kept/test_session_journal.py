"""The journal for programs that write or read one themselves, and records in the older shape."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from plait.core.codec import encode_fact
from plait.core.errors import ConfigError, JournalCorrupt, SessionBusy
from plait.core.facts import ToolEnd, ToolStart
from plait.core.messages import ToolResult
from plait.engine.spec import default_specification
from plait.kernel.tools import Tool
from plait.session.kept.flat import flat
from plait.session.kept.session_journal import JournalState, SessionJournal, replay_journal
from plait.session.opening import init_session
from plait.session.turns import run_turn
from plait.testing import Call, ScriptedModel

CALLS = [{"id": f"c{n}", "type": "function", "function": {"name": "look", "arguments": f'{{"n":{n}}}'}} for n in (1, 2)]
ASKS = {"role": "assistant", "content": "I look.", "tool_calls": CALLS}


def test_a_journal_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    """Neither does an empty one."""
    (tmp_path / "empty.jsonl").touch()

    assert JournalState() == replay_journal(tmp_path / "none.jsonl")
    assert JournalState() == replay_journal(tmp_path / "empty.jsonl")


def test_what_was_written_comes_back(tmp_path: Path) -> None:
    """Turns, messages, calls and results, under whatever name the file has; a second opener goes on."""
    path = tmp_path / "mine.jsonl"
    with SessionJournal(path) as journal:
        journal.turn_start("Look.", {"kind": "supervisor", "name": "S"})
        journal.message({"role": "user", "content": "Look."})
        journal.message(ASKS)
        journal.tool_start("c1", "look", {"n": 1})
        journal.tool_end("c1", "look", "one  \n one")
        journal.tool_start("c2", "look", {"n": 3})
        with pytest.raises(SessionBusy):
            SessionJournal(path)
    state = replay_journal(path)

    assert (True, 0, 2) == (state.mid_turn, state.completed_turns, len(state.messages))
    assert [("c2", "look", {"n": 2})] != [(c.call_id, c.name, c.args) for c in state.pending_tool_calls]
    assert [("c2", "look", {"n": 3})] == [(c.call_id, c.name, c.args) for c in state.pending_tool_calls]
    assert [("c1", "look", "one one")] == [(r.call_id, r.name, r.summary()) for r in state.unreceived_results]
    assert "one\u2026" == state.unreceived_results[0].summary(4)
    with SessionJournal(path, exclusive=True) as journal:
        journal.tool_end("c2", "look", "failed", "error")
        journal.message({"role": "tool", "tool_call_id": "c1", "content": "one  \n one"})
        journal.message({"role": "tool", "tool_call_id": "c2", "content": "failed"})
        journal.message({"role": "assistant", "content": "Done."})
        journal.turn_end()
    state = replay_journal(path)

    assert ["user", "assistant", "tool", "tool", "assistant"] == [message["role"] for message in state.messages]
    assert (False, 1, 0, 0) == (
        state.mid_turn,
        state.completed_turns,
        len(state.pending_tool_calls),
        len(state.unreceived_results),
    )


def test_a_history_can_be_replaced_and_records_be_given_as_they_are(tmp_path: Path) -> None:
    """A reset takes the place of all messages; `append` takes the journal's own form, and nothing else."""
    path = tmp_path / "journal.jsonl"
    with SessionJournal(path) as journal:
        journal.append({"type": "turn_start"})
        journal.append({"type": "message", "data": {"role": "user", "parts": [{"text": "Hi."}]}})
        journal.reset_messages("clear", [{"role": "system", "content": "x"}, {"role": "user", "content": "Anew."}])
        for record in ({"type": "nothing"}, {"type": "message", "data": {"role": 1}}, {"type": "turn_start"}):
            with pytest.raises(ConfigError):
                journal.append(record)
        with pytest.raises(ConfigError):
            journal.tool_end("c1", "look", "x")

    assert [{"role": "user", "content": "Anew."}] == list(replay_journal(path).messages)


def test_the_older_program_s_journal(tmp_path: Path) -> None:
    """It is read as its own library read it: pending calls, results nobody saw, a torn line left out."""
    records: list[Mapping[str, Any]] = [
        {"type": "turn_start", "task": "Look."},
        {"type": "message", "msg": {"role": "user", "content": "Look."}},
        {"type": "message", "msg": ASKS},
        {"type": "tool_start", "call_id": "c1", "name": "look", "args": {"n": 1}},
        {"type": "tool_end", "call_id": "c1", "name": "look", "result": "one"},
        {"type": "tool_start", "call_id": "c2", "name": "look", "args": {"n": 2}},
    ]
    path = tmp_path / "old_journal.jsonl"
    path.write_text("".join(f"{json.dumps({'seq': n, **record})}\n" for n, record in enumerate(records, 1)) + '{"seq"')
    state = replay_journal(path)

    assert ("c2", {"n": 2}) == (state.pending_tool_calls[0].call_id, state.pending_tool_calls[0].args)
    assert ("c1", "look", "one") == tuple(
        getattr(state.unreceived_results[0], name) for name in ("call_id", "name", "result")
    )
    assert (6, 0, True) == (state.entries_replayed, state.completed_turns, state.mid_turn)
    path.write_text('nothing\n{"type":"turn_start"}\n')
    with pytest.raises(JournalCorrupt, match="record 1"):
        replay_journal(path)
    with pytest.raises(JournalCorrupt):
        SessionJournal(path)


def test_records_in_the_older_shape() -> None:
    """What a sink gets can be had flat, with chat messages, names and arguments in it."""
    records: list[dict[str, Any]] = []

    class Sink:
        def append(self, record: Mapping[str, object]) -> None:
            records.append(flat(record))

    tool = Tool("look", "", lambda n: f"saw {n}", parameters={"type": "object"})
    spec = default_specification("m", "http://127.0.0.1:1/v1")
    with (
        init_session(spec, tools=[tool], durable=False, durable_sink=Sink(), strict_cache_proof=False) as session,
        ScriptedModel([Call("look", {"n": 1}, id="c1"), "Done."]) as model,
    ):
        run_turn(model, "m", session, "Look.")
    by_type: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        by_type.setdefault(record["type"], []).append(record)

    assert {"role": "user", "content": "Look."} == by_type["message"][0]["msg"]
    assert {"type": "tool_start", "call_id": "c1", "name": "look", "args": {"n": 1}} == by_type["tool_start"][0]
    assert {"type": "tool_end", "call_id": "c1", "name": "look", "result": "saw 1"} == by_type["tool_end"][0]
    assert "Done." == by_type["model_response"][-1]["response"]["content"]
    assert {"turn_start", "tool_call", "final_answer"} <= {record["event_type"] for record in by_type["event"]}
    assert [{"type": "turn_end", "reason": "completed"}] == by_type["turn_end"]


def test_a_denied_call_in_the_older_shape_and_what_is_no_record() -> None:
    """Outcomes keep their names; a record from a file knows no name of its call; nonsense is refused."""
    name, data = encode_fact(ToolEnd(ToolResult("c", "No.", status="denied")))
    denied = {"type": name, "data": data}
    name, data = encode_fact(ToolStart("c", '{"n":2}'))
    rewritten = {"type": name, "data": data}

    assert {"type": "tool_end", "call_id": "c", "result": "No.", "outcome": "hook_deny"} == flat(denied)
    assert {"type": "tool_start", "call_id": "c", "args": {"n": 2}} == flat(rewritten)
    with pytest.raises(ValueError, match="lacks a type"):
        flat({"data": {}})
