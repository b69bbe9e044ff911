"""One tree for every way a turn can be told to stop: Ctrl-C, a timeout, a parent, an interrupt, a close.

Floor: 0. Owns: the stop signal and who hears it; never: what stopping means for a tool or a stream.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Final

_NAP_S: Final = 1.0


def _nothing() -> None:
    """Undo nothing."""


class Cancel:
    """A stop signal that is given once, heard by everybody who asked, and inherited by children.

    Any thread may call any method, a signal handler included: the lock is re-entrant, and nobody sleeps or runs
    foreign code while holding it.
    """

    __slots__ = ("__weakref__", "_calls", "_children", "_link", "_lock", "_next", "_parent", "_reason")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._calls: dict[int, Callable[[], None]] = {}
        self._children: set[weakref.ref[Cancel]] = set()
        self._next = 0
        self._reason: str | None = None
        self._parent: Cancel | None = None
        self._link: weakref.ref[Cancel] | None = None

    @property
    def reason(self) -> str | None:
        """Why it was cancelled, or None while it was not."""
        return self._reason

    def cancel(self, reason: str) -> None:
        """Give the signal; the first reason stays, later calls do nothing.

        Every listener runs in this thread, in the order in which they asked, then the children's; the first
        exception of one of them is raised after all have run.
        """
        with self._lock:
            if self._reason is not None:
                return
            self._reason = reason
            listeners, links = self._calls.copy(), self._children.copy()
            self._calls.clear()
            self._children.clear()
        calls = list(listeners.values())
        calls += [partial(child.cancel, reason) for link in links if (child := link()) is not None]
        first: BaseException | None = None
        for call in calls:
            try:
                call()
            except BaseException as error:  # boundary: one listener may not keep the others from hearing
                first = first or error
        if first is not None:
            raise first

    def on_cancel(self, call: Callable[[], None]) -> Callable[[], None]:
        """Have `call` run when the signal comes (at once if it came already); return its undo."""
        with self._lock:
            key = self._next
            self._next += 1
            self._calls[key] = call
            # Looked at after the entry was made: a signal handler may have come between the two.
            if self._reason is None:
                return lambda: self._forget(key)
            is_late = self._calls.pop(key, None) is not None
        if is_late:
            call()
        return _nothing

    def child(self) -> Cancel:
        """Return a signal that this one gives too, but that does not give this one."""
        child = Cancel()
        child._parent = self
        # A dropped child takes itself out, without a line of Python: an interrupt that the collector runs into is lost.
        child._link = weakref.ref(child, self._children.discard)
        self._children.add(child._link)
        # Looked at after the entry was made, as in `on_cancel`.
        if self._reason is not None:
            child.cancel(self._reason)
        return child

    def detach(self) -> None:
        """Stop listening to the parent; called when the work that this signal guards is over."""
        parent, link = self._parent, self._link
        if parent is not None and link is not None:
            parent._children.discard(link)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Sleep until the signal or the timeout; say whether the signal came."""
        # Not an Event: its lock is not re-entrant, so a signal handler that cancels could wait for itself.
        bell = threading.Lock()
        bell.acquire()
        undo = self.on_cancel(bell.release)
        left_s = threading.TIMEOUT_MAX if timeout_s is None else max(timeout_s, 0)
        try:
            # In short naps: a signal that comes just before one begins is handled only when it is over.
            while left_s > _NAP_S and not bell.acquire(timeout=_NAP_S):
                left_s -= _NAP_S
            return self._reason is not None or bell.acquire(timeout=left_s)
        finally:
            undo()

    def _forget(self, key: int) -> None:
        self._calls.pop(key, None)
