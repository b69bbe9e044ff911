"""A kept session is run again, and proves that the same requests would be sent, or shows the first that would not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from plait.core.cancel import Cancel
from plait.core.facts import MessageAdded, Observation
from plait.core.messages import user
from plait.engine.budget import Budget
from plait.engine.limits import Limits, SessionLimits
from plait.engine.request_form import FORM
from plait.engine.spec import default_specification
from plait.kernel.rules import Retry
from plait.kernel.tools import Tool
from plait.models.known_profiles import profile_named
from plait.models.openai_client import OpenAI
from plait.session.clients import create_client
from plait.session.history.replaying import replay_session
from plait.session.opening import init_session
from plait.session.turns import run_turn
from plait.store.layout import SessionFolder
from plait.store.opening import load_journal
from plait.store.salvage import write_journal
from plait.store.sessions import Sessions
from plait.testing import Call, Raw, Say, ScriptServer
from plait.testing.faults import Status


@dataclass
class Answer:
    """The value that a turn has to come to."""

    count: int


def double(n: int) -> str:
    """Double a number."""
    return str(2 * n)


OWN = Tool("double", "Double a number.", double, parallel_safe=True)
SCRIPT: list[Any] = [
    Say("I look.", calls=[Call("double", {"n": 1}), Call("double", {"n": 2}), Call("nothing", {})]),
    Say("", calls=[Call("write_file", {"path": "a.txt", "content": "x"}), Call("double", {"m": 1})]),
    "Done.",
    "Again.",
]


def kept(home: Path) -> SessionFolder:
    """Return the one session that is kept."""
    (folder,) = (home / "sessions").iterdir()
    return SessionFolder(folder)


@pytest.fixture
def state(work: Path) -> Path:
    """Keep sessions here, and work elsewhere."""
    return work.parent / "state"


def spec_at(url: str, **more: object) -> Mapping[str, Any]:
    """Return the spec of an agent at a server."""
    return {**default_specification("any", url), "request_params": {"top_p": 0.5}, **more}


def talk(server: ScriptServer, *tasks: str, **options: Any) -> Mapping[str, Any]:
    """Hold a conversation and return its spec."""
    spec = spec_at(server.url)
    with create_client(spec) as client, init_session(spec, **options) as session:
        for task in tasks:
            run_turn(client, "any", session, task)
    return spec


def test_a_session_comes_out_the_same(state: Path) -> None:
    """Own tools that nobody has any more, failed calls, two turns: every request is proved, and none is sent."""
    with ScriptServer(SCRIPT) as server:
        spec = talk(server, "go", "and on", tools=[OWN], system_prompt_supplement="Be brief.")
        before = Path("a.txt").stat().st_mtime_ns
        found = replay_session(kept(state), spec)
        assert len(SCRIPT) == len(server.requests)
    assert found.is_same
    assert (2, 4, 4, 0) == (found.told.turns, found.told.requests, found.told.proved, found.told.followed)
    assert before == Path("a.txt").stat().st_mtime_ns


def test_what_a_limit_ended_comes_out_the_same(state: Path) -> None:
    """A task that could not fit, a budget that was shared and a limit of the session are answered from the log."""
    calling: Any = Say("", calls=[Call("double", {"n": 1})])
    budget = Budget(max_steps=3)
    limits = Limits(budget=budget, session=SessionLimits(max_steps=9), max_turn_result_tokens=100, dedupe_reads=True)
    with ScriptServer([calling, "there", calling]) as server:
        spec = spec_at(server.url, context_window=30_000)
        with create_client(spec) as client, init_session(spec, tools=[OWN], limits=limits) as session:
            assert "completed" == run_turn(client, "any", session, "go").status
            assert "limit" == run_turn(client, "any", session, "again").status
            assert "limit" == run_turn(client, "any", session, "x").status
            budget._most = {}
            assert "error" == run_turn(client, "any", session, "x" * 1_000_000).status
        found = replay_session(kept(state), spec)
    assert found.is_same
    assert (3, 3) == (found.told.requests, found.told.proved)


def test_what_went_wrong_comes_out_the_same(state: Path) -> None:
    """Retries, a limit of steps and an edit by the host are answered from the log."""
    script: list[Any] = [
        Status(503),
        Say("", calls=[Call("double", {"n": 1})]),
        Say("", calls=[Call("double", {"n": 2})]),
    ]
    with ScriptServer([*script, "there"]) as server:
        spec = spec_at(server.url)
        options: dict[str, Any] = {"tools": [OWN], "limits": Limits(max_steps=2), "retry": Retry(3, base_s=0.01)}
        with create_client(spec) as client, init_session(spec, **options) as session:
            assert "limit" == run_turn(client, "any", session, "go").status
            del session["messages"][1:]
            run_turn(client, "any", session, "hello")
        found = replay_session(kept(state), spec)
    assert found.is_same
    assert (2, 3, 3) == (found.told.turns, found.told.requests, found.told.proved)


def test_an_interrupted_turn_and_a_value_come_out_the_same(state: Path) -> None:
    """A turn that was stopped, and one whose answer had to be a value, by a tool or by a schema."""
    cancelled = Cancel()
    cancelled.cancel("interrupted")
    with ScriptServer(['{"count": 3}', "later"], allow_unused=True) as server:
        spec = spec_at(server.url)
        with create_client(spec) as client, init_session(spec) as session:
            assert "interrupted" == run_turn(client, "any", session, "go", cancel=cancelled).status
            assert Answer(3) == run_turn(client, "any", session, "count", output_type=Answer).output
            run_turn(client, "any", session, "and now?")
        found = replay_session(kept(state), spec)
    assert found.is_same
    assert (3, 2, 2) == (found.told.turns, found.told.requests, found.told.proved)


def test_another_request_is_shown(state: Path) -> None:
    """Where a request would be another today, the first one is named, and shown as it would be sent."""
    with ScriptServer(SCRIPT) as server:
        spec = talk(server, "go", "and on", tools=[OWN])
        place = kept(state)
        journal = load_journal(place.journal)
        entries = [
            replace(entry, fact=MessageAdded(user("another")))
            if isinstance(entry.fact, MessageAdded) and entry.fact.message.content == "and on"
            else entry
            for entry in journal.entries
        ]
        shutil.rmtree(place.path)
        write_journal(place.path, journal.conversation, {}, entries)
        found = replay_session(place, spec)
    assert found.told.difference is not None
    assert (2, 3) == (found.told.difference.turn, found.told.proved)
    assert "another" == json.loads(found.body)["messages"][-1]["content"]
    assert b'"another"' in found.body[found.common_bytes :]
    assert len(found.body) > found.common_bytes > len(found.body) - 500


def test_other_words_of_today_are_told(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system prompt or a tool that today's plait words otherwise is told, and the rest is proved all the same."""
    with ScriptServer(SCRIPT) as server:
        spec = talk(server, "go", "and on", tools=[OWN])
        monkeypatch.setattr("plait.session.prompt.compose", lambda *_, **__: "Be quick.")
        found = replay_session(kept(state), spec)
    assert (["system"], 4) == ([section.name for section in found.sections], found.told.proved)
    assert not found.is_same
    assert "Be quick." == found.sections[0].now


def test_a_session_may_be_open_meanwhile(state: Path) -> None:
    """A replay only reads: it neither waits for a session's owner nor is refused because of him."""
    with ScriptServer(SCRIPT) as server:
        spec = spec_at(server.url)
        with create_client(spec) as client, init_session(spec, tools=[OWN], session_id="mine") as session:
            run_turn(client, "any", session, "go")
            assert replay_session(Sessions(state / "sessions").place_of("mine"), spec).is_same
            assert "Again." == run_turn(client, "any", session, "and on").final_reply


def events(*documents: object) -> Raw:
    """Return a stream of these."""
    data = b"".join(b"data: " + json.dumps(document).encode() + b"\n\n" for document in documents)
    return Raw(data + b"data: [DONE]\n\n", {"Content-Type": "text/event-stream"})


def routed(**delta: object) -> Raw:
    """Return an answer of the provider P."""
    choice = {"index": 0, "delta": delta, "finish_reason": "tool_calls" if "tool_calls" in delta else "stop"}
    return events({"provider": "P", "choices": [choice]})


def test_a_router_that_has_settled_is_proved(state: Path) -> None:
    """The request before the first answer, those after it in the same turn, in the next, and after a resume."""
    call = {"index": 0, "id": "c1", "function": {"name": "double", "arguments": '{"n": 1}'}}
    script = [routed(tool_calls=[call]), *(routed(content=text) for text in ("two", "more", "again"))]
    with ScriptServer(script) as server:
        client, spec = (
            OpenAI(base_url=server.url, profile=profile_named("openrouter")),
            default_specification("any", "openrouter"),
        )
        for tasks in (("go", "and on"), ("later",)):
            with init_session(spec, session_id="s", tools=[OWN], strict_cache_proof=False) as session:
                for task in tasks:
                    assert run_turn(client, "any", session, task).error is None
        sent = ["provider" in request.json for request in server.requests]
    found = replay_session(kept(state), spec)
    assert [False, True, True, True] == sent
    assert found.is_same
    assert (4, 4) == (found.told.requests, found.told.proved)


def test_requests_that_leave_something_out_are_proved(state: Path) -> None:
    """What an endpoint refused, less room for an answer, reasoning sent back, a resume that sends all of it again."""
    message = (
        "You passed 170000 input tokens and requested 32000 output tokens. "
        "However, the model's context length is only 200000 tokens."
    )
    full = Status(400, {"error": {"message": message, "code": "context_length_exceeded"}})
    missed = Status(400, {"error": {"message": "The `reasoning_content` in the thinking mode must be passed back."}})
    refused = Status(400, {"error": {"message": "Unsupported parameter: 'stream_options'", "param": "stream_options"}})
    script: list[Any] = [
        Say("One.", reasoning="hm"), refused, Say("Two.", reasoning="so"), full, "Three.", missed, "Four.",
        "Five.", missed, refused, "Six.", "Seven.",
    ]  # fmt: skip
    with ScriptServer(script) as server:
        spec = spec_at(server.url, max_output_tokens=32_000)
        for tasks in ("1234", "567"):
            with (
                create_client(spec) as client,
                init_session(spec, session_id="s", strict_cache_proof=False) as session,
            ):
                for task in tasks:
                    assert run_turn(client, "any", session, task).error is None
        sent = [("stream_options" in asked.json, asked.json["max_tokens"]) for asked in server.requests]
        place = kept(state)
        found = replay_session(place, spec)
        entries = load_journal(place.journal).entries
        told = [entry.fact.data for entry in entries if isinstance(entry.fact, Observation) and entry.fact.type == FORM]
    assert [
        (True, 32_000), (True, 32_000), (False, 32_000), (False, 32_000), (False, 30_000), (False, 30_000),
        (False, 30_000), (True, 32_000), (True, 32_000), (True, 32_000), (False, 32_000), (False, 32_000),
    ] == sent  # fmt: skip
    assert found.is_same
    assert (7, 7) == (found.told.requests, found.told.proved)
    room = {"output_max": 30_000}
    both = {"learnt": ["echo", "stream_options"]}
    without = {"learnt": ["stream_options"]}
    assert [without, {**without, **room}, {**both, **room}, {}, both] == told
    entries = [entry for entry in entries if not (isinstance(entry.fact, Observation) and entry.fact.type == FORM)]
    shutil.rmtree(place.path)
    write_journal(place.path, "s", {}, [replace(entry, seq=seq) for seq, entry in enumerate(entries, 1)])
    forgotten = replay_session(place, spec)
    assert (1, 2) == (forgotten.told.proved, forgotten.told.difference.turn if forgotten.told.difference else 0)
