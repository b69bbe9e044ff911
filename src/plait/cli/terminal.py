"""The user's own terminal, for questions that nobody else may answer.

Floor: 7. Owns: opening the terminal and reading one line of a person's; never: what is asked.

Questions go to the controlling terminal and not to stdin or stdout: those may be pipes that somebody else fills.
"""

from __future__ import annotations

import os
import select
import sys
from typing import Final

from plait.core.cancel import Cancel

_DEVICE: Final = "/dev/tty"
_LINE_BYTES_MAX: Final = 4096


class Terminal:
    """The controlling terminal, opened anew for each question, so that it is found gone when it is gone."""

    @staticmethod
    def is_there() -> bool:
        """Say whether a person can be asked: there is a terminal and this process may read from it."""
        fd = _open()
        if fd is None:
            return False
        os.close(fd)
        return True

    def ask(self, text: str, cancel: Cancel) -> str | None:
        """Show `text` and return the line that is typed after it, without its end.

        What was typed before is thrown away. None when there is no terminal (any more), at its end of file, and
        when `cancel` is given.
        """
        fd = _open()
        if fd is None:
            return None
        try:
            _forget_typed(fd)
            _write(fd, text)
            return _read_line(fd, cancel)
        except OSError:
            return None  # hung up in the middle of the question
        finally:
            os.close(fd)


def _open() -> int | None:
    if sys.platform == "win32":
        return None
    try:
        fd = os.open(_DEVICE, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        is_foreground = os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        is_foreground = False
    if is_foreground:
        return fd
    os.close(fd)  # reading would stop a background job, and nobody looks at it
    return None


def _forget_typed(fd: int) -> None:
    import termios

    try:
        termios.tcflush(fd, termios.TCIFLUSH)
    except termios.error as error:
        raise OSError(*error.args) from error


def _write(fd: int, text: str) -> None:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    data = memoryview(text.encode(encoding, "backslashreplace"))
    while data:
        data = data[os.write(fd, data) :]


def _read_line(fd: int, cancel: Cancel) -> str | None:
    reader, writer = os.pipe()
    undo = cancel.on_cancel(lambda: _ring(writer))
    try:
        ready, _, _ = select.select([fd, reader], [], [])
        if reader in ready:
            _write(fd, "\n")
            return None
        line = os.read(fd, _LINE_BYTES_MAX)
        return line.decode("utf-8", "replace").rstrip("\r\n") if line else None
    finally:
        undo()
        os.close(reader)
        os.close(writer)


def _ring(writer: int) -> None:
    os.write(writer, b"!")
