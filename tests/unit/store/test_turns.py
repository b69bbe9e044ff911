"""The turns of a session, and a new session from the end of one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from plait.core.errors import ConfigError
from plait.core.facts import MessageAdded, Observation, TurnEnd, TurnStart
from plait.core.messages import assistant, user
from plait.kernel.state import fold
from plait.store.opening import load_journal
from plait.store.salvage import verify
from plait.store.turns import fork, turn_marks
from tests.helpers.journals import WRITES, journal_of, opened

TALK = (
    (Observation("session_start", {"model": "m"}),),
    (TurnStart(), MessageAdded(user("one"))),
    (MessageAdded(assistant("1"), stop="end_turn"), TurnEnd("completed")),
    (TurnStart(), MessageAdded(user("two"))),
    (MessageAdded(assistant("2"), stop="end_turn"), TurnEnd("completed")),
)


def test_the_turns_are_told_with_their_questions(tmp_path: Path) -> None:
    """A turn that was resumed is one turn; the beginning is the turn before the first, after what stands there."""
    marks = turn_marks(load_journal(journal_of(tmp_path / "a", TALK)).entries)
    assert [(0, 1, 0, ""), (1, 5, 2, "one"), (2, 9, 4, "two")] == [
        (mark.number, mark.seq, mark.length, mark.question) for mark in marks
    ]
    assert [0, 1, 2] == [mark.number for mark in turn_marks(load_journal(journal_of(tmp_path / "b", WRITES)).entries)]


def test_a_fork_holds_what_was_there(tmp_path: Path) -> None:
    """The new journal is whole, tells where it comes from, goes on by itself and leaves the old one as it was."""
    source = journal_of(tmp_path / "old", TALK)
    before = source.read_bytes()

    assert 1 == fork(source, tmp_path / "new", "new", 1).number

    made = load_journal(tmp_path / "new" / "journal.jsonl")
    assert ["one", "1"] == [message.content for message in fold(tuple(made.facts)).history]
    assert "new" == made.conversation
    assert {"session": "s1", "turn": 1, "seq": 5} == made.header["forked_from"]
    assert verify(tmp_path / "new" / "journal.jsonl").is_whole
    with_more = opened(tmp_path / "new")
    with_more.log.append((TurnStart(), MessageAdded(user("another"))))
    with_more.log.commit()
    with_more.log.close()
    assert before == source.read_bytes()


def test_what_runs_stays_behind(tmp_path: Path) -> None:
    """A session may be forked while it is open; the turn that has not ended is not done by two."""
    log = opened(tmp_path / "old").log
    log.append(sum(TALK, ()))
    log.append((TurnStart(), MessageAdded(user("three"))))
    log.commit()

    mark = fork(tmp_path / "old" / "journal.jsonl", tmp_path / "new", "new")

    assert (2, "two") == (mark.number, mark.question)
    made = load_journal(tmp_path / "new" / "journal.jsonl")
    assert not fold(tuple(made.facts)).in_turn
    log.close()


def test_a_turn_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A number that is no ended turn is told with those there are, and nothing is made."""
    source = journal_of(tmp_path / "old", TALK)
    with pytest.raises(ConfigError, match="turn 7 is none of the turns that have ended"):
        fork(source, tmp_path / "new", "new", 7)
    assert not (tmp_path / "new").exists()
    with pytest.raises(ConfigError, match="there is a session"):
        fork(source, tmp_path / "old", "old")
