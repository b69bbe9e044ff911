"""C4: whatever a power cut leaves of a write that was not synced, the journal opens with all that was.

The model of a disk: a file's bytes up to the last sync are there. Of what was written since, each sector of 512 bytes
is there or not, in any order; where it is not, the file has zeros, noise, or its old bytes; and the file may have any
length from the old one to the new one.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from plait.core.facts import Entry, Fact, Observation, TurnStart
from plait.store.opening import load_journal
from plait.store.records import Chain, encode_header, is_unborn, read_journal
from tests.helpers.campaigns import Campaign
from tests.helpers.journals import NOTE, append, opened

SECTOR_BYTES = 512
HOLES = ("zeros", "noise", "cut")

BEFORE: tuple[Fact, ...] = (TurnStart(), *(Observation("note", {"before": "x" * (70 * n)}) for n in range(6)))
LATEST: tuple[Fact, ...] = (
    Observation("note", {"large": "y" * 700}),
    *(Observation("note", {"n": n, "text": "z" * 40 * n}) for n in range(12)),
)


def journal(before: int) -> tuple[bytes, bytes]:
    """Return what was safe after some facts, and the write that was not."""
    header, crc = encode_header("s1", {"project": "p"})
    chain = Chain(crc)
    safe = header + b"".join(chain.write([Entry(n, n, "", fact)]) for n, fact in enumerate(BEFORE[:before], 1))
    return safe, chain.write([Entry(before + n, 99, "", fact) for n, fact in enumerate(LATEST, 1)])


def after_power_cuts(safe: bytes, write: bytes, dice: random.Random) -> Iterator[bytes]:
    """Give every state of the file that the model allows: each set of lost sectors, each way to lose them."""
    whole = safe + write
    first, last = len(safe) // SECTOR_BYTES, (len(whole) - 1) // SECTOR_BYTES
    for kept in itertools.product([False, True], repeat=last - first + 1):
        for hole in HOLES:
            state = bytearray(safe)
            for index, is_kept in enumerate(kept):
                start = max(len(safe), (first + index) * SECTOR_BYTES)
                there = whole[start : (first + index + 1) * SECTOR_BYTES]
                lost = {"zeros": bytes(len(there)), "noise": dice.randbytes(len(there)), "cut": b""}[hole]
                state += there if is_kept else lost
                if hole == "cut" and not is_kept:
                    break
            yield bytes(state)
            yield bytes(state[: dice.randrange(len(safe), len(state) + 1)])


def test_every_state_after_a_power_cut_opens(campaign: Campaign) -> None:
    """Nothing that was safe is missing, what is there of the rest is its beginning, and nothing is called damage."""
    dice = random.Random(campaign.seed)
    for before in campaign.each(range(len(BEFORE) + 1), fast=3):
        safe, write = journal(before)
        facts = [*BEFORE[:before], *LATEST]
        for state in after_power_cuts(safe, write, dice):
            found = read_journal(state, "", len(safe))
            assert facts[: found.seq] == found.facts
            assert found.seq >= before
            assert found.seq == len(facts) or found.torn is not None or found.end == len(state)


@pytest.mark.usefixtures("no_waiting")
def test_a_journal_goes_on_after_a_power_cut(tmp_path: Path, campaign: Campaign) -> None:
    """What was cut off is gone for good: the next write stands where the lost one stood, and is read."""
    dice = random.Random(campaign.seed)
    safe, write = journal(3)
    states = [*after_power_cuts(safe, write, dice)]
    path = tmp_path / "journal.jsonl"
    for state in campaign.each(states, fast=20):
        for left_over in tmp_path.iterdir():
            left_over.unlink()
        path.write_bytes(state)
        log = opened(tmp_path).log
        there = load_journal(path).facts
        append(log, [(NOTE,)])
        log.close()
        opened(tmp_path).log.close()
        assert [*there, NOTE] == load_journal(path).facts


def test_every_state_after_a_power_cut_at_birth_opens(tmp_path: Path) -> None:
    """A journal that was never whole is made anew, whichever sectors of its first line are there."""
    header, _ = encode_header("s1", {"project": "p" * 1_400})
    sectors = [header[at : at + SECTOR_BYTES] for at in range(0, len(header), SECTOR_BYTES)]
    for kept in itertools.product([False, True], repeat=len(sectors)):
        state = b"".join(
            sector if is_kept else bytes(len(sector)) for is_kept, sector in zip(kept, sectors, strict=True)
        )
        assert all(kept) or is_unborn(state)
    (tmp_path / "journal.jsonl").write_bytes(bytes(SECTOR_BYTES) + header[SECTOR_BYTES:])
    log = opened(tmp_path).log
    append(log, [(TurnStart(),)])
    log.close()
