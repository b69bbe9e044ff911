"""What a server writes that is no message: kept in a file of limited size, its last lines for error messages.

Floor: 3. Owns: the log file of one server; never: what goes into it.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections import deque
from pathlib import Path
from typing import Final

from plait.core.redact import redact_secrets
from plait.store.disk import make_private_folder

LOG_BYTES_MAX: Final = 1 << 20
"""The size of one log; the one before it is kept beside it."""
_LINE_BYTES_MAX: Final = 2_000
_TAIL_LINES: Final = 5
_UNSHOWN: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069]+")


class ServerLog:
    """Takes lines in any thread; a disk that fails costs lines and nothing else."""

    def __init__(self, folder: str | os.PathLike[str] | None, name: str) -> None:
        """Keep the log in `folder` as `<name>.log`, readable by its owner only; without a folder keep its end alone."""
        self.path = None if folder is None else Path(folder) / f"{_file_name(name)}.log"
        self._lock = threading.Lock()
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._fd: int | None = None
        self._room = LOG_BYTES_MAX
        self.dropped = 0
        """Lines that had no room."""

    def add(self, line: bytes, kind: str = "stderr") -> None:
        """Take a line; what is longer than 2,000 bytes is cut."""
        text = redact_secrets(line[:_LINE_BYTES_MAX].decode("utf-8", "replace").strip())[0]
        if not text:
            return
        with self._lock:
            if kind == "stderr":
                self._tail.append(_UNSHOWN.sub(" ", text))
            if self.path is None:
                return
            data = f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {kind}: {text}\n".encode("utf-8", "replace")
            self._write(data)

    def tail(self) -> str:
        """Return the last lines of its standard error as one, without secrets, for an error message."""
        with self._lock:
            return " | ".join(self._tail)[-500:]

    def forget(self) -> None:
        """Begin the last lines anew; the file keeps all."""
        with self._lock:
            self._tail.clear()

    def close(self) -> None:
        """Give the file back; a later line opens it again."""
        with self._lock:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None

    def _write(self, data: bytes) -> None:
        if len(data) > self._room:
            self.dropped += 1
            return
        try:
            if self._fd is None:
                self._fd = self._open()
            os.write(self._fd, data)
            self._room -= len(data)
            if self._room < _LINE_BYTES_MAX:
                self._room = 0
                os.write(self._fd, b"(the log is full; nothing more is written to it)\n")
        except OSError:
            self.dropped += 1

    def _open(self) -> int:
        assert self.path is not None
        make_private_folder(self.path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
        if self.path.exists() and self.path.stat().st_size > LOG_BYTES_MAX // 2:
            self.path.replace(self.path.with_suffix(".log.old"))
        fd = os.open(self.path, flags, 0o600)
        self._room = LOG_BYTES_MAX - os.fstat(fd).st_size
        return fd


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".")[:100] or "server"
