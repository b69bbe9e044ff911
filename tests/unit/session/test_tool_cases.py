"""Tools of a session: those that run side by side, and commands that another program rewrites."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from plait import (
    Tool,
    default_tool_spec,
    enable_rtk_rewrite,
    extract_inline_calls,
    init_session,
    inline_system_prompt,
    load_specification,
    run_agent,
    run_task,
)
from plait.session.defaults import LIBRARY
from plait.testing import Call, Say, ScriptedModel, ScriptServer
from plait.tools.extra_specs import grammar

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


def test_a_model_without_structured_calls_uses_every_kind_of_tool(here: Path) -> None:
    """Calls that stand as JSON in the text run, a patch by its grammar's tool too; the prompt shows one of each."""
    schemas, _ = default_tool_spec("todo")
    entry = {"type": "custom", "name": "apply_patch", "description": "Patch.", "format": grammar()}
    patch = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"
    calls = [
        {"name": "apply_patch", "arguments": {"input": patch}},
        {"function_name": "todo", "parameters": {"action": "add", "text": "t"}},
    ]
    with ScriptServer([f"I begin.\n{json.dumps(calls)}", "done"]) as server:
        spec = {
            "model": "m",
            "endpoint": server.url,
            "tool_specs": [entry, *schemas],
            "behaviour": {"call_delivery_mode": "inline"},
        }
        result = run_task(spec, "x", strict_cache_proof=False)

    assert ("done", "x\n") == (result.final_reply, (here / "a").read_text())
    first, second = server.requests
    assert inline_system_prompt(spec) in first.messages[0]["content"]
    assert '{"name":"apply_patch","arguments":{"input":"<text>"}}' in first.messages[0]["content"]
    assert (
        "Tool results:\n[apply_patch] OK: 1 file changed\nA a (+1)\n[todo] Todos (0/1 done):\n  [ ] 1. t"
        == (second.messages[-1]["content"])
    )
    assert [call["name"] if "name" in call else call["function_name"] for call in calls] == [
        call.name for call in extract_inline_calls(json.dumps(calls))
    ]
