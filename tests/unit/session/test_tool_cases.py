"""Tools of a session: those that run side by side, and commands that another program rewrites."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from plait import (
    Tool,
    default_tool_spec,
    enable_rtk_rewrite,
    init_session,
    load_specification,
    run_agent,
    run_task,
)
from plait.session.defaults import LIBRARY
from plait.testing import Call, Say, ScriptedModel

URL = "http://127.0.0.1:1/v1"


def test_twenty_readers_run_at_once_and_answer_in_order() -> None:
    """Twenty calls of one answer that only look finish with the slowest of them, and their results keep their order."""
    together = threading.Barrier(20, timeout=30)

    def look(at: int) -> str:
        return f"{at} of {together.parties} after {together.wait() >= 0}"

    calls = [Call("look", {"at": number}) for number in range(20)]
    tool = Tool("look", "Look.", look, parallel_safe=True)
    with ScriptedModel([Say("", calls=calls), "done"]) as model:
        result = run_agent(task="x", model="m", endpoint=URL, tools=[tool], client=model)

    found = [message["content"] for message in result.messages if message["role"] == "tool"]
    assert [f"{number} of 20 after True" for number in range(20)] == found
    _, table = default_tool_spec("read_file", "glob", "list_dir", "search_files", "file_info")
    spec = {"model": "m", "endpoint": URL, "tool_specs": default_tool_spec(*table)[0]}
    with init_session(spec) as session:
        tools = session._live.conversation.terms.tools
        assert [True] * 5 == [tools.get(name).parallel_safe for name in table]  # type: ignore[union-attr]


def test_e44_commands_are_rewritten_by_rtk(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E44: without rtk on the PATH nothing changes; with it the command that it says runs, in sessions too."""
    monkeypatch.setattr(LIBRARY, "_rtk", None)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert False is enable_rtk_rewrite()
    stub = here / "bin" / "rtk"
    stub.parent.mkdir()
    stub.write_text('#!/bin/sh\n[ "$1 $2" = "rewrite echo hi" ] && echo "echo rewritten"\n')
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stub.parent}:/usr/bin:/bin")

    assert True is enable_rtk_rewrite()
    with ScriptedModel(
        [Call("exec_shell", {"command": "echo hi"}), Call("bash", {"command": "echo ho"}), "x"]
    ) as model:
        result = run_task(load_specification("m", URL), "x", client=model)

    assert ["rewritten", "ho"] == [message["content"] for message in result.messages if message["role"] == "tool"]
