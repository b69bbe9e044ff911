"""What hooks call tools and arguments, and how a change finds its way back."""

from __future__ import annotations

from typing import Any

import pytest

from plait.hooks.matching import matches
from plait.hooks.names import Called

SHELL = frozenset({"command", "timeout_s"})
EDIT = frozenset({"path", "old_str", "new_str", "replace_all"})


def called(native: str, arguments: dict[str, Any], parameters: frozenset[str], *names: str) -> Called:
    """Return a call of a tool that goes by other names as well."""
    return Called.of(native, names, arguments, parameters)


@pytest.mark.parametrize(
    "matcher, is_meant",
    [
        ("", True),
        ("*", True),
        ("Bash", True),
        ("exec_shell", True),
        ("execute_shell_command", True),
        ("Edit|Bash", True),
        ("Edit, Bash", True),
        ("bash", True),
        ("Bas", False),
        ("BASH", False),
        ("Ba.h", True),
        ("^Ba", True),
        ("Edit.*", False),
        ("(", False),
    ],
)
def test_a_matcher_means_any_name_of_a_tool(matcher: str, is_meant: bool) -> None:
    """Words are exact, everything else is searched for, under every name that the tool has."""
    names = called("execute_shell_command", {}, SHELL, "exec_shell", "bash").names

    assert (is_meant, "Bash") == (matches(matcher, names), names[0])


def test_other_names_of_the_tools() -> None:
    """A patch is known as both programs know it, and a tool of somebody's own by its name alone."""
    assert ("MultiEdit", "Edit", "Write", "apply_patch") == called("apply_patch", {}, frozenset()).names
    assert ("mine",) == called("mine", {}, frozenset()).names


def test_arguments_go_by_both_names() -> None:
    """A hook reads plait's names, the advertised ones and those of other programs."""
    told = called("edit_file", {"path": "a", "old": "b", "new": "c"}, frozenset({"path", "old", "new"})).tool_input

    assert {"path": "a", "old": "b", "new": "c"} | {
        "file_path": "a",
        "old_str": "b",
        "old_string": "b",
        "new_str": "c",
        "new_string": "c",
    } == told
    assert {"command": "ls", "timeout_s": 5, "timeout": 5000} == called(
        "bash", {"command": "ls", "timeout_s": 5}, SHELL
    ).tool_input


@pytest.mark.parametrize(
    "updated, expected",
    [
        ({"file_path": "z"}, {"path": "z"}),
        ({"path": "z"}, {"path": "z"}),
        ({"path": "a", "file_path": "z", "old_string": "b"}, {"path": "z"}),
        ({"path": "y", "file_path": "z"}, {"path": "y"}),
        ({"new_string": "N", "old_str": "O"}, {"old_str": "O", "new_str": "N"}),
        ({"more": 1}, {"more": 1}),
        ({}, {}),
    ],
)
def test_a_change_comes_back_under_the_names_of_the_call(updated: dict[str, Any], expected: dict[str, Any]) -> None:
    """What a hook changed counts, under whichever name; what it leaves out stays."""
    arguments = {"path": "a", "old_str": "b", "new_str": "c", "replace_all": True}

    assert {**arguments, **expected} == called("str_replace", arguments, EDIT).merged(updated)


def test_a_shell_s_own_arguments() -> None:
    """Milliseconds become seconds, and what says nothing here is dropped for a shell, and for no other tool."""
    call = called("exec_shell", {"command": "ls"}, SHELL)
    other = called("mine", {"timeout": 3}, frozenset({"timeout", "description"}))

    assert {"command": "ls -l", "timeout_s": 1.5} == call.merged(
        {"command": "ls -l", "timeout": 1500, "description": "list", "run_in_background": False}
    )
    assert {"timeout": 4, "description": "x"} == other.merged({"timeout": 4, "description": "x"})
    timed = called("exec_shell", {"command": "ls", "timeout_s": 5}, SHELL)
    assert {"command": "ls", "timeout_s": 9} == timed.merged({**timed.tool_input, "timeout_s": 9})
