"""One turn whose calls run somewhere else than the session's other turns: `run_turn(tool_executor=…)`.

Floor: 5. Owns: putting a turn's executor in the place of the session's, and back; never: executors.

A turn can be given a fence, or an executor of the host's own. It cannot be let out of the session's fence: what the
session has recorded of it holds for all of its turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from plait.core.errors import ConfigError
from plait.core.facts import Observation
from plait.engine.recovery import resolver
from plait.kernel.deferral import SEARCH_TOOL
from plait.kernel.tools import Tool
from plait.session.confining import Seat, seat_of
from plait.session.live import Live
from plait.tools.handed import behind

EVENT: Final = "turn_sandbox"
"""The note of a turn that has a fence of its own."""


@contextmanager
def sitting(live: Live, executor: object) -> Iterator[Callable[[], None]]:
    """Yield what has the calls of the next turns go to an executor; leaving the block puts the session's own back.

    None is the session's own. Raises `ConfigError` for what is no executor, for the fence of another workspace, and for
    a way out of the session's fence.
    """
    seat = None if executor is None else _seat_for(live, executor)
    own = None

    def sit() -> None:
        nonlocal own
        if seat is not None:
            own = live.conversation.terms
            _change(live, seat)

    try:
        yield sit
    finally:
        if own is not None:
            conversation = live.conversation
            conversation.change(conversation.model, replace(conversation.terms, tools=own.tools, resolve=own.resolve))


def _seat_for(live: Live, executor: object) -> Seat:
    own = live.settings.seat
    workspace = live.toolbox.root
    seat = seat_of({"tool_executor": executor, "sandbox": None, "workspace": workspace}).of(live.conversation.id)
    is_fenced = own.fence is not None or own.late is not None
    if seat.is_usual and is_fenced:
        raise ConfigError(
            "the session's calls run behind a fence, and no turn is let out of it",
            hint="leave tool_executor out, or open a session without one",
        )
    return seat


def _change(live: Live, seat: Seat) -> None:
    """Have the calls of the table's tools go to the seat's executor, and record the fence that it has."""
    conversation, terms = live.conversation, live.conversation.terms
    tools = [_seated(tool, seat) for tool in terms.tools]
    # What an earlier process has started was started the session's own way, and is looked into in that way.
    resolve = terms.resolve or resolver(terms.tools, terms.policy.finishing)
    conversation.change(conversation.model, replace(terms, tools=terms.tools.of(tools), resolve=resolve))
    if seat.fence is not None:
        told = {"sandbox_policy": seat.fence.policy.metadata(), "sandbox": seat.fence.level}
        conversation.note(Observation("note", {"event": EVENT, **told}))


def _seated(tool: Tool, seat: Seat) -> Tool:
    """Return a tool as it runs in the turn; what is part of the conversation itself stays with the session."""
    if tool.ends_turn or tool.name == SEARCH_TOOL:
        return tool
    own = behind(tool)
    return own if seat.is_usual else seat.handed_on(own)
