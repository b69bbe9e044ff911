"""X72: what was typed before a question can be seen, and what is pasted, never answers it."""

from __future__ import annotations

import sys

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
    def look(self, call): return Look()
    def allow_outside(self, call, look): pass
    def knows(self, answer): return False
    def remember(self, answer): pass

print("started", flush=True)
tool = Tool("exec_shell", "", lambda command: "", runs_code=True)
approver = RunApprover(cancel=Cancel(), ground=Ground, person=Terminal())
said = approver.approve(ToolCall.of("c", "exec_shell", {"command": "rm -rf /"}), tool)
print(type(said).__name__, flush=True)
"""
AGAIN = b"Please type y, n or a: "
PASTED = [
    b"y\n\n",
    b"y\ny\n",
    b"y\nrm",
    b"a\nls\n",
    b"\x1b[200~y\x1b[201~\n",
    b"\x1b[200~y\n\x1b[201~",
    b"\x1b[200~\x1b[201~y\n",
    b"\x1b[200~ls\x1b[201~\ny\n",
    b"y\x1b\n",
    b"y\x00\n",
    b"yes, of course\n",
    "ｙ\n".encode(),
]


def test_what_is_pasted_answers_nothing() -> None:
    """More than one line at once, and anything between a terminal's marks of a paste, is asked about again."""
    with on_terminal([sys.executable, "-c", ASK], piped=True) as asked:
        assert asked.process.stdout is not None
        asked.wait_for(b"Allow? ")
        for count, keys in enumerate(PASTED, 1):
            asked.type(keys)
            asked.wait_for(AGAIN, times=count)
        asked.type(b"n\n")
        assert "Deny\n" == asked.process.stdout.read().decode().removeprefix("started\n")


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
