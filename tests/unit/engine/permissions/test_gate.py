"""Rules judge a call as it will run, and a hook's word and theirs come together: deny before ask before allow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest

from plait.core.cancel import Cancel
from plait.core.messages import ToolCall, ToolResult
from plait.core.strict_json import dump
from plait.engine.gates import Gate, Gates
from plait.engine.permissions.gate import RulesGate
from plait.engine.permissions.rule import parse_rule
from plait.engine.permissions.ruling import Permissions
from plait.engine.permissions.subject import subject_of
from plait.kernel.effects import NOTHING, Allow
from plait.kernel.tools import Tool

PATCH = """*** Begin Patch
*** Update File: src/a.py
*** Move to: lib/a.py
@@
-x
+y
*** Add File: b.txt
+z
*** End Patch"""


def call_of(name: str, **arguments: object) -> tuple[ToolCall, Tool]:
    """Return a call and a tool of its name."""
    return ToolCall("c1", name, dump(arguments)), Tool(name, "", lambda **_: "")


class Word:
    """A hook that says one thing about every call."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    def before(self, call: ToolCall, tool: Tool, cancel: Cancel) -> Gate:
        """Say it."""
        return self.gate


def gate_of(root: str, rules: dict[str, str], word: Gate | None = None) -> RulesGate:
    """Return the gate of rules written as {rule: action}."""
    parsed = tuple(parse_rule(text, cast("Any", action)) for text, action in rules.items())
    inner = None if word is None else cast("Gates", Word(word))
    return RulesGate(Permissions(parsed, root), lambda call, tool: subject_of(call, tool, root), inner)


@pytest.mark.parametrize(
    "hook, rule, expected",
    [
        (None, None, None),
        (None, "allow", "allow"),
        (None, "ask", "ask"),
        (None, "deny", "deny"),
        ("allow", None, "allow"),
        ("allow", "ask", "ask"),
        ("allow", "deny", "deny"),
        ("ask", "allow", "ask"),
        ("ask", "deny", "deny"),
        ("deny", "allow", "deny"),
    ],
)
def test_the_stricter_word_holds(tmp_path: Path, hook: Any, rule: str | None, expected: str | None) -> None:
    """Whoever says it, a no beats a question and a question a yes."""
    call, tool = call_of("exec_shell", command="ls")
    rules = {} if rule is None else {"Bash(ls:*)": rule}
    gate = gate_of(str(tmp_path), rules, Gate(call, hook, "the hook")).before(call, tool, Cancel())
    assert expected == gate.word


def test_rules_judge_what_a_hook_made_of_a_call(tmp_path: Path) -> None:
    """A hook cannot put a forbidden command into an allowed call."""
    call, tool = call_of("exec_shell", command="ls")
    changed, _ = call_of("exec_shell", command="ls; rm -rf x")
    gate = gate_of(str(tmp_path), {"Bash(ls:*)": "allow", "Bash(rm:*)": "deny"}, Gate(changed, "allow"))
    said = gate.before(call, tool, Cancel())
    assert "deny" == said.word
    assert "the rule deny Bash(rm:*)" in said.reason


@pytest.mark.parametrize(
    "name, arguments, denied",
    [
        ("execute_shell_command", {"command": "rm x"}, True),
        ("bash", {"command": "/bin/rm x"}, True),
        ("nohup", {"command": "rm x"}, True),
        ("read_file", {"path": ".env"}, True),
        ("read_file", {"path": "link"}, True),
        ("read_file", {"path": "./sub/../.env"}, True),
        ("search_files", {"pattern": "x", "path": ".env"}, True),
        ("search_text", {"pattern": "x", "path": ".env"}, True),
        ("write_file", {"path": "lib/a.py", "content": ""}, True),
        ("edit_file", {"path": "lib/a.py", "old": "a", "new": "b"}, True),
        ("apply_patch", {"input": PATCH}, True),
        ("apply_patch", {"input": "no patch"}, False),
        ("read_file", {"path": "lib/a.py"}, False),
        ("read_file", {"path": "a\0b"}, False),
        ("todo", {"action": "list"}, False),
        ("mcp__db__query", {"command": "rm x"}, False),
        ("mcp__web__get", {"url": "x"}, True),
    ],
)
def test_a_rule_reaches_a_tool_under_all_its_names(
    tmp_path: Path, name: str, arguments: dict[str, object], denied: bool
) -> None:
    """Aliases, links, patches and searches come under the rule of what they do."""
    (tmp_path / "link").symlink_to(".env")
    rules = {"Bash(rm:*)": "deny", "Read(./.env)": "deny", "Edit(lib/**)": "deny", "mcp__web": "deny"}
    call, tool = call_of(name, **arguments)
    assert denied == (gate_of(str(tmp_path), rules).before(call, tool, Cancel()).word == "deny")


def test_a_rule_reaches_the_shell_under_a_name_of_its_own(tmp_path: Path) -> None:
    """A spec may call a built-in function and its arguments what it likes; what it does stays forbidden."""

    def t_run(command: str) -> str:
        return command

    def t_read(path: str) -> str:
        return path

    def t_execute_async(command: str) -> str:
        return command

    gate = gate_of(str(tmp_path), {"Bash(rm:*)": "deny", "Read(./.env)": "deny"})
    job = Tool("later", "", t_execute_async, param_map={"line": "command"})
    shell = Tool("terminal", "", t_run, param_map={"line": "command"})
    reader = Tool("cat", "", t_read, param_map={"file": "path"})
    calls = [
        (ToolCall("c1", "terminal", '{"line": "rm -rf x"}'), shell),
        (ToolCall("c1", "terminal", '{"line": "ls"}'), shell),
        (ToolCall("c1", "later", '{"line": "rm -rf x"}'), job),
        (ToolCall("c1", "cat", '{"file": ".env"}'), reader),
        (ToolCall("c1", "cat", '{"file": "a"}'), reader),
    ]
    assert ["deny", None, "deny", "deny", None] == [gate.before(call, tool, Cancel()).word for call, tool in calls]


def test_what_is_no_json_and_what_is_no_hook_is_taken(tmp_path: Path) -> None:
    """A call that cannot be read is judged by its name, and without hooks the gate has nothing more to say."""
    gate = gate_of(os.fspath(tmp_path), {"exec_shell": "deny"})
    call, tool = ToolCall("c1", "exec_shell", "{"), Tool("exec_shell", "", lambda: "")
    result = ToolResult("c1", "x")
    assert "deny" == gate.before(call, tool, Cancel()).word
    assert (None, result, NOTHING, None) == (
        gate.permission(call, tool, Cancel()),
        gate.after(call, tool, result, Cancel()),
        gate.at_end(Cancel()),
        gate.stop(),
    )


@pytest.mark.parametrize(
    "rules, word",
    [({}, "allow"), ({"Bash(rm:*)": "deny"}, "deny"), ({"Bash(rm:*)": "ask"}, "deny"), ({"Bash": "allow"}, "allow")],
)
def test_a_yes_to_another_call_is_judged_as_that_call(tmp_path: Path, rules: dict[str, str], word: str) -> None:
    """Whoever answers in an approver's place cannot have something run that nobody has judged."""
    call, tool = call_of("exec_shell", command="ls")
    changed, _ = call_of("exec_shell", command="rm -rf x")

    class Answering(Word):
        def permission(self, call: ToolCall, tool: Tool, cancel: Cancel) -> Allow:
            return Allow(changed)

    subject = gate_of(str(tmp_path), rules)
    subject._inner = cast("Gates", Answering(Gate(call)))
    assert (Allow(changed) == subject.permission(call, tool, Cancel())) == (word == "allow")
