"""The user's own terminal, for questions that nobody else may answer.

Floor: 7. Owns: opening the terminal and reading one line of a person's; never: what is asked.

Questions go to the controlling terminal and not to stdin or stdout: those may be pipes that somebody else fills.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

from plait.core.cancel import Cancel

_DEVICE: Final = "/dev/tty"
_LINE_BYTES_MAX: Final = 4096
QUIET_S: Final = 0.3
"""How long nobody may have typed before an answer counts."""
_PASTE_S: Final = 0.02
_PASTES_MARKED: Final = "\x1b[?2004h"
"""The terminal puts marks around what is pasted, which make it no answer."""
_PASTES_AS_USUAL: Final = "\x1b[?2004l"


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

        The last line of the text, where the answer is typed, appears once the keyboard has been quiet for a moment:
        what was typed before it, by somebody who had not seen the question, is thrown away. More than one line at once
        was pasted and not typed: it is returned as the empty line. None when there is no terminal (any more), at its
        end of file, and when `cancel` is given.
        """
        fd = _open()
        if fd is None:
            return None
        try:
            before, newline, prompt = text.rpartition("\n")
            if not _becomes_quiet(fd, before + newline, cancel):
                return None
            _write(fd, prompt + _PASTES_MARKED)
            try:
                line = _read_line(fd, cancel)
                return "" if line and _holds_more(fd) else line
            finally:
                _write(fd, _PASTES_AS_USUAL)
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


def _becomes_quiet(fd: int, text: str, cancel: Cancel) -> bool:
    """Show a text, and throw away what is typed until nobody has typed for a moment; False when `cancel` was given."""
    with _unbuffered(fd, is_flushed=True), _Ring(cancel) as ring:
        _write(fd, text)
        while True:
            ready, _, _ = select.select([fd, ring.fd], [], [], QUIET_S)
            if ring.fd in ready:
                _write(fd, "\n")
                return False
            if not ready:
                return True
            if not os.read(fd, _LINE_BYTES_MAX):
                raise OSError("the terminal has hung up")


def _holds_more(fd: int) -> bool:
    """Say whether more was typed right behind a line than a hand can."""
    with _unbuffered(fd, is_flushed=False):
        return bool(select.select([fd], [], [], _PASTE_S)[0])


@contextmanager
def _unbuffered(fd: int, *, is_flushed: bool) -> Iterator[None]:
    """Get each key as it is typed, and show none; afterwards what was typed meanwhile is thrown away."""
    import termios

    try:
        before = termios.tcgetattr(fd)
        quiet = [*before]
        quiet[3] &= ~(termios.ICANON | termios.ECHO)
        termios.tcsetattr(fd, termios.TCSAFLUSH if is_flushed else termios.TCSANOW, quiet)
        try:
            yield
        finally:
            termios.tcsetattr(fd, termios.TCSAFLUSH, before)
    except termios.error as error:
        raise OSError(*error.args) from error


def _write(fd: int, text: str) -> None:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    data = memoryview(text.encode(encoding, "backslashreplace"))
    while data:
        data = data[os.write(fd, data) :]


def _read_line(fd: int, cancel: Cancel) -> str | None:
    with _Ring(cancel) as ring:
        ready, _, _ = select.select([fd, ring.fd], [], [])
        if ring.fd in ready:
            _write(fd, "\n")
            return None
        line = os.read(fd, _LINE_BYTES_MAX)
        return line.decode("utf-8", "replace").rstrip("\r\n") if line else None


class _Ring:
    """A descriptor that can be read once `cancel` is given."""

    def __init__(self, cancel: Cancel) -> None:
        self._cancel = cancel

    def __enter__(self) -> Self:
        self.fd, self._writer = os.pipe()
        self._undo = self._cancel.on_cancel(self._ring)
        return self

    def _ring(self) -> None:
        os.write(self._writer, b"!")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._undo()
        os.close(self.fd)
        os.close(self._writer)
