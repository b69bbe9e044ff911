"""A turn of 300 steps in a small window: it finishes, its task is in every request, and the cache holds nearly all."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from plait.cli.specs import built_in_spec
from plait.core.facts import Reset
from plait.kernel.history import fault_in
from plait.kernel.tools import Tool
from plait.session.clients import create_client
from plait.session.opening import init_session
from plait.session.turns import run_turn
from plait.store.opening import load_journal
from plait.testing import Call, Request, ScriptServer
from plait.testing.faults import Status

WINDOW = 16_000
STEPS = 300
CHARS_PER_TOKEN = 4
TASK = "Look at every file, and say which one has the fault."


def tokens_of(request: Request) -> int:
    """Return how many tokens this server takes a request for."""
    return len(request.body) // CHARS_PER_TOKEN


def common(one: bytes, other: bytes) -> int:
    """Return how many bytes two requests begin with alike."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if one[:middle] == other[:middle] else (least, middle - 1)
    return least


def test_three_hundred_steps_in_a_small_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No request is refused, each has the task, nine tenths of it were in the request before, few are summaries."""
    monkeypatch.setenv("PLAIT_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    steps = itertools.count(1)
    refused: list[int] = []

    def script(request: Request) -> Any:
        if tokens_of(request) > WINDOW:
            refused.append(tokens_of(request))
            message = f"This model's maximum context length is {WINDOW} tokens."
            return Status(400, {"error": {"code": "context_length_exceeded", "message": message}})
        if request.json.get("tool_choice") == "none":
            return "Objective: find the fault. State: nothing so far. Next: the other files."
        number = next(steps)
        return Call("look", {"at": number}) if number <= STEPS else "In none."

    look = Tool(
        "look", "Look.", lambda at: f"file {at}: " + "fine. " * 70, parameters={"type": "object"}, idempotent=True
    )
    with ScriptServer(script) as server:
        spec = {**built_in_spec("any", server.url), "context_window": WINDOW}
        with (
            create_client(spec) as client,
            init_session(spec, tools=[look], session_id="s", strict_cache_proof=False) as session,
        ):
            result = run_turn(client, "any", session, TASK)
            assert session.kept_in is not None
            facts = load_journal(session.kept_in / "journal.jsonl").facts
        requests = server.requests
    assert ("completed", "In none.", []) == (result.status, result.final_reply, refused)
    assert all(TASK in request.body.decode() for request in requests)
    assert fault_in(session._live.conversation.state.history) is None
    compactions = [fact for fact in facts if isinstance(fact, Reset)]
    assert {"compaction"} == {fact.why for fact in compactions}
    assert len(compactions) == sum(request.json.get("tool_choice") == "none" for request in requests)
    assert STEPS + 1 + len(compactions) == len(requests)
    # What an ideal client would send: as few summaries as the window allows, each going down to what is kept.
    a_step = (len(requests[10].body) - len(requests[9].body)) // CHARS_PER_TOKEN
    head, room = tokens_of(requests[0]), WINDOW - WINDOW // 4
    assert len(compactions) <= 1.3 * STEPS * a_step / (room - head - 4 * a_step)
    total = sum(len(request.body) for request in requests)
    cached = sum(common(one.body, other.body) for one, other in itertools.pairwise(requests))
    assert cached / total >= 0.9
