"""Files that a user names: an agent spec, a schema; from a pipe too, but not for ever.

Floor: 4. Owns: reading one whole, in bounded time and size; never: what it says.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import time
from pathlib import Path
from typing import Final

WAIT_S: Final = 30.0
"""So long a pipe is read."""
_CHUNK_BYTES: Final = 1 << 16


def read_document(path: Path, size_bytes_max: int) -> bytes:
    """Return what a file holds, or what is written into a pipe until its writers close it; cut at a size.

    Opening never waits, so that a FIFO into which nobody writes is an error, like a terminal or another device.

    Raises:
        OSError: it cannot be read; its `strerror` says why.
    """
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
    try:
        mode = os.fstat(fd).st_mode
        is_pipe = stat.S_ISFIFO(mode)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not is_pipe and not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is neither a file nor a pipe")
        data, ends_s = bytearray(), time.monotonic() + WAIT_S
        while len(data) < size_bytes_max and (piece := _next(fd, ends_s)):
            data += piece
        if is_pipe and not data:
            raise OSError(errno.EPIPE, "nobody writes into it")
        return bytes(data[:size_bytes_max])
    finally:
        os.close(fd)


def _next(fd: int, ends_s: float) -> bytes:
    """Return what is there, waited for where nothing is yet; nothing at the end."""
    while True:
        try:
            return os.read(fd, _CHUNK_BYTES)
        except BlockingIOError:
            left_s = ends_s - time.monotonic()
            if left_s <= 0 or not select.select([fd], [], [], left_s)[0]:
                raise TimeoutError(errno.ETIMEDOUT, f"it has no end after {WAIT_S:g} seconds") from None
