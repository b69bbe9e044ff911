"""Going back to the end of an earlier turn: the conversation, and the files that plait's tools changed since.

Floor: 5. Owns: which changes are taken back, and in which order things happen; never: a file (`tools.undo`).

Files come first and the conversation last, each file whole or not at all: a rewind that dies in the middle is simply
begun again, and finds what it has done. What it takes back is kept, so that it can go forward again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from plait.core.errors import ConfigError, Refusal, SessionBusy
from plait.core.facts import Entry, Fact, MessageAdded, Observation, ToolEnd, ToolStart
from plait.core.messages import ToolCall
from plait.core.side_calls import side_call_of
from plait.core.values import dataclass
from plait.kernel.state import fold
from plait.kernel.tools import ToolTable
from plait.session.closing import close_turn
from plait.session.following import follow
from plait.session.live import Live
from plait.session.session import Session
from plait.store.opening import load_journal
from plait.store.turns import TurnMark, mark_of, turn_marks
from plait.tools.changes import LOOKED_AT, REWOUND, Change, Changes
from plait.tools.file_recovery import root_digest
from plait.tools.todo import todos_after
from plait.tools.undo import Undo, Undone


@dataclass(frozen=True, slots=True)
class FileBack:
    """What became of one file, or would."""

    path: str
    outcome: Undone | str
    """`restored`, `already`, `changed` (by somebody else since), `not_kept`, `elsewhere`, or why it was refused."""

    @property
    def is_back(self) -> bool:
        """Say whether the file holds what it held then."""
        return self.outcome in ("restored", "already")


@dataclass(frozen=True, slots=True)
class Rewound:
    """What a rewind did, or would do."""

    session_id: str
    turn: int
    question: str
    """What that turn was asked; empty for the beginning."""
    messages_removed: int
    files: Sequence[FileBack] = ()
    not_undone: Sequence[str] = field(default=())
    """Calls since then whose effects nobody can take back."""

    @property
    def is_whole(self) -> bool:
        """Say whether everything is as it was."""
        return not self.not_undone and all(file.is_back for file in self.files)


def turns_of(session: Session) -> list[TurnMark]:
    """Return the turns of a session that have ended; the beginning is the first, with number 0.

    Raises:
        ConfigError: the session keeps no journal.
    """
    return turn_marks(_entries(session))


def rewind(session: Session, to: int, *, is_dry: bool = False, is_moved: bool = False) -> Rewound:
    """Take a session back to the end of a turn: its conversation, and the files that its tools changed since.

    A turn that is unfinished is closed first. A file that somebody else has changed since is left alone, and said.
    Commands, and tools of others, are never undone; they are said too.

    Args:
        to: number of the turn, from 1; 0 is before the first. A turn that was taken back is there still.
        is_dry: only say what would be done.
        is_moved: the session's files are in this workspace now, wherever they were changed.

    Raises:
        ConfigError: there is no such turn, or the session keeps no journal.
        SessionBusy: a turn of it is running. JournalError: the journal cannot be read or written.

    Durability: when it returns, the files and the conversation are on disk.
    """
    live: Live = session._live
    if not live.running.acquire(blocking=False):
        raise SessionBusy(f"the session {session['session_id']!r} is in the middle of a turn", hint="wait for it")
    try:
        if not is_dry:
            close_turn(live)
        entries = _entries(session)
        mark = mark_of(turn_marks(entries), to)
        since = _Since(entries, mark, live.conversation.terms.tools)
        undo, root = live.toolbox.undo(), None if is_moved else root_digest(live.toolbox.root)
        files = [_back(undo, change, root, is_dry=is_dry) for change in since.net]
        length = len(live.conversation.state.history)
        if not is_dry:
            _go_back(
                session, entries, mark, [change for change, file in zip(since.net, files, strict=True) if file.is_back]
            )
        return Rewound(session["session_id"], mark.number, mark.question, length - mark.length, files, since.others)
    finally:
        live.running.release()


class _Since:
    """What has happened to files since a turn, and what else."""

    def __init__(self, entries: Iterable[Entry], mark: TurnMark, tools: ToolTable) -> None:
        self._calls: dict[str, ToolCall] = {}
        self._starts: dict[str, ToolStart] = {}
        self._changes = Changes()
        self.others: list[str] = []
        for entry in entries:
            self._take(entry.fact, tools, is_since=entry.seq > mark.seq)

    @property
    def net(self) -> list[Change]:
        """Each file that was changed: what it held then, and what was left in it."""
        return self._changes.net

    def _take(self, fact: Fact, tools: ToolTable, *, is_since: bool) -> None:
        if (side := side_call_of(fact)) is not None:
            self._calls[side[0].id], fact = side
        if isinstance(fact, MessageAdded):
            self._calls.update((call.id, call) for call in fact.message.tool_calls)
        elif isinstance(fact, ToolStart):
            self._starts[fact.call_id] = fact
            self._changes.take(fact)
        elif is_since:
            changes = self._changes.take(fact)
            if isinstance(fact, ToolEnd) and fact.result.status in LOOKED_AT and not changes:
                self._add_other(fact.result.call_id, tools)

    def _add_other(self, call_id: str, tools: ToolTable) -> None:
        call, start = self._calls.get(call_id), self._starts.get(call_id)
        if call is None or start is None:
            return
        tool = tools.get(call.name)
        if tool is None or tool.mutates or tool.runs_code:
            self.others.append(f"{call.name} {start.arguments or call.raw}")


def _back(undo: Undo, change: Change, root: str | None, *, is_dry: bool) -> FileBack:
    if root is not None and change.root != root:
        return FileBack(change.path, "elsewhere")
    try:
        if is_dry:
            return FileBack(change.path, undo.can(change.path, change.before, change.after))
        return FileBack(change.path, undo.change(change))
    except Refusal as refused:
        return FileBack(change.path, refused.message)


def _go_back(session: Session, entries: Sequence[Entry], mark: TurnMark, changes: Sequence[Change]) -> None:
    conversation = session._live.conversation
    told = [change.reversed.to_dict() for change in changes]
    todos = todos_after(entry.fact for entry in entries[: mark.seq])
    conversation.note(Observation(REWOUND, {"turn": mark.number, "files": told, "todos": todos}))
    state = conversation.state
    if state.epoch == mark.epoch and len(state.history) >= mark.length:
        conversation.rewrite(mark.length, len(state.history), (), "rewind")
    else:
        then = fold([entry.fact for entry in entries[: mark.seq]]).history
        conversation.rewrite(0, len(state.history), tuple(then), "rewind")
    conversation.commit()
    follow(session)


def _entries(session: Session) -> list[Entry]:
    journal = session._live.standing.log.journal
    if journal is None:
        raise ConfigError(
            f"the session {session['session_id']!r} has no journal to go back in",
            hint="sessions that are kept can be rewound, from their first turn on",
        )
    return load_journal(journal.path).entries
