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
from plait.core.facts import MessageAdded
from plait.core.messages import user
from plait.engine.limits import Limits
from plait.engine.spec import default_specification
from plait.kernel.rules import Retry
from plait.kernel.tools import Tool
from plait.session.clients import create_client
from plait.session.opening import init_session
from plait.session.replaying import replay_session
from plait.session.turns import run_turn
from plait.store.layout import SessionFolder
from plait.store.opening import load_journal
from plait.store.salvage import write_journal
from plait.store.sessions import Sessions
from plait.testing import Call, Say, ScriptServer
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
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep sessions here, and work elsewhere."""
    monkeypatch.setenv("PLAIT_HOME", str(tmp_path / "state"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return tmp_path / "state"


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
