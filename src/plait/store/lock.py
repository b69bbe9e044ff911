"""One writer at a time, and its name for everybody else.

Floor: 2. Owns: the lock beside a journal; never: the journal.

The lock is the kernel's (`flock`), so it goes with its process however that ends. The file holds the owner's pid for
the error of the one who comes second; a pid left behind by a dead process locks nobody out.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from plait.core.errors import SessionBusy
from plait.store.disk import PRIVATE_FILE


class WriterLock:
    """Held from construction to `release`."""

    def __init__(self, path: Path) -> None:
        """Take the lock; raise `SessionBusy`, with the owner's pid, when somebody has it."""
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = _owner(self._fd)
            os.close(self._fd)
            who = f"process {owner}" if owner else "another process"
            raise SessionBusy(
                f"{who} holds the session at {str(path.parent)!r}",
                path=str(path),
                owner_pid=owner,
                hint="end that one first, or fork the session",
            ) from error
        self._pid = os.getpid()
        with contextlib.suppress(OSError):
            # Only for the other one's message: a full disk must not keep us from working.
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{self._pid}\n".encode(), 0)

    @property
    def is_ours(self) -> bool:
        """False in a child that inherited the lock by a fork."""
        return os.getpid() == self._pid

    def release(self) -> None:
        """Let the lock go; may be called twice."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


def _owner(fd: int) -> int | None:
    try:
        return int(os.pread(fd, 32, 0))
    except (OSError, ValueError):
        return None
