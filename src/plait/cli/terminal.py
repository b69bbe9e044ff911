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

from plait.cli.typed_line import TypedLine
from plait.core.cancel import Cancel

_DEVICE: Final = "/dev/tty"
_KEYS_MAX: Final = 4096
QUIET_S: Final = 0.3
"""How long nobody may have typed before an answer counts."""
_PASTE_S: Final = 0.03
"""What comes closer together than this was not typed."""
_TOO_FAST: Final = "(this came too fast to have been typed; press Enter by itself)\n"
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
        what was typed before it, by somebody who had not seen the question, is thrown away. A line that came with its
        end, or with more behind it, was pasted and not typed: it is returned as the empty line, and the user is told.
        None when there is no terminal (any more), at its end of file, and when `cancel` is given.
        """
        fd = _open()
        if fd is None:
            return None
        try:
            before, newline, prompt = text.rpartition("\n")
            if not _becomes_quiet(fd, before + newline, cancel):
                return None
            try:
                return _typed(fd, prompt, cancel)
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
    with _unbuffered(fd), _Ring(cancel) as ring:
        _write(fd, text)
        while True:
            ready, _, _ = select.select([fd, ring.fd], [], [], QUIET_S)
            if ring.fd in ready:
                _write(fd, "\n")
                return False
            if not ready:
                return True
            _read(fd)


def _typed(fd: int, prompt: str, cancel: Cancel) -> str | None:
    """Show a prompt and return the line that is typed behind it."""
    line = TypedLine()
    with _unbuffered(fd), _Ring(cancel) as ring:
        _write(fd, prompt + _PASTES_MARKED)
        while not line.is_over:
            # Only a wait that was in vain shows a pause: what is late to be read may all have been there before.
            is_after_pause = not select.select([fd], [], [], _PASTE_S)[0]
            ready, _, _ = select.select([fd, ring.fd], [], [])
            if ring.fd in ready:
                _write(fd, "\n")
                return None
            _write(fd, line.take(_read(fd), is_after_pause=is_after_pause))
        if not line.text or (line.is_by_hand and not select.select([fd], [], [], _PASTE_S)[0]):
            return line.text
        _write(fd, _TOO_FAST)
        return ""


def _read(fd: int) -> bytes:
    if keys := os.read(fd, _KEYS_MAX):
        return keys
    raise OSError("the terminal has hung up")


@contextmanager
def _unbuffered(fd: int) -> Iterator[None]:
    """Get each key as it is typed, and show none; what was typed before, and is left over, is thrown away."""
    import termios

    try:
        before = termios.tcgetattr(fd)
        quiet = [*before]
        quiet[3] &= ~(termios.ICANON | termios.ECHO)
        termios.tcsetattr(fd, termios.TCSAFLUSH, quiet)
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
