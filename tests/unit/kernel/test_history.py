"""What every provider demands of a history."""

from __future__ import annotations

import pytest

from plait.core.messages import Message, ToolResult, assistant, user
from plait.kernel.history import fault_in
from tests.helpers.worlds import call

CALLS = assistant(calls=[call("look", "a"), call("look", "b")])


def results(*ids: str) -> Message:
    """Make a tool message."""
    return Message("tool", tuple(ToolResult(each) for each in ids))


@pytest.mark.parametrize(
    "history", [[], [user("a"), user("b")], [user("a"), CALLS, results("a", "b"), CALLS, results("a", "b"), user("c")]]
)
def test_a_whole_history_has_no_fault(history: list[Message]) -> None:
    """Each call answered once, right after, in order: nothing to say."""
    assert fault_in(history) is None


@pytest.mark.parametrize(
    "history, words",
    [
        ([CALLS], "have no results"),
        ([CALLS, results("a")], "message 1"),
        ([CALLS, results("b", "a")], "message 1"),
        ([CALLS, results("a", "b", "b")], "message 1"),
        ([CALLS, user("x"), results("a", "b")], "stands between"),
        ([CALLS, results("a", "b"), results("a", "b")], "message 2"),
        ([results()], "message 0"),
        ([user("x"), results("a")], "message 1"),
    ],
)
def test_a_fault_is_named(history: list[Message], words: str) -> None:
    """A result too many, too few, in another order or place, and a call without one are found."""
    assert words in (fault_in(history) or "")
