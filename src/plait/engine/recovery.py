"""What became of calls that an earlier process started: their tools find out, and the answer is the call's one result.

Floor: 4. Owns: who is asked, and what is said when nobody knows; never: how a tool finds out.
"""

from __future__ import annotations

from typing import Final

from plait.core.cancel import Cancel
from plait.core.facts import ToolStart
from plait.core.messages import ToolCall, ToolResult
from plait.engine.calls import Finishing, result_of
from plait.engine.hosts.stage import Resolve
from plait.kernel.effects import Outcome
from plait.kernel.state import State
from plait.kernel.tools import ToolTable

_UNKNOWN: Final = (
    "The process that ran this call ended before it saw the result: it may have done all, part or nothing of its "
    "work. Check before repeating it."
)


def resolver(tools: ToolTable, finishing: Finishing | None = None) -> Resolve:
    """Return what finds out what became of a call: its tool does (`Tool.recovery`), from the intent of its start.

    A call without an intent, and one of which its tool cannot tell, is `unknown`.
    """
    shape = finishing or Finishing()

    def resolve(call: ToolCall, start: ToolStart, cancel: Cancel) -> Outcome:
        tool, recovery = tools.get(call.name), tools.recovery(call)
        if tool is None or recovery is None or start.intent is None:
            return nobody_knows(call)
        try:
            settled = recovery.settle(tool.keywords(call.arguments), shape.context(call, cancel, start))
        except Exception:  # boundary: whatever keeps a tool from finding out, the call gets its one result
            return nobody_knows(call)
        return Outcome.of(result_of(call, settled, shape))

    return resolve


def nobody_knows(call: ToolCall) -> Outcome:
    """Return the outcome of a call whose end nobody saw."""
    return Outcome.of(ToolResult(call.id, _UNKNOWN, status="unknown"))


def open_starts(state: State) -> tuple[ToolStart, ...]:
    """Return how the calls were started that have no result yet: what recovery still needs."""
    if state.round is None:
        return ()
    return tuple(start for call_id, start in state.round.started.items() if call_id not in state.round.ended)
