"""Where the turns of a session begin and end, and a new session from one of those places.

Floor: 2. Owns: what counts as a turn to go back to, and `fork`; never: a change to the journal that was read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from plait.core.asides import without_asides
from plait.core.errors import ConfigError
from plait.core.facts import Entry, MessageAdded, Reset, TurnEnd, TurnStart
from plait.core.values import dataclass
from plait.kernel.state import State
from plait.store.opening import load_journal
from plait.store.salvage import write_journal
from plait.store.sharing import share_contents


@dataclass(frozen=True, slots=True)
class TurnMark:
    """A place to go back to: the end of a turn, or, as number 0, before the first one."""

    number: int
    seq: int
    """Number of the last entry that belongs to it."""
    length: int
    """How many messages the history had then."""
    epoch: int
    """As long as the epoch is the same, the history has only grown since."""
    question: str = ""
    """What the turn was asked."""


def turn_marks(entries: Iterable[Entry]) -> list[TurnMark]:
    """Return the turns that have ended, the beginning first; one that waits for an answer has not ended."""
    state, marks, question = State(), [TurnMark(0, 0, 0, 0)], ""
    number = 0
    for entry in entries:
        fact = entry.fact
        is_new = isinstance(fact, TurnStart) and not fact.resumed
        if is_new:
            number, question = number + 1, ""
        state.apply(fact)
        if isinstance(fact, MessageAdded) and fact.message.role == "user" and not question:
            question = without_asides(fact.message.content)
        if state.in_turn or state.round is not None:
            continue
        if isinstance(fact, TurnEnd):
            mark = TurnMark(number, entry.seq, len(state.history), state.epoch, question)
            if marks[-1].number == number:
                marks.pop()
            marks.append(mark)
        elif number == 0:
            marks[0] = TurnMark(0, entry.seq, len(state.history), state.epoch)
    return marks


def mark_of(marks: list[TurnMark], number: int) -> TurnMark:
    """Return the end of a turn.

    Raises:
        ConfigError: there is no such turn, or it has not ended.
    """
    for mark in marks:
        if mark.number == number:
            return mark
    last = marks[-1].number
    raise ConfigError(
        f"turn {number} is none of the turns that have ended",
        hint=f"choose one from 0 to {last}" if last else "only 0, before the first turn, is left to go back to",
    )


def _now(entries: Iterable[Entry], mark: TurnMark) -> TurnMark:
    """Return the mark of the last turn with what was done to the history after it: a clear, a compaction, an edit."""
    state = State()
    for entry in entries:
        fact = entry.fact
        state.apply(fact)
        is_between = entry.seq > mark.seq and not state.in_turn and state.round is None
        # A question that was taken out to become part of the next one is asked there only.
        if is_between and isinstance(fact, Reset) and fact.why != "user_merge":
            mark = replace(mark, seq=entry.seq, length=len(state.history), epoch=state.epoch)
    return mark


def fork(source: Path, folder: Path, conversation: str, number: int | None = None) -> TurnMark:
    """Begin a new session with what another one held at the end of a turn; its own may be running meanwhile.

    A turn that has not ended stays behind: what it is doing must not be done by two.

    Args:
        source: the journal of the session.
        number: the turn; unless given the last one that has ended, with what was changed in the history since.

    Raises:
        ConfigError: there is no such turn, or there is a session in `folder` already.
        JournalError: the journal cannot be read.
    """
    journal = load_journal(source)
    entries = list(journal.entries)
    marks = turn_marks(entries)
    mark = _now(entries, marks[-1]) if number is None else mark_of(marks, number)
    header: dict[str, object] = {
        **journal.header,
        "forked_from": {"session": journal.conversation, "turn": mark.number, "seq": mark.seq},
    }
    write_journal(folder, conversation, header, entries[: mark.seq])
    share_contents(source.parent, folder)
    return mark
