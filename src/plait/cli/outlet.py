"""Writes to a stream in a thread of its own, so that a slow or dead reader never holds a turn.

Floor: 7. Owns: the queue, its limit and what a failed write means; never: what is written.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, TextIO

from plait.core.cancel import Cancel

_QUEUE_CHARS_MAX: Final = 4 << 20
"""How far a turn may run ahead of whoever reads; then it waits for them."""


class Outlet:
    """A stream that is written to from one thread and drained by another.

    `write` waits only when its reader is far behind, and never once `cancel` was given. After a failed write nothing
    more is written: `error` holds the reason and `on_error` was called once, in the writing thread.
    """

    def __init__(self, stream: TextIO, cancel: Cancel, on_error: Callable[[OSError], None] | None = None) -> None:
        self.error: OSError | None = None
        self.encoding = stream.encoding or "utf-8"
        self._fd = stream.fileno()
        self._cancel = cancel
        self._on_error = on_error
        self._changed = threading.Condition()
        self._queue: deque[str] = deque()
        self._chars = 0
        self._busy = False
        self._closing = False
        self._undo = cancel.on_cancel(self._wake)
        self._thread = threading.Thread(target=self._drain, name="plait-output", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        """Queue text; part of the file protocol, so that a console can write here."""
        with self._changed:
            while self._chars > _QUEUE_CHARS_MAX and self.error is None and self._cancel.reason is None:
                self._changed.wait()
            if self.error is None:
                self._queue.append(text)
                self._chars += len(text)
                self._changed.notify_all()
        return len(text)

    def flush(self) -> None:
        """Do nothing: what is queued is on its way; part of the file protocol."""

    def isatty(self) -> bool:
        """Say whether a terminal is at the other end."""
        return os.isatty(self._fd)

    def fileno(self) -> int:
        """Return the file descriptor, for whoever asks about the terminal's size."""
        return self._fd

    def wait_drained(self, timeout_s: float | None = None) -> bool:
        """Wait until everything queued was written; say whether it was. Ends early on `cancel`."""
        with self._changed:
            self._changed.wait_for(self._is_settled, timeout_s)
            return self.error is None and not self._queue and not self._busy

    def close(self, patience_s: float = 1.0) -> None:
        """Write what is queued and stop; once `cancel` was given, for at most `patience_s`. May be called twice."""
        if self._closing:
            return
        if not self.wait_drained():
            with self._changed:
                self._changed.wait_for(lambda: self.error is not None or not (self._queue or self._busy), patience_s)
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._undo()
        self._thread.join(0 if self._busy else patience_s)

    def _is_settled(self) -> bool:
        return self.error is not None or self._cancel.reason is not None or not (self._queue or self._busy)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _drain(self) -> None:
        while (text := self._next()) is not None:
            try:
                self._write_all(text.encode(self.encoding, "backslashreplace"))
            except OSError as error:
                self._fail(error)
                return
        with self._changed:
            self._busy = False
            self._changed.notify_all()

    def _next(self) -> str | None:
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._queue or self._closing)
            if not self._queue:
                return None
            text = "".join(self._queue)
            self._queue.clear()
            self._chars = 0
            self._busy = True
            return text

    def _write_all(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._fd, view) :]
            except BlockingIOError:
                # Somebody else made the pipe non-blocking; wait for room as a blocking one would.
                select.select([], [self._fd], [])

    def _fail(self, error: OSError) -> None:
        with self._changed:
            self.error = error
            self._queue.clear()
            self._chars = 0
            self._busy = False
            self._changed.notify_all()
        if self._on_error is not None:
            self._on_error(error)
