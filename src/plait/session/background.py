"""The ends of background jobs, told to the model once: with the user's next words, or to a program that asks.

Floor: 5. Owns: what was told, by what the journal holds, and what is put before a question; never: a job.

An end is told by the result that shows it (`jobs_told` in its data), or by a notice before a question. A notice is
recorded just before its question, so that it counts only if that is in the journal too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from plait.core.events import Committed, Event
from plait.core.facts import Fact, MessageAdded, Observation, ToolEnd
from plait.session.defaults import LIBRARY
from plait.session.live import Live, live_of
from plait.session.session import Session
from plait.tools.background import TOLD, completion_notice
from plait.tools.board import Board, Completion

BACKGROUND: Final = "background"
_WITH_QUESTION: Final = "with_question"


def adopt_jobs(board: Board, facts: Iterable[Fact]) -> None:
    """Bring a session's board up to what its journal says was told; and let the process's default end its waits."""
    board.default_interrupt = LIBRARY.board.is_interrupted
    if board.has_any:
        board.tell(_told_in(facts))


def with_notice(live: Live, text: str) -> str:
    """Return a question with what has ended before it.

    Durability: recorded with the question, so that it is told once, whatever ends this process.
    """
    board = live.toolbox.background.board
    jobs = board.untold()
    if not jobs:
        return text
    ids, observers = [job.id for job in jobs], live.conversation.observers
    live.conversation.note(Observation(BACKGROUND, {TOLD: ids, _WITH_QUESTION: True}))

    def told(event: Event) -> None:
        if isinstance(event, Committed) and _is_question(event.entry.fact):
            board.tell(ids)
            undo()

    undo = observers.add(told, Committed)
    return f"{completion_notice([board.completion(job) for job in jobs])}\n\n{text}"


def drain_completions(session: Session | None = None) -> list[Completion]:
    """Return the background jobs that have ended and whose end nobody was told, once; the oldest first.

    Each is `{tool_exec_id, returncode, duration_time, command, stdout_localfile, stderr_localfile}`, with `error`,
    `signal` or `timed_out` where there is more to say; `completion_notice` makes a text of them. Without a session
    they are those that were started through the tool library; a session's own are told to its model with the next
    question, unless they are taken here.

    Raises:
        ConfigError: it is no open session.
        SessionBusy: a turn of it is running.

    Durability: what was returned for a session is recorded as told, on return.
    """
    if session is None:
        return LIBRARY.board.take_untold()
    live = live_of(session)
    board = live.toolbox.background.board
    jobs = board.untold()
    if jobs:
        ids = [job.id for job in jobs]
        live.conversation.note(Observation(BACKGROUND, {TOLD: ids}))
        live.conversation.commit()
        board.tell(ids)
    return [board.completion(job) for job in jobs]


def _told_in(facts: Iterable[Fact]) -> set[str]:
    told: set[str] = set()
    waiting: set[str] = set()
    for fact in facts:
        if isinstance(fact, ToolEnd):
            told |= _ids(None if fact.result.data is None else fact.result.data.get(TOLD))
        elif isinstance(fact, Observation) and fact.type == BACKGROUND:
            ids = _ids(fact.data.get(TOLD))
            waiting = ids if fact.data.get(_WITH_QUESTION) else set()
            told |= set() if fact.data.get(_WITH_QUESTION) else ids
        elif _is_question(fact):
            told, waiting = told | waiting, set()
    return told


def _is_question(fact: Fact) -> bool:
    return isinstance(fact, MessageAdded) and fact.message.role == "user"


def _ids(value: object) -> set[str]:
    return {str(each) for each in value} if isinstance(value, (list, tuple)) else set()
