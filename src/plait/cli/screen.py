"""Where a run shows itself: which stream gets progress, answer, result and complaint.

Floor: 7. Owns: the two outlets of a run and what is written at its end; never: what happens in between (`views`).

The answer or the JSON is data and goes to stdout. Everything else is talk and goes to stderr, unless stdout is a
terminal: then a person reads both there.
"""

from __future__ import annotations

import json
import sys
from types import TracebackType
from typing import Literal, Self

from plait.cli.escapes import visible
from plait.cli.exits import Exit
from plait.cli.outcome import Outcome
from plait.cli.outlet import Outlet
from plait.cli.views import Complaints, JsonLines, Live, PlainLines, View
from plait.cli.words import complaint
from plait.core.cancel import Cancel
from plait.core.values import dataclass

Form = Literal["text", "json", "lines"]


@dataclass(frozen=True, slots=True)
class Manner:
    """How a run shows itself."""

    form: Form = "text"
    quiet: bool = False
    """Only the answer or the result, and complaints."""
    is_show: bool = False
    """The run is to be watched: all of it goes to stdout, whoever reads it."""


class Screen:
    """The output of one run; entered before it starts and left when its end was told."""

    def __init__(self, manner: Manner, cancel: Cancel) -> None:
        self._form = manner.form
        self._quiet = manner.quiet
        self._is_show = manner.is_show
        # A run whose reader has gone would go on changing things that nobody sees.
        self._out = Outlet(sys.stdout, cancel, lambda _: cancel.cancel("cancelled"))
        self._talk = Outlet(sys.stderr, cancel)
        self._is_live = manner.form == "text" and (manner.is_show or self._out.isatty())
        self.view = self._choose_view()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._out.close()
        self._talk.close()

    def settle(self) -> None:
        """Wait until everything so far is to be seen, because a question follows on the same terminal."""
        self._out.wait_drained(1.0)
        self._talk.wait_drained(1.0)

    def add(self, words: str) -> None:
        """Say something beside the run itself, unless nobody wants talk."""
        if self._form != "lines" and not self._quiet:
            (self._out if self._is_live else self._talk).write(f"{visible(words)}\n")

    def warn(self, words: str) -> None:
        """Say what everybody has to hear, also those who want no talk."""
        (self._out if self._is_live else self._talk).write(f"{visible(words)}\n")

    def finish(self, outcome: Outcome) -> int:
        """Write the answer or the result, then the complaint and the numbers; return the exit code."""
        # Both streams may be one place: what was said of the run stands above what it came to.
        self._talk.wait_drained(1.0)
        self._write_data(outcome)
        self._out.close()
        code = outcome.exit_code
        if self._out.error is not None:
            self._complain_of_output(self._out.error)
            return Exit.FAILED if code in (Exit.COMPLETED, Exit.INTERRUPTED) else code
        if outcome.problem is not None:
            self._talk.write(complaint(outcome.problem.message, outcome.problem.hint))
        elif outcome.status == "interrupted":
            self._talk.write("plait: interrupted\n")
        if self._form != "lines" and not self._quiet:
            if outcome.steps and not self._is_live:
                self._talk.write(f"{visible(outcome.summary())}\n")
            if outcome.again and not self._is_show:
                self._talk.write(f"to go on: {visible(outcome.again)}\n")
        return code

    def _choose_view(self) -> View:
        if self._form == "lines":
            return JsonLines(self._out)
        if self._quiet:
            return Complaints(self._talk)
        return Live(self._out) if self._is_live else PlainLines(self._talk)

    def _write_data(self, outcome: Outcome) -> None:
        if self._form == "json":
            self._out.write(json.dumps(outcome.to_dict()) + "\n")
        elif self._form == "lines":
            self._out.write(json.dumps({"type": "result", **outcome.to_dict()}) + "\n")
        elif isinstance(self.view, Live):
            if outcome.steps:
                self.view.summary(outcome.summary())
        elif outcome.reply:
            self._out.write(f"{visible(outcome.reply)}\n")

    def _complain_of_output(self, error: OSError) -> None:
        if not isinstance(error, BrokenPipeError):
            self._talk.write(complaint(f"stdout takes no more: {error.strerror or error}", "see where it goes"))
