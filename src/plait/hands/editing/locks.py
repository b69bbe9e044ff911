"""One lock for each file that is being changed, whatever spelling leads to it.

Floor: 2. Owns: mutual exclusion inside this process, and where it is asked for between processes that all ask for it;
never: any other process, which is noticed when a write lands.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from weakref import WeakValueDictionary

from plait.hands import beneath
from plait.hands.workspace import Pinned

Key = tuple[int, int, tuple[str, ...]]
"""What a file is, whatever spelling leads to it: device and inode of its directory, and the names below that."""


def key_of(target: Pinned) -> Key:
    """Return the key of a pinned target; whoever holds several at once takes them in the order of their keys."""
    status = os.fstat(target.fd)
    return (status.st_dev, status.st_ino, (*target.missing, target.name))


class _Turn:
    """A lock that can be held weakly."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()


class FileLocks:
    """Locks by (device, inode, name) of a pinned target; one such object is shared by all who may edit together."""

    def __init__(self, *, across_processes: bool = False) -> None:
        """Keep others from a file that is being changed.

        Args:
            across_processes: those in other processes too, as far as they ask for the same; the whole directory is
                locked (`flock`), so that nobody may hold two files of one directory.
        """
        self._across_processes = across_processes
        self._guard = threading.Lock()
        self._turns: WeakValueDictionary[Key, _Turn] = WeakValueDictionary()

    @contextmanager
    def hold(self, target: Pinned) -> Iterator[None]:
        """Wait for every other holder of this file, then keep it from reading to renaming."""
        turn = self._turn(target)
        with turn.lock, _directory_held(target) if self._across_processes else nullcontext():
            yield

    def _turn(self, target: Pinned) -> _Turn:
        key = key_of(target)
        with self._guard:
            turn = self._turns.get(key)
            if turn is None:
                turn = self._turns[key] = _Turn()
            return turn


@contextmanager
def _directory_held(target: Pinned) -> Iterator[None]:
    """Wait for every other process that holds the target's directory, or the nearest one above it that is there."""
    import fcntl  # POSIX only, like everything that pins a file

    fd = os.open(".", os.O_RDONLY | beneath.DIRECTORY, dir_fd=target.fd)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
