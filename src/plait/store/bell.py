"""A bell that a thread rings to have an event loop do something.

Floor: 2. Owns: one event file a loop, where the system has such; never: what is to be done (`store.syncer`).

A loop's own bell, `call_soon_threadsafe`, is a pair of sockets: a byte goes through one, and the other is read until
an error says that there is no more. An event file is one short write and one short read. Both let the thread that
rang go on at once, where the second read of the sockets would have it wait for the loop once more.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable


class Bell:
    """The bell of one event loop; rung by any thread, made in the loop's own."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._work: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        """Held while the file is rung or let go, so that nobody rings another one of the same number."""
        self._hung = -1
        """The file of a bell that is being taken down."""
        self._fd = self._hung_up()

    def ring(self, work: Callable[[], None]) -> None:
        """Have the loop do some work; what a closed loop is told is forgotten."""
        self._work.append(work)
        with self._lock:
            if self._fd >= 0:
                os.eventfd_write(self._fd, 1)
                return
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._answer)

    def close(self) -> None:
        """Take the bell down, from any thread; what was rung for is still done."""
        with self._lock:
            fd, self._fd = self._fd, -1
        if fd < 0:
            return
        self._hung = fd
        try:
            self._loop.call_soon_threadsafe(self._take_down)
        except RuntimeError:
            # The loop was closed, and has forgotten its files.
            self._give_back()

    def __del__(self) -> None:
        # A loop that is closed before its next round takes nothing down.
        self._give_back()

    def _hung_up(self) -> int:
        """Return the number of a file whose reader is the loop, -1 where the system or the loop has no such thing."""
        if not hasattr(os, "eventfd"):
            return -1
        fd = -1
        try:
            fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            self._loop.add_reader(fd, self._answer)
        except (OSError, NotImplementedError):
            if fd >= 0:
                os.close(fd)
            return -1
        return fd

    def _answer(self) -> None:
        # First the file, and then the work: whoever rings in between is heard once more, and not once less.
        # Another thread may be taking the bell down.
        if (fd := self._fd) >= 0:
            os.eventfd_read(fd)
        self._do()

    def _do(self) -> None:
        try:
            while self._work:
                self._work.popleft()()
        finally:
            if self._work:
                # Ctrl-C, say, broke one off; the others are still waited for.
                self._loop.call_soon(self._do)

    def _take_down(self) -> None:
        self._loop.remove_reader(self._hung)
        self._give_back()
        self._answer()

    def _give_back(self) -> None:
        fd, self._hung = self._hung, -1
        if fd >= 0:
            os.close(fd)
