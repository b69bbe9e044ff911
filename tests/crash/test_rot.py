"""C8: no damage to what was safe is ever taken for an unfinished write, let alone for what was written."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from plait.core.errors import JournalCorrupt, JournalError
from plait.core.facts import Observation
from plait.store.records import read_journal
from tests.helpers.campaigns import Campaign
from tests.helpers.journals import FACTS, WRITES, journal_of

SECTOR_BYTES = 512


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return a journal of about four kilobytes with every kind of fact in it."""
    return journal_of(tmp_path_factory.mktemp("whole")).read_bytes()


def test_every_flipped_bit_is_found(whole: bytes, campaign: Campaign) -> None:
    """Each single bit of a journal that was safe: reading refuses, and names the line it stands on."""
    for bit in campaign.each(range(len(whole) * 8), fast=2_000):
        offset = bit // 8
        damaged = bytearray(whole)
        damaged[offset] ^= 1 << bit % 8
        with pytest.raises(JournalError) as caught:
            read_journal(bytes(damaged), "", len(whole))
        line = whole.rfind(b"\n", 0, offset) + 1
        assert line == (caught.value.offset or 0), f"bit {bit}"


def test_a_flipped_bit_before_the_last_write_is_found_without_the_note(whole: bytes, campaign: Campaign) -> None:
    """Where the writer's note is lost, the next write still vouches for everything before it."""
    last = whole.rfind(b'\n{"at":') + 1
    for bit in campaign.each(range(last * 8), fast=1_000):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(JournalError):
            read_journal(bytes(damaged))


def test_a_flipped_bit_in_the_last_write_costs_no_more_than_that_write(whole: bytes, campaign: Campaign) -> None:
    """Without the note the last write may be an unfinished one: what is read is whole, and the damage is reported."""
    last = whole.rfind(b'\n{"at":') + 1
    for bit in campaign.each(range(last * 8, len(whole) * 8), fast=300):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        journal = read_journal(bytes(damaged))
        assert journal.torn is not None
        assert [*FACTS][: journal.seq] == journal.facts
        assert journal.seq >= len(FACTS) - len(WRITES[-1])


def test_changed_lines_are_found(whole: bytes, tmp_path: Path, campaign: Campaign) -> None:
    """Lines exchanged, repeated, left out, taken from elsewhere, and sectors lost or swapped: all of it is found."""
    other = journal_of(tmp_path, [(Observation("note", {"n": n}),) for n in range(20)]).read_bytes()
    changed = [(name, damaged) for name, damaged in changes(whole, other) if damaged != whole]
    for name, damaged in campaign.each(changed, fast=200):
        print(name)
        with pytest.raises(JournalCorrupt):
            read_journal(damaged, "", len(whole))


def changes(whole: bytes, other: bytes) -> Iterator[tuple[str, bytes]]:
    """Give a journal with something changed, and what that is."""
    lines, others = whole.splitlines(keepends=True), other.splitlines(keepends=True)
    for at in range(len(lines) - 1):
        yield f"exchange {at}", b"".join([*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]])
        yield f"leave out {at}", b"".join([*lines[:at], *lines[at + 1 :]])
        yield f"repeat {at}", b"".join([*lines[: at + 1], *lines[at:]])
        yield f"foreign {at}", b"".join([*lines[:at], others[at % len(others)], *lines[at + 1 :]])
    sectors = [whole[at : at + SECTOR_BYTES] for at in range(0, len(whole), SECTOR_BYTES)]
    noise = random.Random(8).randbytes(SECTOR_BYTES)
    for at in range(len(sectors)):
        size = len(sectors[at])
        yield f"zero sector {at}", b"".join([*sectors[:at], bytes(size), *sectors[at + 1 :]])
        yield f"noise in sector {at}", b"".join([*sectors[:at], noise[:size], *sectors[at + 1 :]])
        yield f"lost sector {at}", b"".join([*sectors[:at], *sectors[at + 1 :]])
        if at:
            yield f"sector {at} twice", b"".join([*sectors[:at], sectors[at - 1][:size], *sectors[at + 1 :]])
    yield "trailing newline lost", whole[:-1]
    yield "last line lost", b"".join(lines[:-1])
