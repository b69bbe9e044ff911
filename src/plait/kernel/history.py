"""What every provider demands of a history: each call answered once, at once, in order.

Floor: 1. Owns: saying where a history breaks that rule; never: mending it.
"""

from __future__ import annotations

from collections.abc import Sequence

from plait.core.messages import Message


def fault_in(history: Sequence[Message]) -> str | None:
    """Return in one sentence what a provider would refuse the history for, or None."""
    unanswered: list[str] = []
    for index, message in enumerate(history):
        if message.role == "tool":
            answered = [result.call_id for result in message.tool_results]
            if not unanswered or answered != unanswered:
                return f"message {index} has results of {answered}, but the calls before it are {unanswered}"
            unanswered = []
        elif unanswered:
            return f"message {index} stands between the calls {unanswered} and their results"
        else:
            unanswered = [call.id for call in message.tool_calls]
    return f"the calls {unanswered} have no results" if unanswered else None
