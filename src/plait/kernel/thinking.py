"""One whole answer from a model: wait and ask again, or make room and ask again, as far as the rules go.

Floor: 1. Owns: retry, overflow, and call ids that are unique in a conversation; never: a request.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any, Final

from plait.core.exchange import ProviderFailed, Reply
from plait.core.facts import RetryScheduled
from plait.core.messages import Message, ToolCall, user
from plait.kernel.budget import is_hopeless, overflow_of
from plait.kernel.compact import compact
from plait.kernel.effects import Effect, Interrupted, Think, Wait
from plait.kernel.media import drop_media
from plait.kernel.rules import Rules
from plait.kernel.state import State, record
from plait.kernel.summarizing import rules_told

_UNREADABLE_CALL: Final = (
    "That tool call could not be read and was not run. "
    "Send it again as one call with JSON arguments, or answer in words."
)


def think(state: State, rules: Rules) -> Generator[Effect, Any, Reply | None]:
    """Get one whole answer, waiting and trying again as far as the rules go.

    None where room had to be made: that was a request too, and whether there may be another is for the loop to ask.
    """
    extra: tuple[Message, ...] = ()
    while True:
        if state.retry is not None and not state.retry.purpose:
            yield Wait(max(0, state.retry.delay_ms - state.waited_ms) / 1000)
        if rules.room is not None and (known := overflow_of(state, rules.room, extra)) is not None:
            if is_hopeless(state, rules.room):
                raise Interrupted("error") from known
            if (yield from _recover(state, rules, known)):
                return None
            continue
        try:
            reply: Reply = yield Think(state.view(extra), "step", state.attempts + 1)
            # What was said besides the history is in no log, so that the request could not be proved again.
            return replace(reply, sent="") if extra else reply
        except ProviderFailed as failure:
            if (yield from _recover(state, rules, failure)):
                return None
            extra = () if extra else _told_again(failure)


def _recover(state: State, rules: Rules, failure: ProviderFailed) -> Generator[Effect, Any, bool]:
    """Do what helps against a failure; say whether history was made shorter for it."""
    if failure.kind == "context_overflow" and state.shrinks < rules.shrinking.tries_max:
        told = rules_told(state, rules, failure)
        if (yield from compact(state, told, "overflow", failure.bounds)):
            return True
    if failure.kind == "request_too_large" and (yield from drop_media(state)):
        return False
    attempt = state.attempts + 1
    delay_s = rules.retry.delay_s(failure, attempt)
    if delay_s is None:
        failure.gave_up = rules.retry.why_not(failure, attempt)
        raise Interrupted("error") from failure
    scheduled = RetryScheduled(attempt, round(delay_s * 1000), failure.kind, failure.message, failure.usage)
    yield from record(state, scheduled)
    return False


def _told_again(failure: ProviderFailed) -> tuple[Message, ...]:
    """What the next request says besides the history: the call that the model's own server could not read."""
    if failure.code != "tool_use_failed" or failure.partial is None or not failure.partial.content:
        return ()
    return failure.partial, user(_UNREADABLE_CALL, mark="guard")


def with_own_ids(message: Message, taken: set[str]) -> Message:
    """Give a call whose id was used before in this conversation an id of its own; drop an exact repeat."""
    calls = message.tool_calls
    ids = [call.id for call in calls]
    if taken.isdisjoint(ids) and len(set(ids)) == len(ids) and all(ids):
        return message
    used = set(taken)
    seen: list[ToolCall] = []
    parts = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            if part.id and part in seen:
                continue
            seen.append(part)
            part = replace(part, id=_free_id(part.id or "call", used))
            used.add(part.id)
        parts.append(part)
    return replace(message, parts=tuple(parts))


def _free_id(wanted: str, used: set[str]) -> str:
    free, number = wanted, 2
    while free in used:
        free, number = f"{wanted}-{number}", number + 1
    return free
