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

_Key = tuple[int, int, tuple[str, ...]]


class _Turn:
    """A lock that can be held weakly."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()


class FileLocks:
    """Locks by (device, inode, name) of a pinned target; one such object is shared by all who may edit together."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._turns: WeakValueDictionary[_Key, _Turn] = WeakValueDictionary()

    @contextmanager
    def hold(self, target: Pinned) -> Iterator[None]:
        """Wait for every other holder of this file, then keep it from reading to renaming."""
        turn = self._turn(target)
        with turn.lock:
            yield

    def _turn(self, target: Pinned) -> _Turn:
        status = os.fstat(target.fd)
        key = (status.st_dev, status.st_ino, (*target.missing, target.name))
        with self._guard:
            turn = self._turns.get(key)
            if turn is None:
                turn = self._turns[key] = _Turn()
            return turn
