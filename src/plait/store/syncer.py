"""Barriers of many conversations, made together by one thread.

Floor: 2. Owns: the thread and the queue to it; never: what is written (`store.jsonl`).

An event loop must not wait for a disk. What is committed while the thread is busy goes into its next round: all
writes first, then all syncs, so that conversations that run at the same time share the disk's work.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from plait.core.errors import JournalError
from plait.core.facts import Entry, Fact
from plait.store.jsonl import JsonlLog


@dataclass(slots=True)
class _Barrier:
    log: JsonlLog
    data: bytes
    crc: int
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[None]
    error: BaseException | None = None


class Syncer:
    """Makes barriers for event loops; one for all conversations of a process, owned by whoever opens them."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[_Barrier | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def commit(self, log: JsonlLog) -> asyncio.Future[None]:
        """Start a barrier; the future is done when it is durable, or raises `JournalError`."""
        data, crc = log.prepare()
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="plait-sync", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        barrier = _Barrier(log, data, crc, loop, loop.create_future())
        self._queue.put(barrier)
        return barrier.done

    def close(self) -> None:
        """Finish what was asked for and end the thread."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _serve(self) -> None:
        while True:
            first = self._queue.get()
            if first is None:
                return
            batch = [first]
            is_last = False
            while not self._queue.empty():
                more = self._queue.get()
                if more is None:
                    is_last = True
                    break
                batch.append(more)
            _make(batch)
            if is_last:
                return


class AsyncJsonlLog:
    """A journal as an event loop writes it. See `kernel.log.AsyncFactLog` for the contract."""

    def __init__(self, log: JsonlLog, syncer: Syncer) -> None:
        self._log = log
        self._syncer = syncer

    def append(self, facts: tuple[Fact, ...]) -> None:
        """Take facts in; nothing is written before the barrier."""
        self._log.append(facts)

    def commit(self) -> Awaitable[None] | None:
        """Write and sync what was appended; None when there is nothing."""
        return self._syncer.commit(self._log) if self._log.is_pending else None

    def take_committed(self) -> Sequence[Entry]:
        """Return what became durable since the last call."""
        return self._log.take_committed()


def _make(batch: Sequence[_Barrier]) -> None:
    for step in (_write, _sync):
        for barrier in batch:
            if barrier.error is None:
                try:
                    step(barrier)
                except JournalError as error:
                    barrier.error = error
    by_loop: dict[asyncio.AbstractEventLoop, list[_Barrier]] = {}
    for barrier in batch:
        by_loop.setdefault(barrier.loop, []).append(barrier)
    for loop, barriers in by_loop.items():
        _tell(loop, barriers)


def _write(barrier: _Barrier) -> None:
    barrier.log.write(barrier.data)


def _sync(barrier: _Barrier) -> None:
    barrier.log.sync()
    barrier.log.settle(len(barrier.data), barrier.crc)


def _tell(loop: asyncio.AbstractEventLoop, barriers: Sequence[_Barrier]) -> None:
    def settle() -> None:
        for barrier in barriers:
            if barrier.done.done():
                continue
            if barrier.error is None:
                barrier.done.set_result(None)
            else:
                barrier.done.set_exception(barrier.error)

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:
        # The loop was closed under its conversations: the facts are safe, and nobody is left to be told.
        return
