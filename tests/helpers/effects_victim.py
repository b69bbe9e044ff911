"""A life of a session's process whose effects survive it: files that it changes, and commands that go on without it.

Points stand, beside those of the journal, around every step of a file change, of a supervisor's start, of the wait for
it and of what is looked up in its spool.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from plait.hands.editing import atomic
from plait.hands.launcher import Launcher, Started
from plait.hands.spool import Entry, Spool
from plait.hands.supervised import Supervised
from plait.kernel.tools import Tool
from plait.testing import Call, Say
from plait.tools.toolbox import Toolbox, ToolboxOptions
from tests.helpers.victim import Life, Order, Points

WORK: Final = "work"
OLD: Final = "one\ntwo\n"
OUTPUT: Final = {"a1": "first", "b1": "second\n[exit code 3]"}
"""What a command's answer is when it ended by itself, by its call."""
STEPS: Final[Sequence[Any]] = (
    Say(
        "I run and write.",
        calls=[
            Call("exec_shell", {"command": "echo a1 >> effects; sleep 0.02; echo first"}, id="a1"),
            Call("write_file", {"path": "new/f.txt", "content": "new"}, id="a2"),
        ],
    ),
    Say(
        calls=[
            Call("exec_shell", {"command": "sleep 0.02; echo b1 >> effects; echo second; exit 3"}, id="b1"),
            Call("str_replace", {"path": "old.txt", "old_str": "two", "new_str": "2"}, id="b2"),
            Call("read_file", {"path": "old.txt"}, id="b3"),
        ]
    ),
    Say("Done."),
)
_WATCHED: Final = (
    (Launcher, "take"),
    (Started, "order"),
    (Entry, "make"),
    (Entry, "withdraw"),
    (Entry, "remove"),
    (Spool, "prepare"),
    (Supervised, "_finished"),
)


class EffectsLife(Life):
    """A life with the built-in tools, in a workspace of the session's folder."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self._work = Path(order.folder, WORK)
        if not self._work.exists():
            self._work.mkdir()
            (self._work / "old.txt").write_text(OLD)
        self._box = Toolbox(self._work, ToolboxOptions(spool=Path(order.folder, "session", "spool"), grace_s=0.1))

    def live(self) -> int:
        """Live, and close what was opened."""
        passed = super().live()
        self._box.close()
        return passed

    def answer(self, asked: Any) -> Any:
        """Answer with the next of three steps."""
        return STEPS[min(sum(message.role == "assistant" for message in asked.messages), 2)]

    def _tools(self) -> list[Tool]:
        return self._box.tools()

    def _watch(self) -> None:
        points = self._points
        for owner, name in _WATCHED:
            setattr(owner, name, passing(points, getattr(owner, name)))

        def step(_step: str) -> None:
            points()

        atomic._nothing = step


def passing(points: Points, real: Any) -> Any:
    def call(*args: Any) -> Any:
        points()
        value = real(*args)
        points()
        return value

    return call
