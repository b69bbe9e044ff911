"""The seven tools as a model and a host see them."""

from __future__ import annotations

import json

import pytest

from plait.core.messages import ToolCall
from plait.engine.validation import compile_schema
from plait.kernel.tools import ToolTable
from plait.tools.aliases import alias_tools
from plait.tools.spec import build_tool_spec
from plait.tools.toolbox import Toolbox

from .conftest import MakeToolbox


def test_the_tools_are_flagged_by_what_they_do(box: Toolbox) -> None:
    """What only reads may run in parallel and asks nobody; what changes something is alone and gated."""
    flags = {tool.name: (tool.mutates, tool.runs_code, tool.parallel_safe) for tool in box.tools()}
    reads, writes = (False, False, True), (True, False, False)
    expected = {
        "read_file": reads,
        "write_file": writes,
        "str_replace": writes,
        "exec_shell": (True, True, False),
        "list_dir": reads,
        "glob": reads,
        "search_files": reads,
    }
    assert expected == flags
    assert ["ask_user", "ask_user_question"] == [tool.name for tool in box.asking_tools()]


def test_what_is_sent_with_every_request_is_small_and_never_changes(box: Toolbox) -> None:
    """The schemas of all tools take less than 1,500 tokens and are the same each time they are asked for."""
    sent = json.dumps(build_tool_spec(box.tools())[0])
    assert len(sent) < 6_000
    assert sent == json.dumps(build_tool_spec(box.tools())[0])


def test_the_shells_limits_are_told_to_the_model(make: MakeToolbox) -> None:
    """The schema says what the time limit is and how far it goes, as the session has it."""
    shell = next(tool for tool in make(timeout_s=7, timeout_max_s=90).tools() if tool.name == "exec_shell")
    limit = shell.resolved_parameters["properties"]["timeout_s"]  # type: ignore[index]
    assert ("Seconds it may run; 7 unless given, at most 90.", 90) == (limit["description"], limit["maximum"])


@pytest.mark.parametrize(
    "name, arguments, is_fine",
    [
        ("read_file", {"path": "a", "offset": 3}, True),
        ("read_file", {"path": "a", "offset": 0}, False),
        ("read_file", {"file": "a"}, False),
        ("edit_file", {"path": "a", "old": "x", "new": "y"}, True),
        ("edit_file", {"path": "a", "old_str": "x", "new_str": "y"}, False),
        ("exec_shell", {"command": "ls", "timeout_s": 1e9}, False),
        ("bash", {"command": "ls", "timeout_s": 5}, True),
        ("list_dir", {}, True),
        ("search_files", {"pattern": "x", "include": "*.py", "context": 0}, True),
    ],
)
def test_arguments_are_checked_against_the_schemas(
    box: Toolbox, name: str, arguments: dict[str, object], is_fine: bool
) -> None:
    """What does not fit a tool's parameters is told before anything runs, under any of its names."""
    tools = box.tools()
    table = ToolTable([*tools, *alias_tools(box, tools)], compile=compile_schema)
    assert is_fine == (table.check(ToolCall.of("1", name, arguments)) is None)
