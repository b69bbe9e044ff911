"""Barriers for event loops: made by one thread, together where several conversations ask at once."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plait.core.errors import JournalPoisoned
from plait.core.facts import Observation, TurnEnd, TurnStart
from plait.store import disk, group_sync
from plait.store.group_sync import FILES_MIN, GroupSync, is_trusted
from plait.store.opening import load_journal
from plait.store.syncer import AsyncJsonlLog, Syncer
from tests.helpers.journals import facts_of, opened


class Counted:
    """Counts calls of a function, and makes them fail."""

    def __init__(self, error: OSError | None = None, real: Callable[..., Any] = lambda *_: None) -> None:
        self.calls = 0
        self.error = error
        self.real = real

    def __call__(self, *args: Any) -> None:
        self.calls += 1
        if self.error is not None:
            raise self.error
        self.real(*args)


@pytest.fixture
def syncer() -> Syncer:
    """Return a syncer; its thread ends with the test."""
    return Syncer()


def test_a_barrier_is_awaited(tmp_path: Path, syncer: Syncer) -> None:
    """What was committed is in the file when the await returns, and handed on once."""

    async def main() -> None:
        log = AsyncJsonlLog(opened(tmp_path).log, syncer)
        assert log.commit() is None
        log.append((TurnStart(),))
        barrier = log.commit()
        assert barrier is not None
        assert () == tuple(log.take_committed())
        await barrier
        assert [TurnStart()] == facts_of(log.take_committed())
        assert log.commit() is None

    asyncio.run(main())
    syncer.close()
    assert 1 == load_journal(tmp_path / "journal.jsonl").seq


def test_conversations_share_a_sync(tmp_path: Path, syncer: Syncer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty-four conversations that reach a barrier together cost a handful of syncs."""
    whole, single = Counted(real=disk.sync_file_system), Counted()
    monkeypatch.setattr(group_sync, "is_trusted", lambda _: True)

    async def main() -> None:
        logs = [AsyncJsonlLog(opened(tmp_path / str(number)).log, syncer) for number in range(64)]
        monkeypatch.setattr(disk, "sync_file_system", whole)
        monkeypatch.setattr(disk, "sync_data", single)
        for step in range(5):
            barriers = []
            for log in logs:
                log.append((Observation("note", {"step": step}),))
                barriers.append(log.commit())
            await asyncio.gather(*(barrier for barrier in barriers if barrier is not None))

    asyncio.run(main())
    syncer.close()
    assert {5} == {load_journal(tmp_path / str(number) / "journal.jsonl").seq for number in range(64)}
    assert 0 < whole.calls <= 40
    assert single.calls <= 5 * FILES_MIN * 5


def test_one_failing_journal_costs_the_others_nothing(
    tmp_path: Path, syncer: Syncer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a round of barriers, the one that cannot be written is told so; the rest are durable."""
    real = disk.write_all

    async def main() -> None:
        logs = [AsyncJsonlLog(opened(tmp_path / str(number)).log, syncer) for number in range(8)]
        broken = logs[3]._log._fd

        def write_all(fd: int, data: bytes) -> None:
            if fd == broken:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            real(fd, data)

        monkeypatch.setattr(disk, "write_all", write_all)
        for log in logs:
            log.append((TurnStart(),))
        barriers = [log.commit() for log in logs]
        ends = await asyncio.gather(*(barrier for barrier in barriers if barrier), return_exceptions=True)
        assert [3] == [number for number, end in enumerate(ends) if isinstance(end, JournalPoisoned)]
        with pytest.raises(JournalPoisoned):
            logs[3].commit()

    asyncio.run(main())
    syncer.close()
    assert [1, 1, 1, 0, 1, 1, 1, 1] == [load_journal(tmp_path / str(n) / "journal.jsonl").seq for n in range(8)]


def test_a_failed_shared_sync_fails_all_who_shared_it(
    tmp_path: Path, syncer: Syncer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a common sync fails nobody is told that their facts are safe, and every writer is over."""
    monkeypatch.setattr(group_sync, "is_trusted", lambda _: True)
    monkeypatch.setattr(disk, "sync_file_system", Counted(OSError(errno.EIO, os.strerror(errno.EIO))))
    monkeypatch.setattr(disk, "sync_data", Counted(OSError(errno.EIO, os.strerror(errno.EIO))))

    async def main() -> None:
        logs = [AsyncJsonlLog(opened(tmp_path / str(number)).log, syncer) for number in range(8)]
        for log in logs:
            log.append((TurnStart(),))
        barriers = [log.commit() for log in logs]
        ends = await asyncio.gather(*(barrier for barrier in barriers if barrier), return_exceptions=True)
        assert {JournalPoisoned} == {type(end) for end in ends}
        assert all(not log.take_committed() for log in logs)

    asyncio.run(main())
    syncer.close()
    assert {0} == {load_journal(tmp_path / str(number) / "journal.jsonl").seq for number in range(8)}


def test_barriers_of_one_journal_keep_their_order(tmp_path: Path, syncer: Syncer) -> None:
    """A barrier that is asked for while another one is made comes after it, with its own facts only."""

    async def main() -> None:
        log = AsyncJsonlLog(opened(tmp_path).log, syncer)
        log.append((TurnStart(),))
        first = log.commit()
        log.append((TurnEnd("completed"),))
        second = log.commit()
        assert first is not None
        assert second is not None
        await second
        assert [TurnStart(), TurnEnd("completed")] == facts_of(log.take_committed())

    asyncio.run(main())
    syncer.close()
    assert 2 == load_journal(tmp_path / "journal.jsonl").seq


def test_a_cancelled_wait_leaves_the_barrier_alone(tmp_path: Path, syncer: Syncer) -> None:
    """Who stops waiting does not stop the disk, and the next barrier is none the worse."""

    async def main() -> None:
        log = AsyncJsonlLog(opened(tmp_path).log, syncer)
        for number in range(20):
            log.append((Observation("note", {"n": number}),))
            barrier = log.commit()
            assert barrier is not None
            asyncio.ensure_future(barrier).cancel()
        log.append((TurnStart(),))
        last = log.commit()
        assert last is not None
        await last

    asyncio.run(main())
    syncer.close()
    assert 21 == load_journal(tmp_path / "journal.jsonl").seq


def test_a_loop_may_end_before_its_barriers(tmp_path: Path, syncer: Syncer) -> None:
    """Facts whose event loop was closed meanwhile are as safe as any, and the thread goes on for others."""
    log = AsyncJsonlLog(opened(tmp_path / "a").log, syncer)

    async def leave() -> None:
        log.append((TurnStart(),))
        log.commit()

    asyncio.run(leave())
    other = AsyncJsonlLog(opened(tmp_path / "b").log, syncer)

    async def stay() -> None:
        other.append((TurnStart(),))
        barrier = other.commit()
        assert barrier is not None
        await barrier

    asyncio.run(stay())
    syncer.close()
    assert (1, 1) == (
        load_journal(tmp_path / "a" / "journal.jsonl").seq,
        load_journal(tmp_path / "b" / "journal.jsonl").seq,
    )


def test_a_syncer_that_was_closed_begins_again(tmp_path: Path, syncer: Syncer) -> None:
    """Closing ends the thread after its work; another barrier starts another one; closing twice is fine."""

    async def commit(log: AsyncJsonlLog) -> None:
        log.append((TurnStart(),))
        barrier = log.commit()
        assert barrier is not None
        await barrier

    log = AsyncJsonlLog(opened(tmp_path).log, syncer)
    threads = threading.active_count()
    for _ in range(2):
        asyncio.run(commit(log))
        syncer.close()
        syncer.close()
        assert threads == threading.active_count()
    assert 2 == load_journal(tmp_path / "journal.jsonl").seq


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_has_a_thread_of_its_own(tmp_path: Path, syncer: Syncer) -> None:
    """A child of a process with a busy syncer makes its own barriers and none of its parent's."""

    async def commit(log: AsyncJsonlLog, count: int) -> None:
        for _ in range(count):
            log.append((TurnStart(),))
            barrier = log.commit()
            assert barrier is not None
            await asyncio.wait_for(barrier, 10)

    asyncio.run(commit(AsyncJsonlLog(opened(tmp_path / "parent").log, syncer), 3))
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(commit(AsyncJsonlLog(opened(tmp_path / "child").log, syncer), 2))
            syncer.close()
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert 0 == os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    syncer.close()
    assert 3 == load_journal(tmp_path / "parent" / "journal.jsonl").seq
    assert 2 == load_journal(tmp_path / "child" / "journal.jsonl").seq


def test_a_slow_common_sync_is_not_made_again_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While other programs have much to write, files are synced one by one, and later together again."""
    now_s = [0.0]
    whole = Counted(real=lambda _: now_s.__setitem__(0, now_s[0] + 1))
    monkeypatch.setattr(group_sync, "is_trusted", lambda _: True)
    monkeypatch.setattr(disk, "sync_file_system", whole)
    group = GroupSync(lambda: now_s[0])

    assert [True, False] == [group.sync(1, tmp_path, 9), group.sync(1, tmp_path, 9)]
    now_s[0] += 61
    assert group.sync(1, tmp_path, 9)
    assert not group.sync(1, tmp_path, FILES_MIN - 1)
    group.close()
    assert 2 == whole.calls


def test_only_known_file_systems_are_synced_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that is no mount of ours, or an old kernel, is not trusted to tell of every error."""
    assert not is_trusted(os.makedev(4_000, 7))
    assert not is_trusted(os.stat("/proc").st_dev)
    monkeypatch.setattr(group_sync, "_kernel_version", lambda: (5, 7))
    assert not is_trusted(os.stat("/").st_dev)


def test_a_whole_file_system_is_synced(tmp_path: Path) -> None:
    """The call exists on this system, and an error of it is an `OSError`."""
    with disk.opened(tmp_path, os.O_RDONLY) as fd:
        disk.sync_file_system(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        disk.sync_file_system(10_000)


def test_nobody_calls_a_barrier_off(tmp_path: Path, syncer: Syncer) -> None:
    """A cancelled task hears of it when its barrier is made: what it waited for is durable by then."""

    async def main() -> int:
        journal = opened(tmp_path).log
        log = AsyncJsonlLog(journal, syncer)

        async def work() -> None:
            log.append((TurnStart(),))
            barrier = log.commit()
            assert barrier is not None
            await barrier

        task = asyncio.ensure_future(work())
        await asyncio.sleep(0)
        assert task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return len(log.take_committed())

    assert 1 == asyncio.run(main())


def test_without_files_to_work_with_a_barrier_is_an_error_of_the_journal(
    tmp_path: Path, syncer: Syncer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a process may open no more files the writer is over, as after any failed write, with nothing written."""

    def full(*_: Any) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def main() -> None:
        log = AsyncJsonlLog(opened(tmp_path).log, syncer)
        for name in ("eventfd", "pipe"):
            monkeypatch.setattr(os, name, full, raising=False)
        log.append((TurnStart(),))
        for _ in range(2):
            with pytest.raises(JournalPoisoned, match="Too many open files"):
                log.commit()

    asyncio.run(main())
    syncer.close()
    assert 0 == load_journal(tmp_path / "journal.jsonl").seq
