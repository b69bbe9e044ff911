"""The profile of a session: what it permits holds in every turn, in every process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plait.cli.specs import built_in_spec
from plait.core.errors import ConfigError
from plait.engine.profile import Profile
from plait.kernel.tools import Tool
from plait.session.clients import create_client
from plait.session.history.replaying import replay_session
from plait.session.opening import init_session
from plait.session.tool_choice import activate_tool
from plait.session.turns import run_turn
from plait.testing import Call, Say, ScriptServer

LOOKING = {"read_file", "list_dir", "glob", "search_files"}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAIT_HOME", str(tmp_path / "state"))


@pytest.fixture
def server() -> Iterator[ScriptServer]:
    """Asks for a write under two names and for a command, and for a look, again and again."""

    def answer(request: Any) -> Any:
        if request.json["messages"][-1]["role"] == "tool":
            return "Done."
        calls = [
            Call("write_file", {"path": "a.txt", "content": "x"}),
            Call("execute_shell_command", {"command": "touch b.txt"}),
            Call("list_dir", {"path": "."}),
        ]
        return Say(calls=calls)

    with ScriptServer(answer) as found:
        yield found


def shown(server: ScriptServer) -> set[str]:
    return {tool["function"]["name"] for tool in server.requests[-1].json.get("tools", ())}


def test_what_a_profile_does_not_permit_is_neither_shown_nor_run(server: ScriptServer, tmp_path: Path) -> None:
    """Its words are in the prompt; other tools are refused under every name, after a resume and in a replay too."""
    spec = built_in_spec("any", server.url)
    own = Tool("change", "Change.", lambda: "changed", parameters={"type": "object"})
    for number in range(2):
        with (
            create_client(spec) as client,
            init_session(
                spec,
                session_id="s",
                tools=[own],
                profile="safe" if number == 0 else None,
                strict_cache_proof=False,
            ) as session,
        ):
            assert LOOKING == {tool["function"]["name"] for tool in session["tools"]}
            result = run_turn(client, "any", session, "go")
            with pytest.raises(ConfigError, match="profile does not permit"):
                activate_tool(session, "nohup" if number else "change")

        assert "completed" == result.status
        told = [item["content"] for item in result.messages if item["role"] == "tool"][-3:]
        assert "ERROR: The tool 'write_file' is not permitted here." == told[0].split("\n")[0]
        assert "ERROR: The tool 'execute_shell_command' is not permitted here." == told[1].split("\n")[0]
        assert LOOKING == shown(server)
        assert "look at files and change nothing" in server.requests[-1].json["messages"][0]["content"]
    assert not {"a.txt", "b.txt"} & {path.name for path in Path.cwd().iterdir()}
    assert replay_session("s", {**spec}).is_same


def test_a_profile_is_chosen_when_a_session_begins(server: ScriptServer) -> None:
    """It names the model and how much it thinks; a session goes on with its own profile and no other."""
    spec = built_in_spec("any", server.url)
    profile = Profile("mine", "Be brief.", [], "other-model", reasoning="high")
    with create_client(spec) as client:
        with init_session(spec, session_id="s", profile=profile, bare=True, strict_cache_proof=False) as session:
            assert "other-model" == session["model"]
            run_turn(client, session["model"], session, "go")
            assert "high" == session._live.conversation.terms.setup.options.reasoning
        assert "Be brief." == server.requests[-1].json["messages"][0]["content"]
        assert "tools" not in server.requests[-1].json
        for wanted in ("safe", Profile("other")):
            with pytest.raises(ConfigError, match="began with the profile 'mine'"):
                init_session(spec, session_id="s", profile=wanted)
        with init_session(spec, session_id="s", profile=profile, strict_cache_proof=False) as session:
            run_turn(client, session["model"], session, "more")
            assert "high" == session._live.conversation.terms.setup.options.reasoning
        with init_session(spec, session_id="t", strict_cache_proof=False, bare=True) as session:
            run_turn(client, "any", session, "go")
        with pytest.raises(ConfigError, match="began without a profile"):
            init_session(spec, session_id="t", profile="safe")


def test_a_session_that_is_restored_keeps_its_profile(server: ScriptServer) -> None:
    """Without a journal too: its dict says what it may call, and another profile is refused."""
    spec = built_in_spec("any", server.url)
    with init_session(spec, profile="safe", durable=False) as session:
        told = json.loads(json.dumps(session))
    with create_client(spec) as client:
        with init_session(spec, session=told, durable=False, strict_cache_proof=False) as session:
            result = run_turn(client, "any", session, "go")
        assert "not permitted" in next(item["content"] for item in result.messages if item["role"] == "tool")
        assert LOOKING == shown(server)
    with pytest.raises(ConfigError, match="began with the profile 'safe'"):
        init_session(spec, session=told, durable=False, profile="coder")
