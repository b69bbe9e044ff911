"""One decision for all calls of a message: made once, remembered until the message is dealt with.

Floor: 4. Owns: what a plan is and what was said of it; never: asking (`sync_host`, `async_host`).
"""

from __future__ import annotations

from plait.core.messages import ToolCall
from plait.engine.approval import PLAN_DENIED, Planned
from plait.kernel.effects import Allow, Deny
from plait.kernel.state import State
from plait.kernel.tools import ToolTable


class PlanMode:
    """Judges the calls of one turn message by message."""

    def __init__(self, state: State, tools: ToolTable) -> None:
        self._state = state
        self._tools = tools
        self._said: tuple[int, bool] | None = None
        """Of which message, and what."""

    @property
    def is_denied(self) -> bool:
        """True when the last plan was: its turn is over."""
        return self._said is not None and not self._said[1]

    def verdict(self, call: ToolCall) -> Allow | Deny | None:
        """Answer for one call of a plan that was judged; None while it was not."""
        round_ = self._state.round
        if self._said is None or round_ is None or self._said[0] != round_.of:
            return None
        return Allow(call) if self._said[1] else Deny(PLAN_DENIED)

    def calls(self) -> Planned:
        """Return all calls of the open round that are known."""
        round_ = self._state.round
        assert round_ is not None, "the loop asked about a call outside of a round"
        return [(each, tool) for each in round_.calls if (tool := self._tools.get(each.name)) is not None]

    def keep(self, call: ToolCall, said: bool) -> Allow | Deny:
        """Remember how the plan was judged, and answer for one of its calls."""
        assert self._state.round is not None
        self._said = (self._state.round.of, said)
        return Allow(call) if said else Deny(PLAN_DENIED)
