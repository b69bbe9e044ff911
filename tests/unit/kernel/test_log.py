"""The log that lives in memory."""

from __future__ import annotations

import itertools

from plait.core.facts import Entry, MessageAdded, TurnStart
from plait.core.messages import user
from plait.kernel.log import MemoryLog


def test_entries_are_numbered_from_one() -> None:
    """Each fact has its place, its time and its run."""
    log = MemoryLog(itertools.count(1_000).__next__, run_id="r1")
    log.append((TurnStart(), MessageAdded(user("a"))))
    log.append((MessageAdded(user("b")),))

    assert [
        Entry(1, 1_000, "r1", TurnStart()),
        Entry(2, 1_000, "r1", MessageAdded(user("a"))),
        Entry(3, 1_001, "r1", MessageAdded(user("b"))),
    ] == log.entries


def test_only_what_is_committed_is_handed_on() -> None:
    """A fact is handed on after its barrier, once."""
    log = MemoryLog(lambda: 0)
    log.append((TurnStart(),))
    assert (1, ()) == (log.uncommitted, log.take_committed())

    assert log.commit() is None
    log.append((MessageAdded(user("a")),))

    assert [1] == [entry.seq for entry in log.take_committed()]
    assert () == log.take_committed()
    log.commit()
    assert [2] == [entry.seq for entry in log.take_committed()]
    assert 0 == log.uncommitted
