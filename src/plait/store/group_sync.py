"""One sync for many journals, where the system has one that can be trusted.

Floor: 2. Owns: when to sync a whole file system instead of its files; never: what a sync is for (`store.syncer`).

Sixty-four files synced one by one cost sixty-four commits of the file system's own journal, and as many flushes of
the drive. `syncfs` costs one of each. It is used for journals on a local file system of a Linux that reports write
errors through it (5.8), and not while other programs have so much to write that waiting for them would be felt.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from plait.store import disk

FILES_MIN: Final = 4
"""Below that, syncing one by one is as fast and does nobody else's work."""
_TRUSTED: Final = frozenset({"ext4", "xfs", "btrfs", "tmpfs"})
_REPORTS_ERRORS: Final = (5, 8)
_SLOW_S: Final = 0.25
_PAUSE_S: Final = 60.0


class GroupSync:
    """Syncs whole file systems for one thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._fds: dict[int, int | None] = {}
        self._not_before_s = 0.0

    def sync(self, device: int, folder: Path, files: int) -> bool:
        """Make everything on a device durable; False, with nothing done, where the files are better synced alone.

        `folder` is any folder on it. Raises `OSError` when something could not be written, whosesoever it was.
        """
        if files < FILES_MIN or self._clock() < self._not_before_s:
            return False
        if device not in self._fds:
            self._fds[device] = disk.open_file(folder, os.O_RDONLY | os.O_DIRECTORY) if is_trusted(device) else None
        fd = self._fds[device]
        if fd is None:
            return False
        began_s = self._clock()
        disk.sync_file_system(fd)
        if self._clock() - began_s > _SLOW_S:
            self._not_before_s = self._clock() + _PAUSE_S
        return True

    def close(self) -> None:
        """Give back what was opened."""
        for fd in self._fds.values():
            if fd is not None:
                disk.close_file(fd)
        self._fds.clear()


def is_trusted(device: int) -> bool:
    """Say whether syncing the file system on a device as a whole tells of every write that failed."""
    if sys.platform != "linux" or _kernel_version() < _REPORTS_ERRORS:
        return False
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    types = {line.partition(" - ")[2].split(" ", 1)[0] for line in mounts if line.split(" ", 3)[2] == number}
    return bool(types) and types <= _TRUSTED


def _kernel_version() -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return (int(match[1]), int(match[2])) if match else (0, 0)
