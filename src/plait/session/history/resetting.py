"""A conversation is emptied, or made shorter, because somebody asked for it between two turns.

Floor: 5. Owns: `clear_session` and `compact_session`; never: what goes, or what a summary says (`kernel.compact`).
"""

from __future__ import annotations

import time

from plait.core.cancel import Cancel
from plait.core.errors import ConfigError, PlaitError
from plait.core.facts import CLEAR
from plait.core.messages import Message
from plait.core.usage import Usage
from plait.core.values import dataclass
from plait.engine.result import Status, status_of
from plait.events.reducer import counts
from plait.kernel.compact import SKIPPED
from plait.kernel.spans import size_chars
from plait.session.asked import keep_pin
from plait.session.cancelling import CancelToken, turn_signal
from plait.session.catching_up import catch_up, error_told
from plait.session.closing import close_turn
from plait.session.following import follow
from plait.session.history.mirror import has_system
from plait.session.live import Live
from plait.session.readying import held, ready
from plait.session.session import Session
from plait.session.summaries.compacting import shortened


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction came to; true where it made the conversation shorter."""

    session_id: str
    status: Status
    """`completed` also where there was nothing to gain."""
    summary: str = ""
    """What stands for the messages that went; empty where none did."""
    reason: str = ""
    """Why nothing was gained; empty where something was."""
    messages_before: int = 0
    """Messages of the history; a tool's results count as one, the system prompt as none."""
    messages_after: int = 0
    chars_before: int = 0
    """Length of their texts, calls and results."""
    chars_after: int = 0
    usage: Usage = Usage.ZERO
    """What the summary took, also where it was of no use."""
    error: PlaitError | None = None

    def __bool__(self) -> bool:
        return bool(self.summary)

    def raise_for_status(self) -> Compacted:
        """Return this, or raise its error."""
        if self.error is not None:
            raise self.error
        return self


def clear_session(session: Session) -> int:
    """Empty a session's conversation; its system prompt stays, and its usage is counted anew.

    A turn that is unfinished is closed first: what it left running is stopped. What was said stays in the journal, and
    `rewind` goes back to it.

    Returns:
        how many messages there were; a tool's results count as one.

    Raises:
        SessionBusy: a turn of it is running. ConfigError: it is no open session. JournalError: the journal cannot be
            written.

    Durability: when it returns, the empty conversation is in the journal, where the session has one.
    """
    with held(session) as live:
        close_turn(live)
        if live.hooks is not None:
            live.hooks.ended("clear")
        conversation = live.conversation
        follow(session)
        items, length = session["messages"], len(conversation.state.history)
        # What a host has put into the list since the last turn goes as well.
        del items[has_system(items) :]
        live.mirror.edit(items)
        live.used_before = Usage.ZERO
        if length or conversation.state.usage != Usage.ZERO:
            conversation.rewrite(0, length, (), CLEAR)
            conversation.commit()
        session["usage_totals"].update(counts(conversation.state.usage))
        catch_up(session, live)
        return length


def compact_session(
    client: object,
    model: str,
    session: Session,
    prompt_tokens: int | None = None,
    *,
    keep_last_turns: int | None = None,
    cancel: CancelToken | Cancel | None = None,
    timeout: float | None = None,
) -> Compacted:
    """Have the model write a summary of all but the last turns, and put that in their place.

    It is one request, which goes on from the last one and so finds it in the endpoint's cache. Where the conversation
    does not fit the model any more, only what goes is sent, and where that does not fit either, a list of what was
    asked, called and changed takes the place of a summary. When the request fails otherwise, everything stays as it is.

    Args:
        client, model: as for `run_turn`.
        prompt_tokens: not needed; older programs pass it.
        keep_last_turns: so many stay word for word; as the session's key says unless given. Where there are no more, so
            many steps of the last one and its task do; 0 keeps nothing but what is pinned.
        cancel: gives up from another thread; Ctrl-C in the main thread does the same.
        timeout: seconds after which it is given up.

    Raises:
        ValueError: `keep_last_turns` or `timeout` is negative.
        ConfigError: a turn is unfinished, or `session` is no open session.
        SessionBusy: a turn of it is running. JournalError: the journal cannot be made or written.

    Durability: when it returns, what the result says is in the journal.
    """
    if keep_last_turns is not None and keep_last_turns < 0:
        raise ValueError(f"{keep_last_turns} turns cannot be kept")
    if timeout is not None and timeout < 0:
        raise ValueError(f"a summary cannot end after {timeout} seconds")
    with held(session) as live, turn_signal(cancel, timeout) as signal:
        began_s = time.monotonic()
        _check_finished(session, live)
        ready(session, live, client, model)
        state = live.conversation.state
        before = list(state.history)
        keep = session["compaction_keep_last_turns"] if keep_last_turns is None else keep_last_turns
        end, spent = shortened(live, keep, "manual", signal)
        keep_pin(live)
        catch_up(session, live)
        after = list(state.history)
        return Compacted(
            session["session_id"],
            "completed" if end.reason == SKIPPED else status_of(end.reason),
            _summary(after) if end.reason == "completed" else "",
            end.detail,
            len(before),
            len(after),
            size_chars(before),
            size_chars(after),
            spent,
            error_told(session, live, end, began_s) if end.reason != SKIPPED else None,
        )


def _check_finished(session: Session, live: Live) -> None:
    if live.conversation.state.in_turn or live.conversation.state.round is not None:
        raise ConfigError(
            f"the last turn of {session['session_id']!r} is unfinished",
            hint="finish it first (run_turn with task=None, `plait resume`), or clear the session",
        )


def _summary(history: list[Message]) -> str:
    return next((message.content for message in history if message.role == "summary"), "")
