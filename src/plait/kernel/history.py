"""What every provider demands of a history: each call answered once, at once, in order.

Floor: 1. Owns: saying where a history, or what is to join it, breaks that rule; never: mending it.
"""

from __future__ import annotations

from collections.abc import Sequence

from plait.core.messages import Message
from plait.kernel.effects import Replace


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


def fault_of_speech(messages: tuple[Message, ...]) -> str | None:
    """What keeps messages from joining the history one by one: calls and results come from the loop alone."""
    if any(message.role == "tool" or message.tool_calls for message in messages):
        return "messages with tool calls or their results cannot be put into a conversation"
    return None


def fault_of_replacement(history: Sequence[Message], there: Replace) -> str | None:
    """What a replacement would break, or None."""
    if not 0 <= there.start <= there.end <= len(history):
        return f"messages {there.start} to {there.end} are not within the {len(history)} of the history"
    return fault_in([*history[: there.start], *there.messages, *history[there.end :]])
