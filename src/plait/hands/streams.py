"""The pipes through which a command's output comes, read as it comes and never longer than wanted.

Floor: 2. Owns: pipes, the selector over them, decoding for a live view; never: when a command ends.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import selectors
import threading
from contextlib import suppress
from typing import Final

from plait.hands.capture import Capture
from plait.hands.command import OnOutput, StreamName

_READ_BYTES: Final = 256 * 1024
_SET_PIPE_SIZE: Final[int] = getattr(fcntl, "F_SETPIPE_SZ", 0)


class OutputPipe:
    """One pipe: a write end for the command, a read end for us, and what became of what came through."""

    def __init__(self, name: StreamName, capture: Capture, on_output: OnOutput | None) -> None:
        self.read_fd, self.write_fd = os.pipe()
        os.set_blocking(self.read_fd, False)
        if _SET_PIPE_SIZE:
            with suppress(OSError):  # a user has only so much pipe memory; a smaller pipe does as well
                fcntl.fcntl(self.write_fd, _SET_PIPE_SIZE, _READ_BYTES)
        self.capture = capture
        self._name: StreamName = name
        self._on_output = on_output
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def is_open(self) -> bool:
        """False once every writer has let go and everything was read."""
        return self.read_fd >= 0

    def started(self) -> None:
        """Let go of the write end, which the command has now."""
        if self.write_fd >= 0:
            os.close(self.write_fd)
            self.write_fd = -1

    def pump(self) -> bool:
        """Read once what is there; say whether the pipe goes on. At its end, `close` is the caller's."""
        try:
            data = os.read(self.read_fd, _READ_BYTES)
        except BlockingIOError:
            return True
        self.capture.feed(data)
        self._tell(data, is_last=not data)
        return bool(data)

    def take_read_end(self) -> int:
        """Hand the read end over; the pipe is closed for its own part."""
        fd, self.read_fd = self.read_fd, -1
        return fd

    def close(self) -> None:
        """Let go of both ends."""
        self.started()
        if self.read_fd >= 0:
            os.close(self.read_fd)
            self.read_fd = -1

    def _tell(self, data: bytes, *, is_last: bool) -> None:
        if self._on_output is None:
            return
        text = self._decoder.decode(data, is_last)
        if text:
            self._on_output(text, self._name)


def drain_unread(fds: list[int]) -> threading.Thread:
    """Read and forget what still comes through, until nobody writes any more.

    A process that was left running may so go on writing; a closed pipe would end it.
    """
    thread = threading.Thread(target=_drain, args=(fds,), name="plait-leftover-output", daemon=True)
    thread.start()
    return thread


def _drain(fds: list[int]) -> None:
    with selectors.DefaultSelector() as selector:
        for fd in fds:
            selector.register(fd, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                try:
                    ended = not os.read(key.fd, _READ_BYTES)
                except BlockingIOError:
                    continue
                if ended:
                    selector.unregister(key.fd)
                    os.close(key.fd)
