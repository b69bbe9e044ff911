"""MCP servers of sessions: when the model is shown their tools, what is told, what a crash leaves."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from plait import create_client, init_session, replay_session, run_turn
from plait.core.errors import ConfigError
from plait.core.messages import Image, ToolCall
from plait.engine.approval import Deny
from plait.kernel.tools import Tool
from plait.serve.mcp_server import serve_tools
from plait.session.session import Session
from plait.testing import Call, ScriptedModel, ScriptServer
from plait.tools import definitions
from plait.tools.spec import schema_entry
from tests.helpers.mcp_server import command, table

READ = schema_entry(definitions.READ_FILE.tool(lambda: None))
SPEC: dict[str, Any] = {"model": "m", "endpoint": "http://127.0.0.1:9", "tool_specs": [READ]}


class Told(list[tuple[str, Any]]):
    """Every event of a session."""

    def __call__(self, name: str, event: Any) -> None:
        self.append((name, event))

    @property
    def servers(self) -> list[tuple[str, str]]:
        return [(event.server, event.state) for name, event in self if name == "mcp_server"]


def opened(told: Told | None = None, *, spec: dict[str, Any] = SPEC, **options: Any) -> Session:
    return init_session(spec, strict_cache_proof=False, on_event=told, **{"durable": False, **options})


def tool_names(model: ScriptedModel, request: int) -> list[str]:
    return [tool.name for tool in model.requests[request].setup.tools]


def test_the_model_calls_a_servers_tool_beside_its_own(tmp_path: Path) -> None:
    """From the first request on, under its own name, gated unless it only reads; the session's keys say the same."""
    judged: list[str] = []

    class Approver:
        def approve(self, call: ToolCall, tool: Tool) -> Deny | bool:
            judged.append(tool.name)
            return Deny("not today")

    told, effects = Told(), tmp_path / "effects"
    calls = [
        Call("mcp__fake__echo", {"text": "hello"}),
        Call("mcp__fake__picture", {}),
        Call("mcp__fake__note", {"path": str(effects)}),
    ]
    with (
        ScriptedModel([*calls, "done"]) as model,
        opened(told, mcp_servers=[table("fake")], approver=Approver()) as session,
    ):
        result = run_turn(model, "m", session, "go")

        assert ("completed", "done") == (result.status, result.final_reply)
        assert {"read_file", "mcp__fake__echo"} <= set(tool_names(model, 0))
        assert tool_names(model, 0) == [tool["function"]["name"] for tool in session["tools"]]
        assert {"python_function": "mcp__fake__echo", "param_map": {}} == session["tool_dispatch"]["mcp__fake__echo"]
        json.dumps(session)
    results = [message.tool_results[0] for message in model.requests[-1].messages if message.tool_results]
    assert ["hello", "ok"] == [results[0].content, results[1].status]
    assert isinstance(results[1].images[0], Image)
    assert ("denied", ["mcp__fake__note"]) == (results[2].status, judged)
    assert not effects.exists()
    assert [("fake", "ready")] == told.servers


def test_a_turn_goes_on_without_what_is_slow_or_broken() -> None:
    """A server that cannot be started and one that takes its time cost a line each; the slow one joins a later turn."""
    told = Told()
    servers = [table("slow", "sleeps=0.5", startup_timeout=0.01), {"name": "gone", "command": "/nowhere/server"}]
    with ScriptedModel(["one", "two"]) as model, opened(told, mcp_servers=servers) as session:
        assert "completed" == run_turn(model, "m", session, "go").status
        assert ["read_file"] == tool_names(model, 0)
        assert {("slow", "late"), ("gone", "failed")} == set(told.servers)
        attached = session._live.mcp
        assert attached is not None
        (slow, beginning), _ = attached.servers.beginnings()
        beginning.result(20)
        assert "completed" == run_turn(model, "m", session, "on").status
        assert "mcp__slow__echo" in tool_names(model, 1)
    assert ("slow", "ready") == told.servers[-1]
    assert "closed" == slow.state


def test_new_tools_come_with_the_next_turn() -> None:
    """A list that changes in the middle of a turn changes nothing in it; the prompt is recorded anew with the next, and
    of what nobody agreed to it has the name alone."""
    told = Told()
    script = [Call("mcp__fake__grow", {"name": "fresh"}), Call("mcp__fake__echo", {"delay_s": 0.3}), "one", "two"]
    with ScriptedModel(script) as model, opened(told, mcp_servers=[table("fake")], durable=True) as session:
        run_turn(model, "m", session, "go")
        run_turn(model, "m", session, "on")
        folder = session.kept_in
    assert ["mcp__fake__fresh" in tool_names(model, number) for number in range(4)] == [False, False, False, True]
    assert "does fresh" not in str(model.requests[3].setup.tools)
    assert [("fake", "ready"), ("fake", "changed"), ("fake", "held")] == told.servers
    assert folder is not None
    facts = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    assert 1 == sum(fact.get("type") == "prompt" for fact in facts)


def test_the_repositorys_own_servers_wait_for_trust(here: Path) -> None:
    """A `.mcp.json` starts nothing and is said so once; an embedder that vouches for it gets its tools."""
    file = {"mcpServers": {"own": {"command": command()[0], "args": command()[1:], "cwd": "."}}}
    (here / ".mcp.json").write_text(json.dumps(file))
    for trust, states in ((None, ["skipped"]), (False, []), (True, ["ready"])):
        told = Told()
        with ScriptedModel(["one", "two"]) as model, opened(told, trust=trust) as session:
            run_turn(model, "m", session, "go")
            run_turn(model, "m", session, "on")
        assert states == [state for _, state in told.servers]
        assert ("mcp__own__echo" in tool_names(model, 0)) == (trust is True)


def test_a_server_is_named_by_the_spec_too() -> None:
    """In either shape; the caller's declaration of the same name counts."""
    for declared in ({"fake": {"command": "/nowhere"}}, [{"name": "fake", "command": "/nowhere"}]):
        spec = {**SPEC, "mcp_servers": declared}
        told = Told()
        with ScriptedModel(["one"]) as model, opened(told, spec=spec, mcp_servers=[table("fake")]) as session:
            run_turn(model, "m", session, "go")
        assert [("fake", "ready")] == told.servers


@pytest.mark.parametrize(
    "given, words",
    [
        ([{"name": "x"}], "needs either 'command' or 'url'"),
        ([{"name": "x", "command": "a", "url": "http://b"}], "needs either"),
        ([{"command": "a"}], "has no name"),
        ([{"name": "x", "command": "a"}, {"name": "x", "command": "b"}], "two MCP servers"),
        ([{"name": "x", "command": ["a", "b"]}], "'command' that is no text"),
        ([{"name": "x", "command": "a", "args": "b"}], "'args' that are no list"),
        ([{"name": "x", "command": "a", "env": {"A": None}}], "'env' that is no object"),
        ([{"name": "x", "command": "a", "timeout": 0}], "'timeout' that is no number of seconds"),
        ([{"name": "x", "command": "${NOT_SET_ANYWHERE}"}], "needs the variable 'NOT_SET_ANYWHERE'"),
        ([{"name": "x", "url": "ftp://b"}], "no http address"),
        ([{"name": "x", "command": "a", "type": "http"}], "the type 'http' and a command"),
        ([{"name": "x", "command": "a", "comand": "b"}], "unknown field 'comand'"),
        ({"x": 1}, "is no object"),
        ("nowhere.json", "cannot read"),
        (7, "mcp_servers is 'int'"),
    ],
)
def test_a_declaration_that_cannot_be_used_is_refused(given: Any, words: str) -> None:
    """Before anything is started, with the server and the field."""
    with pytest.raises(ConfigError, match=words):
        opened(mcp_servers=given)


def test_a_stop_ends_the_wait_for_servers() -> None:
    """A turn that is told to stop does not wait for a server first."""
    from plait.core.cancel import Cancel

    cancel = Cancel()
    cancel.cancel("interrupted")
    servers = [table("slow", "sleeps=30", startup_timeout=30)]
    began_s = time.monotonic()
    with ScriptedModel(["one"], allow_unused=True) as model, opened(mcp_servers=servers) as session:
        assert "interrupted" == run_turn(model, "m", session, "go", cancel=cancel).status
    assert time.monotonic() - began_s < 20


def test_a_replay_needs_no_server() -> None:
    """Tools that came with the second turn, and calls that ran side by side, come out the same without them."""
    calls = [Call("mcp__slow__echo", {"text": str(number)}) for number in range(3)]
    with ScriptServer(["one", calls, "two"]) as server:
        spec = {**SPEC, "endpoint": server.url}
        servers = [table("slow", "sleeps=0.3", startup_timeout=0.01)]
        with create_client(spec) as client, opened(spec=spec, mcp_servers=servers, durable=True) as session:
            run_turn(client, "m", session, "go")
            attached = session._live.mcp
            assert attached is not None
            ((_, beginning),) = attached.servers.beginnings()
            beginning.result(20)
            assert "two" == run_turn(client, "m", session, "on").final_reply
            folder = session.kept_in
    assert folder is not None
    replayed = replay_session(folder, {**spec, "mcp_servers": [table("slow", "exits-at-once")]})
    assert replayed.is_same
    assert 3 == replayed.told.requests


def test_without_the_package_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Before anything is started, of servers for a model and of plait as a server alike; no server needs no package."""
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    for begin in (lambda: opened(mcp_servers=[table("fake")]), lambda: serve_tools(tmp_path)):
        with pytest.raises(ConfigError, match="need the package 'mcp'") as caught:
            begin()
        assert "pip install 'plait[mcp]'" in caught.value.hint
    opened(mcp_servers=[]).close()
