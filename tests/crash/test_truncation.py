"""C1: a journal cut at any byte opens, goes on, and opens again."""

from __future__ import annotations

from pathlib import Path

import pytest

from plait.core.facts import TurnEnd, TurnStart
from plait.store.opening import load_journal
from tests.helpers.campaigns import Campaign
from tests.helpers.journals import FACTS, WRITES, append, facts_of, journal_of, opened

TURNS = 3

pytestmark = pytest.mark.usefixtures("no_waiting")


def test_a_journal_cut_at_any_byte_goes_on(tmp_path: Path, campaign: Campaign) -> None:
    """After a cut at any byte every whole line is there, a fact is added, and both are there in the end."""
    whole = journal_of(tmp_path / "whole", [write for _ in range(TURNS) for write in WRITES]).read_bytes()
    folder = tmp_path / "cut"
    folder.mkdir()
    path = folder / "journal.jsonl"
    for size in campaign.each(range(len(whole) + 1), fast=400):
        for left_over in folder.iterdir():
            left_over.unlink()
        path.write_bytes(whole[:size])
        assert_goes_on(folder, max(0, whole.count(b"\n", 0, size) - 1))


def test_a_journal_cut_around_any_line_end_goes_on(tmp_path: Path, campaign: Campaign) -> None:
    """The same around every line's end, where a line is whole, or nearly, or has lost its newline."""
    whole = journal_of(tmp_path / "whole").read_bytes()
    ends = [offset for offset, byte in enumerate(whole) if byte == ord("\n")]
    folder = tmp_path / "cut"
    for size in campaign.each([end + near for end in ends for near in (-1, 0, 1, 2)], fast=1_000):
        folder.mkdir(exist_ok=True)
        for left_over in folder.iterdir():
            left_over.unlink()
        (folder / "journal.jsonl").write_bytes(whole[:size])
        assert_goes_on(folder, max(0, whole.count(b"\n", 0, size) - 1))


def assert_goes_on(folder: Path, lines: int) -> None:
    """Assert that a journal holds so many facts, takes another one, and holds that one too."""
    expected = [*FACTS * TURNS][:lines]
    first = opened(folder)
    assert expected == facts_of(first.journal.entries)
    append(first.log, [(TurnStart(),)])
    first.log.close()
    second = opened(folder)
    append(second.log, [(TurnEnd("completed"),)])
    second.log.close()

    assert [*expected, TurnStart(), TurnEnd("completed")] == facts_of(load_journal(second.log.path).entries)
