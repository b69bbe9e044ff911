"""Bells: what a thread rings for is done by the event loop, with an event file or without."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from functools import partial
from pathlib import Path

import pytest

from plait.core.errors import JournalError
from plait.core.facts import TurnStart
from plait.store.bell import Bell
from plait.store.syncer import AsyncJsonlLog, Syncer
from tests.helpers.journals import opened

COUNTED = pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="this system lists no open files")


def open_files() -> int:
    """Return how many files this process has open."""
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("has_files", [True, False])
def test_everything_that_is_rung_for_is_done_in_order(has_files: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three threads that ring a thousand times each lose nothing, and the loop's own thread does all the work."""
    if not has_files:
        monkeypatch.delattr(os, "eventfd", raising=False)
    done: list[tuple[int, int, int]] = []

    async def main() -> None:
        bell, is_over = Bell(asyncio.get_running_loop()), asyncio.Event()

        def work(ringer: int, number: int) -> None:
            done.append((ringer, number, threading.get_ident()))
            if len(done) == 3_000:
                is_over.set()

        def ring(ringer: int) -> None:
            for number in range(1_000):
                bell.ring(partial(work, ringer, number))

        threads = [threading.Thread(target=ring, args=(ringer,)) for ringer in range(3)]
        for thread in threads:
            thread.start()
        await asyncio.wait_for(is_over.wait(), 20)
        bell.close()
        bell.close()

    asyncio.run(main())
    assert {threading.get_ident()} == {thread for _, _, thread in done}
    for ringer in range(3):
        assert list(range(1_000)) == [number for who, number, _ in done if who == ringer]


@COUNTED
def test_a_bell_that_is_taken_down_leaves_no_work_and_no_file() -> None:
    """What was rung for before the end is done, later rings find the loop all the same, and the file is given back."""

    async def main() -> list[str]:
        loop, done = asyncio.get_running_loop(), list[str]()
        before = open_files()
        bell, last = Bell(loop), loop.create_future()
        bell.ring(lambda: done.append("before"))
        bell.close()
        bell.ring(lambda: last.set_result(None))
        await asyncio.wait_for(last, 20)
        assert before == open_files()
        return done

    assert ["before"] == asyncio.run(main())


@COUNTED
def test_a_closed_loop_is_told_nothing() -> None:
    """Ringing for a loop that was closed is no fault, before its bell is taken down and after."""

    async def main() -> Bell:
        return Bell(asyncio.get_running_loop())

    before, done = open_files(), list[int]()
    bell = asyncio.run(main())
    bell.ring(lambda: done.append(1))
    bell.close()
    bell.ring(lambda: done.append(2))
    assert ([], before) == (done, open_files())


@COUNTED
def test_a_syncer_keeps_one_bell_a_loop(tmp_path: Path) -> None:
    """A program that runs one loop after another has as many files open as with one, and none at the end."""
    syncer, log = Syncer(), opened(tmp_path).log
    alog = AsyncJsonlLog(log, syncer)

    async def commit() -> None:
        alog.append((TurnStart(),))
        barrier = alog.commit()
        assert barrier is not None
        await asyncio.wait_for(barrier, 20)

    before, counts = open_files(), set[int]()
    for _ in range(4):
        asyncio.run(commit())
        counts.add(open_files() - before)
    syncer.close()
    assert (1, before) == (len(counts), open_files())
    log.close()


def test_a_broken_off_work_costs_the_next_nothing() -> None:
    """Where Ctrl-C lands in one piece of work, the rest is done when the loop goes on."""
    loop, done = asyncio.new_event_loop(), list[int]()

    def stop() -> None:
        raise KeyboardInterrupt

    bell = Bell(loop)
    bell.ring(stop)
    bell.ring(lambda: done.append(1))
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(asyncio.sleep(20))
    assert [] == done
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(asyncio.sleep(0))
    assert [1] == done
    bell.close()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


@COUNTED
def test_a_loop_that_is_closed_at_once_keeps_no_file() -> None:
    """A bell that is taken down when its loop makes no other round gives its file back."""
    before, loop = open_files(), asyncio.new_event_loop()
    bell = Bell(loop)
    bell.close()
    loop.close()
    del bell, loop
    gc.collect()
    assert before == open_files()


@COUNTED
def test_no_thread_more_costs_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no thread can be begun the barrier fails, and what was opened for it is given back."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def main() -> int:
        log = opened(tmp_path).log
        alog, before = AsyncJsonlLog(log, Syncer()), open_files()
        alog.append((TurnStart(),))
        monkeypatch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(JournalError):
            alog.commit()
        more = open_files() - before
        log.close()
        return more

    assert 0 == asyncio.run(main())


def test_a_journal_goes_on_in_another_loop(tmp_path: Path) -> None:
    """A loop that ended with a barrier under way leaves nobody waiting in the next one, and nothing is lost."""
    syncer, log = Syncer(), opened(tmp_path).log
    alog = AsyncJsonlLog(log, syncer)

    async def leave() -> None:
        alog.append((TurnStart(),))
        alog.commit()

    async def go_on() -> int:
        alog.append((TurnStart(),))
        barrier = alog.commit()
        assert barrier is not None
        await asyncio.wait_for(barrier, 20)
        return len(alog.take_committed())

    asyncio.run(leave())
    assert 2 == asyncio.run(go_on())
    syncer.close()
    log.close()
