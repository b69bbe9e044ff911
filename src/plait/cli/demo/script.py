"""The scripted model of the demo: what it says, and what it looks at before it says it.

Floor: 7. Owns: the answers, written in advance; never: a result, for all of those come from the real agent's tools.

The script reads the requests as a model would: it goes on only when the tools answered what it expects, and gives up
in words when they did not.
"""

from __future__ import annotations

from typing import Final

from plait.testing import Call, Request, Say

TASK: Final = "A test fails. Find out why, mend the code (not the test), and show that all tests pass."
MODEL: Final = "scripted"

_BUG: Final = "merged[-1] = (merged[-1][0], end)"
_MENDED: Final = "merged[-1] = (merged[-1][0], max(merged[-1][1], end))"


class Script:
    """Answers the requests of one demo; `test_command` runs the sample's tests."""

    def __init__(self, test_command: str) -> None:
        self._test_command = test_command

    def __call__(self, request: Request) -> Say:
        """Return the next answer, by how far the conversation has come and what the last result says."""
        steps = (self._run_tests, self._look, self._read, self._mend, self._run_again, self._conclude)
        return steps[min(request.turns, len(steps) - 1)](request)

    def _run_tests(self, request: Request) -> Say:
        return Say("I will run the tests first, to see what fails.", calls=[self._tests()])

    def _look(self, request: Request) -> Say:
        if "FAILED" not in request.last_text:
            return _give_up("The tests do not fail the way I was told.")
        return Say(
            "A span inside another one comes out wrong. I will look at the test, and at who uses `merge`.",
            calls=[
                Call("read_file", {"path": "tests/test_intervals.py"}),
                Call("search_files", {"pattern": r"\bmerge\(", "path": "rota"}),
            ],
        )

    def _read(self, request: Request) -> Say:
        if "rota/intervals.py" not in request.last_text:
            return _give_up("I cannot find where `merge` is defined.")
        return Say(
            "Both the report and the gaps go through `merge` in rota/intervals.py.",
            calls=[Call("read_file", {"path": "rota/intervals.py"})],
        )

    def _mend(self, request: Request) -> Say:
        if _BUG not in request.last_text:
            return _give_up("The code is not what I expected.")
        return Say(
            "Here it is: joining two spans takes the end of the later one, even when the earlier one ends after it. "
            "The end has to be the larger of both.",
            calls=[Call("str_replace", {"path": "rota/intervals.py", "old_str": _BUG, "new_str": _MENDED})],
        )

    def _run_again(self, request: Request) -> Say:
        return Say("Now the tests again.", calls=[self._tests()])

    def _conclude(self, request: Request) -> Say:
        if "\nOK" not in request.last_text:
            return _give_up("The tests still do not pass.")
        return Say(
            "All tests pass. `merge` lost the end of a long span when a shorter one began inside it; it now keeps the "
            "larger of both ends. `busy` and `gaps` were right and only showed the mistake."
        )

    def _tests(self) -> Call:
        return Call("exec_shell", {"command": self._test_command})


def _give_up(why: str) -> Say:
    return Say(f"{why} I stop here: my answers were written in advance for one course of events, and this is another.")
