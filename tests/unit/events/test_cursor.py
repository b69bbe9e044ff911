"""A reader sees each entry once, however often it comes."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from plait.core.errors import JournalError
from plait.core.facts import Entry, TurnStart
from plait.events.cursor import Cursor


def entries(first: int, last: int) -> list[Entry]:
    """Return entries with these numbers."""
    return [Entry(seq, 0, "r", TurnStart()) for seq in range(first, last + 1)]


@given(st.integers(0, 10), st.integers(0, 10), st.integers(0, 10))
def test_a_replay_and_a_live_stream_that_overlap_give_each_entry_once(seen: int, read: int, more: int) -> None:
    """Whatever a reader had seen and however far a replay reached into what came live, nothing is twice or missing."""
    cursor = Cursor(seen)
    last = seen + read + more

    got = cursor.take(entries(1, seen + read)) + cursor.take(entries(1, last))

    assert list(range(seen + 1, last + 1)) == [entry.seq for entry in got]
    assert last == cursor.seq


def test_a_gap_is_noticed() -> None:
    """A missing entry is an error that says from where to read again, and what came before it is not lost."""
    cursor = Cursor()
    cursor.take(entries(1, 2))

    with pytest.raises(JournalError, match="entries 3 to 4 were missed") as caught:
        cursor.take(entries(5, 6))

    assert (2, 2) == (caught.value.seq, cursor.seq)
