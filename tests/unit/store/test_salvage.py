"""Checking a journal, and making a new one of what is whole in a damaged one."""

from __future__ import annotations

from pathlib import Path

import pytest

from plait.core.errors import ConfigError, JournalCorrupt, JournalError
from plait.core.facts import TurnEnd
from plait.store.opening import load_journal
from plait.store.salvage import repair, verify
from plait.store.tail import read_tail
from tests.helpers.journals import FACTS, append, journal_of, many, opened


def test_a_whole_journal_is_whole(tmp_path: Path) -> None:
    """Nothing is found where nothing is wrong; an unfinished write is told and is no damage."""
    path = journal_of(tmp_path)

    assert (True, len(FACTS), 0) == (verify(path).is_whole, verify(path).records, verify(path).torn_bytes)
    with path.open("ab") as file:
        file.write(b'{"at":')
    assert (True, len(FACTS), 6) == (verify(path).is_whole, verify(path).records, verify(path).torn_bytes)


def test_the_first_damaged_record_is_named(tmp_path: Path) -> None:
    """A damaged journal's verdict says which record, at which byte, and how many before it are whole."""
    path = journal_of(tmp_path)
    data = bytearray(path.read_bytes())
    data[data.index(b"I look")] ^= 1
    path.write_bytes(data)
    verdict = verify(path)

    assert verdict.problem is not None
    assert (False, 3, 4) == (verdict.is_whole, verdict.records, verdict.problem.seq)
    assert data.rfind(b"\n", 0, data.index(b"I") + 9) < len(data)
    assert verdict.problem.offset is not None
    assert b" look" in data[verdict.problem.offset :].split(b"\n")[0]


def test_facts_that_do_not_fit_are_damage(tmp_path: Path) -> None:
    """Lines that are whole one by one and impossible together are found."""
    log = opened(tmp_path).log
    append(log, [(TurnEnd("completed"),)])
    log.close()
    verdict = verify(log.path)

    assert verdict.problem is not None
    assert (0, 1) == (verdict.records, verdict.problem.seq)


def test_a_repair_salvages_into_a_new_session(tmp_path: Path) -> None:
    """What is whole before the damage is in the new journal, and the damaged file is left as it was."""
    path = journal_of(tmp_path / "old", many(20))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    verdict = repair(path, tmp_path / "new", "new")
    made = tmp_path / "new" / "journal.jsonl"

    assert not verdict.is_whole
    assert bytes(data) == path.read_bytes()
    assert verdict.records == load_journal(made).seq
    assert str(path) == load_journal(made).header["repaired_from"]
    assert verify(made).is_whole
    assert read_tail(made, 2).messages
    opened(tmp_path / "new").log.close()


def test_a_repair_never_overwrites(tmp_path: Path) -> None:
    """There is no salvaging into a session that is there."""
    path = journal_of(tmp_path)

    with pytest.raises(ConfigError, match="already"):
        repair(path, tmp_path, "s1")
    assert len(FACTS) == load_journal(path).seq


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """No file, and a file of something else, are said to be that."""
    with pytest.raises(JournalError, match="No such file"):
        verify(tmp_path / "none.jsonl")
    (tmp_path / "other.jsonl").write_text("hello\n")
    assert not verify(tmp_path / "other.jsonl").is_whole
    with pytest.raises(JournalCorrupt, match="no journal"):
        repair(tmp_path / "other.jsonl", tmp_path / "new", "new")
