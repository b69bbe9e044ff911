"""Gates as a sync host meets them: in its own thread, and in those of its calls.

Floor: 4. Owns: waiting for a gate without an event loop; never: what a gate says.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from plait.core.cancel import Cancel
from plait.core.messages import ToolCall, ToolResult
from plait.engine.approval import Verdict
from plait.engine.gates import Gates, Question, Step, looked_over
from plait.kernel.effects import Interrupted
from plait.kernel.tools import Tool

T = TypeVar("T")


class SyncGates:
    """The gates of one turn."""

    def __init__(self, gates: Gates, cancel: Cancel) -> None:
        self.gates = gates
        self._cancel = cancel
        self.looking_at: set[str] = set()
        """Ids of calls in threads that have run and are looked at: their own deadline is behind them."""

    def play(self, steps: Generator[Step, Any, Verdict], ask: Callable[[Question], Verdict]) -> Verdict:
        """See a judgement through, in this thread."""
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as done:
                verdict: Verdict = done.value
                return verdict
            answer = ask(step) if isinstance(step, Question) else self.through(step.work)

    def through(self, work: Callable[[Cancel], T]) -> T:
        """Have a gate do something in the turn's thread, and tell what it has to say.

        Raises `Interrupted` where the turn was stopped meanwhile: nobody else is to be asked then.
        """
        done = self._done(work)
        if self._cancel.reason is not None:
            raise Interrupted(self._cancel.reason)
        return done

    def _done(self, work: Callable[[Cancel], T]) -> T:
        cancel = self._cancel.child()
        try:
            return work(cancel)
        finally:
            cancel.detach()
            self.gates.tell()

    def after(self, call: ToolCall, tool: Tool, result: ToolResult) -> ToolResult:
        """Return a result as the gates let it through, in the turn's thread."""
        return self._done(functools.partial(looked_over, self.gates, call, tool, result))

    def after_beside(self, call: ToolCall, tool: Tool, result: ToolResult, cancel: Cancel) -> ToolResult:
        """Do the same in a thread of the call's, where nothing is told; `cancel` is that call's own."""
        self.looking_at.add(call.id)
        stop = self._cancel.child()
        # Given already, it was the deadline of the call, which is over.
        undo = None if cancel.reason is not None else cancel.on_cancel(lambda: stop.cancel("interrupted"))
        try:
            return looked_over(self.gates, call, tool, result, stop)
        finally:
            if undo is not None:
                undo()
            stop.detach()
            self.looking_at.discard(call.id)
