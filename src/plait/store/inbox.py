"""What other threads give a thread to do.

Floor: 2. Owns: one list and the file that its thread waits at; never: what is in it (`store.syncer`).

Python's own queues wake a thread while the giver still has the interpreter, so that it goes to sleep again at once and
is woken a second time. A write to a file lets the interpreter go, and the thread finds it free.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from typing import Final, Generic, TypeVar

from plait.store import disk

T = TypeVar("T")

_KNOCK: Final = (1).to_bytes(8, sys.byteorder)
"""As an event file counts; a pipe does not care."""


class Inbox(Generic[T]):
    """Given to by one thread at a time, emptied by one."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._is_knocked = False
        """Whoever waits has been told, and takes this back before it looks into the list."""
        if hasattr(os, "eventfd"):
            self._door = self._outside = os.eventfd(0, os.EFD_CLOEXEC)
        else:
            self._door, self._outside = os.pipe()

    def put(self, item: T) -> None:
        """Give something; what is given while nobody has looked yet costs no second knock."""
        self._items.append(item)
        if not self._is_knocked:
            self._is_knocked = True
            os.write(self._outside, _KNOCK)

    def wait(self) -> None:
        """Wait until something is given; it may have been taken just before."""
        os.read(self._door, 1 << 12)

    def take(self) -> list[T]:
        """Return all that there is, in order."""
        self._is_knocked = False
        items = []
        while self._items:
            items.append(self._items.popleft())
        return items

    def close(self) -> None:
        """Give the files back; nothing may be given any more."""
        for fd in {self._door, self._outside}:
            disk.close_file(fd)
