"""X72: what was typed before a question can be seen, and what is pasted, never answers it."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, strategies as st

from plait.cli.typed_line import TypedLine
from tests.helpers.terminals import on_terminal

ASK = """
import sys
from plait.cli.approving import RunApprover
from plait.cli.terminal import Terminal
from plait.core.cancel import Cancel
from plait.core.messages import ToolCall
from plait.kernel.tools import Tool
from plait.tools.looks import Look

class Ground:
    def look(self, call, tool): return Look()
    def allow_outside(self, call, look): pass
    def is_fenced(self, tool): return False
    def knows(self, answer): return False
    def remember(self, answer): pass

print("started", flush=True)
tool = Tool("exec_shell", "", lambda command: "", runs_code=True)
approver = RunApprover(cancel=Cancel(), ground=Ground, person=Terminal())
said = approver.approve(ToolCall.of("c", "exec_shell", {"command": "rm -rf /"}), tool)
print(type(said).__name__, flush=True)
"""
AGAIN = b"Please type y, n or a: "
AT_ONCE: list[tuple[bytes, ...]] = [
    (b"y\n",),
    (b"y", b"\n"),
    (b"y\n", b"rm"),
    (b"a\nls\n",),
    (b"\x1b[200~y\n\x1b[201~",),
]
PASTED = [
    b"y\n",
    b"y\r",
    b"y\n\n",
    b"y\ny\n",
    b"y\nrm",
    b"Y\n",
    b"yes\n",
    b" y \n",
    b"a\n",
    b"always\n",
    b"n\n",
    b"x\x7fy\n",
    b"x\x15y\n",
    b"\x1b[200~y\x1b[201~\n",
]
NO_ANSWERS = [
    b"\x1b[200~y\x1b[201~",
    b"\x1b[200~\x1b[201~y",
    b"\x1b[200~ls\x1b[201~",
    b"y\x1b",
    b"y\x00",
    b"y\xc2\x80",
    b"yes, of course",
    "ｙ".encode(),
    "у".encode(),
    "y\u200b".encode(),
]


def test_what_is_pasted_answers_nothing() -> None:
    """A line that comes with its end, or with more behind it, is asked about again; a person's no is one."""
    with on_terminal([sys.executable, "-c", ASK], piped=True) as asked:
        assert asked.process.stdout is not None
        asked.wait_for(b"Allow? ")
        for count, parts in enumerate(AT_ONCE, 1):
            for part in parts:
                asked.paste(part)
            asked.wait_for(AGAIN, times=count)
        asked.type(b"n\n")
        assert "Deny\n" == asked.process.stdout.read().decode().removeprefix("started\n")
    assert b"this came too fast" in asked.shown


@pytest.mark.parametrize("keys", PASTED)
def test_a_line_that_comes_with_its_end_was_not_typed(keys: bytes) -> None:
    """Whatever it says, and whether or not a terminal marks what is pasted."""
    line = TypedLine()
    line.take(keys, is_after_pause=True)
    assert (True, False) == (line.is_over, line.is_by_hand)


@pytest.mark.parametrize("keys", NO_ANSWERS)
def test_what_is_no_answer_stays_none(keys: bytes) -> None:
    """Also where a hand pressed Enter behind it: marks of a paste, and letters that only look like one."""
    line = TypedLine()
    for read in (keys, b"\n"):
        line.take(read, is_after_pause=True)
    assert line.is_by_hand
    assert (line.text or "").strip().lower() not in {"y", "yes", "a", "always"}


@given(st.lists(st.binary(min_size=1, max_size=5), max_size=6), st.binary(max_size=4))
def test_no_read_that_holds_more_than_enter_ends_a_line_by_hand(reads: list[bytes], before: bytes) -> None:
    """Whatever comes, a line counts as typed only where Enter was all that was read, and there was a pause."""
    line = TypedLine()
    for read in (*reads, before + b"y\n"):
        if not line.is_over:
            line.take(read, is_after_pause=True)
            assert not line.is_by_hand or read in (b"\n", b"\r")
    assert line.is_over


def test_keys_of_the_moment_in_which_the_question_appears_answer_nothing() -> None:
    """Somebody who types on and on answers with what comes after a pause, and sees nothing of what was before."""
    with on_terminal([sys.executable, "-c", ASK], piped=True) as asked:
        assert asked.process.stdout is not None
        asked.type(b"y\ny\ny")
        asked.wait_for(b"rm -rf /")
        asked.type(b"y\n")
        asked.type(b"a\ny")
        asked.wait_for(b"Allow? ")
        asked.type(b"n\n")
        assert "Deny\n" == asked.process.stdout.read().decode().removeprefix("started\n")
    assert b"a\r\ny" not in asked.shown
