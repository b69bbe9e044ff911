"""The last messages of a journal, read from its end."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from plait.core.errors import JournalCorrupt, JournalError
from plait.core.facts import Fact, MessageAdded, Observation, Reset
from plait.core.messages import user
from plait.kernel.state import fold
from plait.store import tail
from plait.store.tail import Window, read_tail
from tests.helpers.journals import FACTS, append, journal_of, many, opened, ticking
from tests.helpers.programs import Program, ProgramWorld, programs
from tests.helpers.worlds import TASK


@given(programs, st.data())
def test_a_window_knows_the_end_of_the_history(program: Program, data: st.DataObject) -> None:
    """Whatever facts are left out before it, what a window knows is how the whole history ends."""
    world = ProgramWorld(program)
    world.to_the_end(TASK)
    start = data.draw(st.integers(0, len(world.facts)))
    end = data.draw(st.integers(start, len(world.facts)))
    known = Window(world.facts[start:end]).known
    history = fold(world.facts[:end]).history

    assert known == history[len(history) - len(known) :]


@pytest.mark.parametrize("first_bytes", [1, 200, 1_000, 5_000, 10**6])
@pytest.mark.parametrize("count", [1, 3, 8, 50])
def test_the_tail_is_the_end_of_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first_bytes: int, count: int
) -> None:
    """However much is read at first, the last messages are the last of the whole history."""
    writes = many(6)
    path = journal_of(tmp_path, writes)
    history = fold([fact for write in writes for fact in write]).history
    monkeypatch.setattr(tail, "_FIRST_BYTES", first_bytes)
    read = read_tail(path, count)

    assert history[-count:] == read.messages
    assert read.is_all or count < len(history)
    assert ticking()() < read.at_ms


def test_an_edit_of_history_that_the_tail_cannot_place_is_looked_up(tmp_path: Path) -> None:
    """After a replacement in the middle of what was read, nothing is guessed."""
    writes: list[tuple[Fact, ...]] = [(MessageAdded(user(f"message {n} " + "x" * 2_000)),) for n in range(60)]
    writes += [(Reset(10, 58, (user("in short"),), "compaction"),), (MessageAdded(user("and on")),)]
    path = journal_of(tmp_path, writes)

    assert fold([fact for write in writes for fact in write]).history[-4:] == read_tail(path, 4).messages


def test_the_tail_of_an_unfinished_write_is_left_out(tmp_path: Path) -> None:
    """What was never acknowledged is not shown."""
    path = journal_of(tmp_path, many(40))
    expected = read_tail(path, 5)
    with path.open("ab") as file:
        file.write(b'{"at":1,"seq":9,"type":"message","da')

    assert expected == read_tail(path, 5)


def test_an_empty_journal_has_no_messages(tmp_path: Path) -> None:
    """A session in which nothing was said has an empty tail."""
    log = opened(tmp_path).log
    append(log, [(Observation("session_start", {}),)])
    log.close()
    read = read_tail(log.path, 50)

    assert ([], True) == (read.messages, read.is_all)


def test_a_tail_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """Neither a missing file nor a damaged one is taken for a short conversation."""
    with pytest.raises(JournalError):
        read_tail(tmp_path / "none.jsonl", 5)
    path = journal_of(tmp_path, many(40))
    data = bytearray(path.read_bytes())
    data[-200] ^= 1
    path.write_bytes(data)
    with pytest.raises(JournalCorrupt):
        read_tail(path, 5)


def test_the_window_of_a_whole_conversation_is_its_history() -> None:
    """With nothing left out before it, a window knows everything that an edit has not hidden."""
    for end in range(len(FACTS)):
        known = Window(FACTS[:end]).known
        history = fold(FACTS[:end]).history
        assert known == history[len(history) - len(known) :]
