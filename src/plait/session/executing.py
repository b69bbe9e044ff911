"""A tool of a session, called by the program that holds it.

Floor: 5. Owns: `execute_tool_call`; never: how a call runs (`engine.side_calls`).
"""

from __future__ import annotations

from collections.abc import Mapping

from plait.core.cancel import Cancel
from plait.core.errors import ConfigError
from plait.core.ids import new_id
from plait.core.messages import ToolCall
from plait.session.cancelling import CancelToken, turn_signal
from plait.session.catching_up import catch_up
from plait.session.mcp import take_over
from plait.session.readying import begin, held, policy_of
from plait.session.session import Session


def execute_tool_call(
    session: Session,
    name: str,
    args: Mapping[str, object],
    *,
    call_id: str | None = None,
    cancel: CancelToken | Cancel | None = None,
    timeout: float | None = None,
) -> str:
    """Call a tool of a session between its turns, in this thread, and return what a model would read.

    The call goes the way of the model's own: its arguments are checked, hooks have their word, it works in the
    session's workspace by the session's rules, its start and its end are in the journal and come as `tool_call` and
    `tool_result`. It is no part of the conversation: the model is not shown it. No approver is asked, because the
    program that calls it gives leave. What goes wrong is the answer.

    Args:
        name: a tool's name, or one of its other names.
        args: its arguments; of a tool with a grammar `{"input": text}`.
        call_id: the id under which it is recorded; a fresh one unless given.
        cancel, timeout: see `run_turn`.

    Raises:
        SessionBusy: a turn of the session is running; a tool cannot call another one of its own session.
        ConfigError: it is no open session, or the id was used before.
        JournalError: the journal cannot be made or written.

    Durability: what the call did can be found in the journal, on return and after a crash.
    """
    if timeout is not None and timeout < 0:
        raise ValueError(f"a call cannot end after {timeout} seconds")
    with held(session) as live, turn_signal(cancel, timeout) as signal:
        conversation = live.conversation
        own_id = call_id or new_id("call")
        if own_id in conversation.state.call_ids:
            raise ConfigError(f"the call id {own_id!r} was used before", hint="leave call_id out for a fresh one")
        take_over(session, live, signal)
        begin(session, live)
        tool = conversation.terms.tools.get(name)
        is_text = tool is not None and tool.custom_format is not None
        call = (
            ToolCall(own_id, name, str(args.get("input", "")), custom=True)
            if is_text
            else ToolCall.of(own_id, name, args)
        )
        result = conversation.call(call, policy_of(session, live), cancel=signal)
        catch_up(session, live)
        return result.content
