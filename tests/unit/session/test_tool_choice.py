"""E19: tools are taken away from a session and given back, or added from the library, and a resume keeps to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plait import (
    Tool,
    activate_tool,
    default_tool_spec,
    init_session,
    load_specification,
    register_tools_in_library,
    remove_tool,
    run_turn,
)
from plait.core.errors import ConfigError
from plait.session.session import Session
from plait.testing import Call, ScriptedModel

URL = "http://127.0.0.1:1/v1"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAIT_HOME", str(tmp_path / "state"))


def open_one(**options: Any) -> Session:
    """Open a session with the default tools."""
    return init_session(load_specification("m", URL), **({"session_id": "s", "strict_cache_proof": False} | options))


def shown(session: Session, *script: Any) -> tuple[list[str], list[str]]:
    """Run a turn; return the names that the model saw and the results that it got."""
    with ScriptedModel([*script, "done"]) as model:
        result = run_turn(model, "m", session, "x")
    names = [tool.name for tool in model.requests[0].setup.tools]
    return names, [message["content"] for message in result.messages if message["role"] == "tool"]


def test_e19_removed_and_given_back(here: Path) -> None:
    """The next request lacks a tool that was removed, calls to any of its names fail, and it comes back as it was."""
    (here / "a.txt").write_text("x")
    with open_one() as session:
        before = [dict(tool) for tool in session["tools"]]
        assert "exec_shell" == remove_tool(session, "execute_shell_command")
        names, results = shown(session, Call("bash", {"command": "ls"}), Call("exec_shell", {"command": "ls"}))
        assert ["read_file", "write_file", "str_replace"] == names == list(session["tool_dispatch"])
        assert all("Unknown tool" in result for result in results)

        assert "exec_shell" == activate_tool(session, "t_run") == activate_tool(session, "bash")

        names, results = shown(session, Call("execute_shell_command", {"command": "ls"}))
        assert ["read_file", "write_file", "str_replace", "exec_shell"] == names
        assert "a.txt" in results[-1]
        assert before == session["tools"]


def test_e19_tools_of_the_library(here: Path) -> None:
    """A tool that the spec does not list comes by its function, with the library's own words, and works at once."""
    (here / "a.txt").write_text("needle\n")

    def shout(text: str) -> str:
        """Shout something.

        More words.
        """
        return text.upper()

    register_tools_in_library([Tool("shout", "unused", shout)])
    with open_one() as session:
        assert ["glob", "str_replace", "shout"] == [
            activate_tool(session, n) for n in ("t_find_files", "t_update", "shout")
        ]
        remove_tool(session, "str_replace")
        assert "str_replace" == activate_tool(session, "str_replace")
        change = {"path": "a.txt", "old_str": "needle", "new_str": "pin"}
        calls = (Call("find_files", {"pattern": "*.txt"}), Call("shout", {"text": "a"}), Call("str_replace", change))
        names, results = shown(session, *calls)
        with pytest.raises(ConfigError) as caught:
            remove_tool(session, "read_fil")
        assert "did you mean 'read_file'?" == caught.value.hint
        with pytest.raises(ConfigError, match="no tool is called 'nope'"):
            activate_tool(session, "nope")

    assert ["read_file", "write_file", "str_replace", "exec_shell", "glob", "shout"] == names
    assert ["a.txt", "A"] == results[:2]
    assert "pin\n" == (here / "a.txt").read_text()
    assert default_tool_spec("glob")[0][0] == session["tools"][4]
    assert "Shout something." == session["tools"][5]["function"]["description"]


def test_e19_who_cannot_be_asked_is_not_asked() -> None:
    """Tools that ask the user cannot be had in a session without one, and those of the spec are not shown."""
    schemas, table = default_tool_spec("clarify", "ask_user", "read_file")
    spec = {"model": "m", "endpoint": URL, "tool_specs": schemas, "tool_dispatch": table}
    with init_session(spec, durable=False, non_interactive=True, strict_cache_proof=False) as quiet:
        names, results = shown(quiet, Call("clarify", {"question": "Which?"}))
    assert ["read_file"] == names
    assert "Nobody is there" in results[0]
    with open_one(non_interactive=True) as session, pytest.raises(ConfigError, match="nobody can be asked"):
        activate_tool(session, "t_ask_user")


def test_a_resumed_session_has_the_tools_that_were_chosen() -> None:
    """What was removed stays away and what was added stays there in another process, until somebody chooses anew."""
    with open_one() as session:
        remove_tool(session, "write_file")
        activate_tool(session, "list_dir")
        remove_tool(session, "exec_shell")
        activate_tool(session, "exec_shell")
    with open_one() as again:
        names, _ = shown(again)
        activate_tool(again, "write_file")
        last, _ = shown(again)

    assert ["read_file", "str_replace", "exec_shell", "list_dir"] == names
    assert ["read_file", "write_file", "str_replace", "exec_shell", "list_dir"] == last


def test_a_model_that_reads_of_its_tools_reads_of_these() -> None:
    """Where tools stand in the prompt, the prompt is brought up; one of the host's own is left as it is."""
    spec = {**load_specification("m", URL), "behaviour": {"call_delivery_mode": "inline"}}
    with init_session(spec, durable=False) as session:
        remove_tool(session, "exec_shell")
        prompt = session["messages"][0]["content"]
        session["messages"][0]["content"] = "mine"
        remove_tool(session, "read_file")

    assert ("exec_shell" in prompt, "read_file" in prompt) == (False, True)
    assert "mine" == session["messages"][0]["content"]
