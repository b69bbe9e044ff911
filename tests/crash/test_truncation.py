"""C1: a journal cut at any byte opens, goes on, and opens again."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from plait.core.facts import Fact
from plait.store.opening import load_journal
from tests.helpers.campaigns import Campaign
from tests.helpers.journals import NOTE, append, journal_of, many, opened

TURNS = 3
WRITES = many(TURNS)
FACTS = [fact for write in WRITES for fact in write]

pytestmark = pytest.mark.usefixtures("no_waiting")


def test_every_kind_of_fact_is_cut() -> None:
    """The journal that is cut holds every kind of fact that there is."""
    assert {*get_args(Fact)} == {type(fact) for fact in FACTS}


def test_a_journal_cut_at_any_byte_goes_on(tmp_path: Path, campaign: Campaign) -> None:
    """After a cut at any byte every whole line is there, a fact is added, and both are there in the end."""
    whole = journal_of(tmp_path / "whole", WRITES).read_bytes()
    folder = tmp_path / "cut"
    folder.mkdir()
    path = folder / "journal.jsonl"
    for size in campaign.each(range(len(whole) + 1), fast=150):
        for left_over in folder.iterdir():
            left_over.unlink()
        path.write_bytes(whole[:size])
        assert_goes_on(folder, max(0, whole.count(b"\n", 0, size) - 1))


def test_a_journal_cut_around_any_line_end_goes_on(tmp_path: Path, campaign: Campaign) -> None:
    """The same around every line's end, where a line is whole, or nearly, or has lost its newline."""
    whole = journal_of(tmp_path / "whole", WRITES).read_bytes()
    ends = [offset for offset, byte in enumerate(whole) if byte == ord("\n")]
    folder = tmp_path / "cut"
    for size in campaign.each([end + near for end in ends for near in (-1, 0, 1, 2)], fast=100):
        folder.mkdir(exist_ok=True)
        for left_over in folder.iterdir():
            left_over.unlink()
        (folder / "journal.jsonl").write_bytes(whole[:size])
        assert_goes_on(folder, max(0, whole.count(b"\n", 0, size) - 1))


def assert_goes_on(folder: Path, lines: int) -> None:
    """Assert that a journal holds so many facts, takes another one, and holds that one too."""
    expected = FACTS[:lines]
    first = opened(folder)
    assert expected == load_journal(first.log.path).facts
    append(first.log, [(NOTE,)])
    first.log.close()
    second = opened(folder)
    append(second.log, [(NOTE,)])
    second.log.close()

    assert [*expected, NOTE, NOTE] == load_journal(second.log.path).facts
