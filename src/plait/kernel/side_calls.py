"""One tool call outside of any turn, brought to its result by the same steps as the calls of a turn.

Floor: 1. Owns: the loop around one such call; never: how it is recorded (`core.side_calls`).
"""

from __future__ import annotations

from typing import Final

from plait.core.facts import MessageAdded
from plait.core.messages import Message, ToolCall
from plait.kernel.effects import End, Interrupted
from plait.kernel.loop import Loop, close_round
from plait.kernel.rounds import finish_round, unanswered
from plait.kernel.state import State, record
from plait.kernel.tools import ToolTable

_NOBODY: Final = "Not run: this call would have to wait for an answer from outside, and nobody waits for it here."


def beside(call: ToolCall) -> State:
    """Return a state of its own in which this one call is open."""
    state = State()
    state.apply(MessageAdded(Message("assistant", (call,))))
    return state


def one_call(state: State, tools: ToolTable) -> Loop:
    """Judge, start and await the call; whatever happens it has one result at the end."""
    assert state.round is not None, "a call beside the conversation is open when it begins"
    try:
        end = yield from finish_round(state, state.round, tools)
    except Interrupted as interrupt:
        return (yield from close_round(state, interrupt))
    if end is not None:
        yield from record(state, *unanswered(state.round, _NOBODY, "denied"))
    return End("completed")
