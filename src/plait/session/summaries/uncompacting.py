"""A summary is taken back: what it stands for is in the conversation again, as it was.

Floor: 5. Owns: finding that in the journal; never: making a summary (`resetting`, `compacting`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from plait.core.errors import ConfigError
from plait.core.facts import UNCOMPACT, Fact, Reset
from plait.core.messages import Message
from plait.core.values import dataclass
from plait.kernel.state import State
from plait.session.catching_up import catch_up
from plait.session.following import follow
from plait.session.readying import held, take_edits
from plait.session.session import Session
from plait.store.opening import load_journal

_KEPT_HINT: Final = "sessions that are kept can be brought back, from their first turn on"


@dataclass(frozen=True, slots=True)
class Standing:
    """A summary that stands in the history, with what was kept beside it."""

    at: int
    length: int
    old: tuple[Message, ...]
    """What stood there before."""
    beneath: Standing | None
    """The summary that stood before this one; it is right again when this one is taken back."""


def uncompact_session(session: Session) -> int:
    """Take the last summary back: in its place stands again what it stands for, message for message as it was sent.

    What was said since stays. Called once more, it takes the summary before that back. Some answers have to come before
    a large history is summarised again, unless a request does not fit its model.

    Returns:
        how many messages are back; 0 where no summary stands in the conversation, or what it stands in was changed.

    Raises:
        ConfigError: a turn is unfinished, or the session keeps no journal. SessionBusy: a turn of it is running.
        JournalError: the journal cannot be read or written.

    Durability: when it returns, the conversation is in the journal.
    """
    with held(session) as live:
        conversation, journal = live.conversation, live.log.journal
        if journal is None:
            raise ConfigError(f"the session {session['session_id']!r} has no journal to look in", hint=_KEPT_HINT)
        if conversation.state.in_turn or conversation.state.round is not None:
            raise ConfigError(
                f"the last turn of {session['session_id']!r} is unfinished",
                hint="finish it first (run_turn with task=None, `plait resume`)",
            )
        follow(session)
        take_edits(session, live)
        conversation.commit()
        found = standing_in(load_journal(journal.path).facts)
        if found is None:
            return 0
        conversation.rewrite(found.at, found.at + found.length, found.old, UNCOMPACT)
        conversation.commit()
        catch_up(session, live)
        return len(found.old)


def standing_in(facts: Iterable[Fact]) -> Standing | None:
    """Return the last summary that stands in the history which these facts come to, None where there is none."""
    state, found = State(), None
    for fact in facts:
        if isinstance(fact, Reset) and not fact.is_skipped:
            found = _after(found, fact, state.history)
        state.apply(fact)
    return found


def _after(found: Standing | None, fact: Reset, history: Sequence[Message]) -> Standing | None:
    """Return the summary that stands after a replacement."""
    if fact.why == "compaction":
        return Standing(fact.start, len(fact.messages), tuple(history[fact.start : fact.end]), found)
    if found is None:
        return None
    if fact.why == UNCOMPACT and (fact.start, fact.end) == (found.at, found.at + found.length):
        return found.beneath
    by = len(fact.messages) - (fact.end - fact.start)
    if fact.start >= found.at + found.length:
        return replace(found, beneath=_after(found.beneath, _shifted(fact, len(found.old) - found.length), ()))
    if fact.end <= found.at:
        return replace(found, at=found.at + by, beneath=_after(found.beneath, fact, ()))
    return None  # a host, a rewind or a clear has changed what stood there


def _shifted(fact: Reset, by: int) -> Reset:
    """Return a replacement as it would have been with what stands before it taken back."""
    return replace(fact, start=fact.start + by, end=fact.end + by)
