"""C6: the n-th operation on the disk fails, for every n and every way to fail; nothing committed is lost."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from plait.core.errors import JournalError, JournalFull
from plait.core.facts import Fact, Observation
from plait.store import disk
from plait.store.opening import load_journal
from tests.helpers.campaigns import Campaign
from tests.helpers.faulty_os import FaultyOs
from tests.helpers.journals import FACTS, WRITES, append, journal_of, opened

ERRORS: Sequence[int | str] = (
    errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EMFILE, errno.EFBIG, "short",
)  # fmt: skip
TORN = b'{"at":9,"seq":99,"type":"mess'


class Journey:
    """A session's life on a disk: begun, closed, torn by a crash, resumed, and ended. Notes what was acknowledged."""

    def __init__(self, folder: Path) -> None:
        self.acknowledged: list[Fact] = []
        self._folder = folder

    def travel(self) -> None:
        """Live it, up to the first error."""
        half = len(WRITES) // 2
        self._write(WRITES[:half])
        path = self._folder / "journal.jsonl"
        with path.open("ab") as crashed:
            crashed.write(TORN)
        self._write(WRITES[half:])

    def _write(self, writes: Sequence[tuple[Fact, ...]]) -> None:
        log = opened(self._folder).log
        try:
            for facts in writes:
                append(log, [facts])
                self.acknowledged += facts
        finally:
            log.close()


def test_any_operation_may_fail_in_any_way(tmp_path: Path, campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing operation is a typed error or none; what was acknowledged is read back, and all files are closed."""
    counting = FaultyOs()
    monkeypatch.setattr(disk, "os", counting)
    Journey(tmp_path / "counted").travel()
    cases = [*itertools.product(range(1, counting.count + 1), ERRORS, [False, True])]
    files = len(os.listdir("/proc/self/fd"))
    for index, (nth, number, is_sticky) in enumerate(campaign.each(cases, fast=120)):
        folder = tmp_path / str(index)
        faulty = FaultyOs(nth, number, is_sticky=is_sticky)
        journey = Journey(folder)
        monkeypatch.setattr(disk, "os", faulty)
        error: JournalError | None = None
        try:
            journey.travel()
        except JournalError as raised:
            error = raised
        finally:
            monkeypatch.setattr(disk, "os", os)
        assert error is None or faulty.failed, f"{error} at {nth}, {number}"
        assert not isinstance(error, JournalFull) or number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, "short")
        assert files == len(os.listdir("/proc/self/fd")), f"{faulty.failed} at {nth}, {number}: a file is left open"
        assert_goes_on(folder, journey.acknowledged)


def assert_goes_on(folder: Path, acknowledged: Sequence[Fact]) -> None:
    """Assert that a session resumes on a disk that is well again, with all that was acknowledged, to the same end."""
    again = opened(folder)
    there = load_journal(again.log.path).facts
    assert [*FACTS][: len(there)] == there
    assert len(acknowledged) <= len(there)
    append(again.log, [tuple(FACTS[len(there) :])])
    again.log.close()
    assert [*FACTS] == load_journal(again.log.path).facts


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_failed_sync_ends_the_writer_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """After one failed sync nothing is promised again by this writer, even where the next sync would succeed."""
    log = opened(tmp_path).log
    append(log, WRITES[:2])
    monkeypatch.setattr(disk, "os", FaultyOs(3, number))  # after fstat and write

    with pytest.raises(JournalError):
        append(log, WRITES[2:3])
    safe = log.path.read_bytes()
    for attempt in (lambda: append(log, WRITES[3:4]), log.commit, lambda: log.append(WRITES[3])):
        with pytest.raises(JournalError, match="could not be synced"):
            attempt()
    log.close()
    assert safe == log.path.read_bytes()
    assert [*FACTS][: sum(map(len, WRITES[:2]))] == load_journal(log.path).facts


def test_a_lock_that_cannot_be_had_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file system has no locks the session is refused, not shared."""

    def no_locks(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(JournalError, match="No locks available"):
        opened(tmp_path)


def test_all_that_was_read_is_durable_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that died before its sync left lines that only memory holds: opening syncs them and the file's name."""
    path = journal_of(tmp_path)
    watching = FaultyOs()
    monkeypatch.setattr(disk, "os", watching)
    log = opened(tmp_path).log
    done = " ".join(watching.done)
    log.close()

    assert len(FACTS) == load_journal(path).seq
    assert "pread pread fsync open fsync close fstat open pwrite" == done[done.rindex("pread pread") :]


def test_a_large_write_is_one_barrier_however_often_it_is_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that takes writes in small pieces costs patience, not facts."""
    log = opened(tmp_path).log
    small: Callable[[int, memoryview], int] = lambda fd, data: os.write(fd, data[:7])  # noqa: E731
    watching = FaultyOs()
    monkeypatch.setattr(disk, "os", watching)
    monkeypatch.setattr(watching, "write", small, raising=False)
    append(log, [(Observation("note", {"text": "x" * 10_000}),), *WRITES])
    log.close()

    assert 1 + len(FACTS) == load_journal(log.path).seq
    assert 1 + len(WRITES) == watching.done.count("fdatasync")
