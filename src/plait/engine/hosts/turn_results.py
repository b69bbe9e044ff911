"""Tool results of one turn together: what they may take of the window, and looks that bring nothing new.

Floor: 4. Owns: which results are cut or told in a sentence before they are recorded; never: a result that stands in the
history already, which would move what the endpoint has cached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from plait.core.messages import Message, ToolCall, ToolResult
from plait.engine.calls import CHARS_PER_TOKEN, Finishing
from plait.engine.limits import Limits
from plait.kernel.effects import Outcome
from plait.kernel.guards import is_same_call
from plait.kernel.state import State
from plait.kernel.tools import ToolTable

LEAST_TOKENS: Final = 500
"""So much of each result is shown even when the turn's results have taken all they may."""
_SHORT_CHARS: Final = 400
"""A result that is shorter is not worth a sentence in its place."""


class TurnResults:
    """Looks at results in the order in which they are recorded; one for a turn, in its thread."""

    def __init__(self, state: State, tools: ToolTable, limits: Limits, finishing: Finishing) -> None:
        self._state, self._tools = state, tools
        self._limits, self._finishing = limits, finishing
        self._shown_chars: int | None = None

    def shaped(self, outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
        """Return outcomes with their results as the model gets them."""
        return tuple(
            outcome if outcome.result is None else self._outcome(outcome, outcome.result) for outcome in outcomes
        )

    def _outcome(self, outcome: Outcome, result: ToolResult) -> Outcome:
        shaped = self._once(result) if self._limits.dedupe_reads else result
        most = self._limits.max_turn_result_tokens
        shaped = shaped if most is None else self._within(shaped, most * CHARS_PER_TOKEN)
        return outcome if shaped is result else replace(outcome, result=shaped)

    def _within(self, result: ToolResult, chars_max: int) -> ToolResult:
        """Cut a result to what the turn has left."""
        before = self._chars_before() if self._shown_chars is None else self._shown_chars
        room = max(chars_max - before, LEAST_TOKENS * CHARS_PER_TOKEN)
        cut = self._finishing.cut(result, room)
        self._shown_chars = before + len(cut.content)
        return cut

    def _chars_before(self) -> int:
        """Count what the turn has shown so far, also in an earlier process."""
        state = self._state
        shown = [result for message in state.history[state.turn_began :] for result in message.tool_results]
        shown += [] if state.round is None else state.round.ended.values()
        return sum(len(result.content) for result in shown)

    def _once(self, result: ToolResult) -> ToolResult:
        """Say in a sentence that a look has brought what the same look had brought before, and what is still shown."""
        round_ = self._state.round
        if round_ is None or result.status != "ok" or result.images or len(result.content) < _SHORT_CHARS:
            return result
        call = next((each for each in round_.calls if each.id == result.call_id), None)
        if call is None or not self._tools.is_repeatable(call):
            return result
        before = _seen(self._state.history, call, result.content)
        if before is None:
            return result
        words = f"Unchanged: the same call brought the same {len(result.content):,} characters before; see there."
        return replace(result, content=words, data={**(result.data or {}), "same_as": before})


def _seen(history: Sequence[Message], call: ToolCall, content: str) -> str | None:
    """Return the id of an equal call in the history whose result said the same, None where there is none."""
    calls: dict[str, ToolCall] = {}
    for message in history:
        if message.role == "assistant":
            calls = {each.id: each for each in message.tool_calls}
        for result in message.tool_results:
            asked = calls.get(result.call_id)
            if asked is not None and result.said == content and is_same_call(asked, call):
                return result.call_id
    return None
