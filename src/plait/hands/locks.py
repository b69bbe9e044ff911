"""One lock for each file that is being changed, whatever spelling leads to it.

Floor: 2. Owns: mutual exclusion inside this process; never: other processes, which are noticed when a write lands.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakValueDictionary

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

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._turns: WeakValueDictionary[Key, _Turn] = WeakValueDictionary()

    @contextmanager
    def hold(self, target: Pinned) -> Iterator[None]:
        """Wait for every other holder of this file, then keep it from reading to renaming."""
        turn = self._turn(target)
        with turn.lock:
            yield

    def _turn(self, target: Pinned) -> _Turn:
        key = key_of(target)
        with self._guard:
            turn = self._turns.get(key)
            if turn is None:
                turn = self._turns[key] = _Turn()
            return turn
