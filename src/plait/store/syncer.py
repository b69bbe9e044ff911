"""Barriers of many conversations, made together by one thread.

Floor: 2. Owns: the thread and when it is given work; never: what is written (`store.jsonl`).

An event loop must not wait for a disk. What is committed while the thread is busy goes into its next round: all
writes first, then all syncs, so that conversations that run at the same time share the disk's work.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
import time
from collections.abc import Awaitable, Sequence
from typing import Final

from plait.core.facts import Entry, Fact
from plait.core.values import dataclass
from plait.kernel.log import Barrier
from plait.store.bell import Bell
from plait.store.group_sync import FILES_MIN, GroupSync
from plait.store.inbox import Inbox
from plait.store.jsonl import JsonlLog, Write

_GATHER_S: Final = 0.001


@dataclass(slots=True)
class _Asked:
    log: JsonlLog
    write: Write
    bell: Bell
    done: Barrier
    error: BaseException | None = None


_Inbox = Inbox[_Asked | None]


class Syncer:
    """Makes barriers for event loops; one for all conversations of a process, owned by whoever opens them."""

    def __init__(self) -> None:
        self._inbox: _Inbox | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._bells: dict[asyncio.AbstractEventLoop, Bell] = {}
        self._pid = 0

    def commit(self, log: JsonlLog) -> Barrier:
        """Start a barrier; the future is done when it is durable, or raises `JournalError`.

        Raises `JournalError` at once where there is nothing to write with.
        """
        loop = asyncio.get_running_loop()
        write, done = log.prepare(), Barrier(loop=loop)
        with self._lock:
            if self._inbox is None or self._pid != os.getpid():
                try:
                    self._inbox = self._start()
                except (OSError, RuntimeError) as error:
                    # No more files, or no more threads.
                    raise log.fail(error, "written") from error
            bell = self._bells.get(loop) or self._hang_up(loop)
            self._inbox.put(_Asked(log, write, bell, done))
        return done

    def close(self) -> None:
        """Finish what was asked for and end the thread; another barrier begins a new one."""
        with self._lock:
            thread, self._thread = self._thread, None
            inbox, self._inbox = self._inbox, None
            if thread is None or inbox is None or self._pid != os.getpid():
                return
            inbox.put(None)
            bells, self._bells = self._bells, {}
        thread.join()
        for bell in bells.values():
            bell.close()

    def _start(self) -> _Inbox:
        # A forked child has neither the thread nor any business with what was given to it, or with the bells.
        self._inbox, self._bells, self._pid = None, {}, os.getpid()
        inbox: _Inbox = Inbox()
        thread = threading.Thread(target=_serve, args=(inbox,), name="plait-sync", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            inbox.close()
            raise
        self._thread = thread
        return inbox

    def _hang_up(self, loop: asyncio.AbstractEventLoop) -> Bell:
        """Make a loop's bell, and take down those of loops that are closed."""
        for other in [other for other in self._bells if other.is_closed()]:
            self._bells.pop(other).close()
        self._bells[loop] = Bell(loop)
        return self._bells[loop]


class AsyncJsonlLog:
    """A journal as an event loop writes it. See `kernel.log.AsyncFactLog` for the contract."""

    def __init__(self, log: JsonlLog, syncer: Syncer) -> None:
        self._log = log
        self._syncer = syncer
        self._flight: Barrier | None = None

    def append(self, facts: tuple[Fact, ...]) -> None:
        """Take facts in; nothing is written before the barrier."""
        self._log.append(facts)

    def commit(self) -> Awaitable[None] | None:
        """Write and sync what was appended; None when there is nothing."""
        if self._flight is not None and not self._flight.done():
            if not self._flight.get_loop().is_closed():
                return self._after(self._flight)
            # Its loop ended before it heard, and nobody will ever say that it is done: its work is done here and now.
            self._syncer.close()
        if not self._log.is_pending:
            return None
        self._flight = self._syncer.commit(self._log)
        return self._flight

    def take_committed(self) -> Sequence[Entry]:
        """Return what became durable since the last call."""
        return self._log.take_committed()

    async def _after(self, flight: asyncio.Future[None]) -> None:
        """The barrier behind one that is not made yet."""
        await asyncio.wait([flight])
        pending = self.commit()
        if pending is not None:
            await pending


def _serve(inbox: _Inbox) -> None:
    group = GroupSync()
    crowd = 0
    is_over = False
    while not is_over:
        inbox.wait()
        if crowd >= FILES_MIN:
            # More are on their way, and a sync costs the same for all: one moment for them to come.
            time.sleep(_GATHER_S)
        batch = inbox.take()
        if not batch:
            continue
        made = [barrier for barrier in batch if barrier is not None]
        is_over = len(made) < len(batch)
        crowd = len(made)
        _make(made, group)
    inbox.close()
    group.close()


def _make(batch: Sequence[_Asked], group: GroupSync) -> None:
    by_device: dict[int, list[_Asked]] = {}
    by_bell: dict[Bell, list[_Asked]] = {}
    for barrier in batch:
        barrier.log.file.acquire()
        _write(barrier)
        by_device.setdefault(barrier.log.device, []).append(barrier)
        by_bell.setdefault(barrier.bell, []).append(barrier)
    for device, barriers in by_device.items():
        _sync_all(device, [barrier for barrier in barriers if barrier.error is None], group)
    for barrier in batch:
        barrier.log.file.release()
    for bell, barriers in by_bell.items():
        bell.ring(functools.partial(_tell, barriers))


def _write(barrier: _Asked) -> None:
    try:
        barrier.log.write(barrier.write)
    except BaseException as error:  # boundary: whatever it is, somebody waits to be told, and the others go on
        barrier.error = error


def _sync_all(device: int, barriers: Sequence[_Asked], group: GroupSync) -> None:
    if not barriers:
        return
    failed: OSError | None = None
    is_done = False
    try:
        is_done = group.sync(device, barriers[0].log.path.parent, len(barriers))
    except OSError as error:
        failed = error
    for barrier in barriers:
        try:
            if failed is not None:
                raise barrier.log.fail(failed, "synced") from failed
            if not is_done:
                barrier.log.sync()
            barrier.log.settle(barrier.write)
        except BaseException as error:  # boundary: as above
            barrier.error = error


def _tell(barriers: Sequence[_Asked]) -> None:
    """Tell those who wait, in their event loop."""
    for barrier in barriers:
        if barrier.done.done():
            continue
        if barrier.error is None:
            barrier.done.set_result(None)
        else:
            barrier.done.set_exception(barrier.error)
