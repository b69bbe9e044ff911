"""Who writes a journal, and how far what was written is safe: a small file beside it.

Floor: 2. Owns: the writer's note; never: the lock (the journal's own), or a decision.

The note is changed after every sync and never synced itself. So it may be old or lost after a power cut, but it never
promises too much: whatever it calls safe was safe. A process that comes second finds the first one's pid in it. A
reader that finds the journal damaged below the mark knows that this is no unfinished write.
"""

from __future__ import annotations

import contextlib
import os
import re
import zlib
from pathlib import Path
from typing import Final

from plait.core.values import dataclass
from plait.store import disk

_NOTE: Final = re.compile(rb" *(\d{1,10}) +(\d{1,19}) ([0-9a-f]{8})\n")


@dataclass(frozen=True, slots=True)
class Note:
    """What the file says."""

    pid: int | None = None
    safe_bytes: int = 0
    """That much of the journal was durable at least."""


class WriterNote:
    """The note of the one process that holds the journal's lock."""

    def __init__(self, path: Path) -> None:
        """Open the file; without room for it there is no note, and nothing else is missing."""
        self._fd = -1
        with contextlib.suppress(OSError):
            self._fd = disk.open_file(path, os.O_RDWR | os.O_CREAT)

    def mark(self, safe_bytes: int) -> None:
        """Say that so much of the journal is durable, and who says so."""
        if self._fd < 0:
            return
        with contextlib.suppress(OSError):
            disk.overwrite(self._fd, _written(os.getpid(), safe_bytes))

    def close(self) -> None:
        """Let the file go; may be called twice."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            disk.close_file(fd)


def claim(journal: Path) -> Note:
    """Put this process's name on a journal that it has just locked, and return what was noted before."""
    with contextlib.suppress(OSError), disk.opened(note_path(journal), os.O_RDWR | os.O_CREAT) as fd:
        before = _read(disk.read_all(fd))
        disk.overwrite(fd, _written(os.getpid(), before.safe_bytes))
        return before
    return Note()


def note_path(journal: Path) -> Path:
    """Return where the note about a journal is."""
    return journal.with_name(f"{journal.name}.writer")


def read_note(journal: Path) -> Note:
    """Return what is noted about a journal; an empty note where there is none that can be believed."""
    with contextlib.suppress(OSError):
        return _read(disk.read_file(note_path(journal)))
    return Note()


def _read(data: bytes) -> Note:
    match = _NOTE.match(data)
    if match is None:
        return Note()
    pid, safe_bytes = int(match[1]), int(match[2])
    return Note(pid, safe_bytes) if _written(pid, safe_bytes) == match[0] else Note()


def _written(pid: int, safe_bytes: int) -> bytes:
    # Always as long, so that a shorter number leaves nothing of a longer one behind.
    text = b"%10d %19d" % (pid, safe_bytes)
    return b"%s %08x\n" % (text, zlib.crc32(text))
