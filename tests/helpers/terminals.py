"""A process on a terminal of its own, with a person's hands at the other end."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.helpers.warm import REPOSITORY, Warm, program_of

_TAKE_IT = (
    "import fcntl, os, sys, termios; fcntl.ioctl({fd}, termios.TIOCSCTTY, 0); sys.path.append({place!r}); "
    "from tests.helpers.warm_server import play; play(sys.argv[1:], os.getcwd())"
)


KEY_S = 0.06
"""Between two keys of a person in a hurry."""


class OnTerminal:
    """A running process, what its terminal showed so far, and a way to type."""

    def __init__(self, process: subprocess.Popen[bytes], fd: int) -> None:
        self.process = process
        self.shown = b""
        self._fd = fd

    def type(self, keys: bytes) -> None:
        """Type on the terminal's keyboard, as fast as a hand can."""
        for key in keys:
            os.write(self._fd, bytes([key]))
            time.sleep(KEY_S)  # this is what a hand is like

    def paste(self, keys: bytes) -> None:
        """Put all of it on the keyboard at once."""
        os.write(self._fd, keys)

    def wait_for(self, text: bytes, timeout_s: float = 20.0, *, times: int = 1) -> None:
        """Wait until the terminal has shown `text`, so many times."""
        deadline_s = time.monotonic() + timeout_s
        while self.shown.count(text) < times:
            assert time.monotonic() < deadline_s, f"{text!r} was not shown, but {self.shown!r}"
            is_open = self._read() or self.shown.count(text) >= times
            assert is_open, f"the process ended without {text!r}: {self.shown!r}"

    def end(self, timeout_s: float = 20.0) -> int:
        """Wait for the process to end, reading what it shows; return its exit code."""
        deadline_s = time.monotonic() + timeout_s
        while self.process.poll() is None:
            assert time.monotonic() < deadline_s, f"it did not end: {self.shown!r}"
            self._read()
        while self._read():
            pass
        return self.process.returncode

    def _read(self) -> bool:
        """Take what is shown within a moment; False when the terminal is closed or, at the end, empty."""
        if not select.select([self._fd], [], [], 0.05)[0]:
            return self.process.poll() is None
        try:
            piece = os.read(self._fd, 65_536)
        except OSError:  # Linux's way of saying that the other end is closed
            return False
        self.shown += piece
        return bool(piece)


@contextmanager
def on_terminal(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    piped: bool = False,
) -> Iterator[OnTerminal]:
    """Start a process whose controlling terminal is a new one.

    Its streams are that terminal; with `piped`, stdin and stdout are pipes and only the terminal itself is left.
    """
    ours, theirs = pty.openpty()
    stream = subprocess.PIPE if piped else theirs
    process = Warm(
        [sys.executable, "-c", _TAKE_IT.format(fd=theirs, place=str(REPOSITORY)), *program_of(argv)],
        cwd=cwd,
        env=env,
        stdin=stream,
        stdout=stream,
        stderr=theirs,
        start_new_session=True,
        pass_fds=[theirs],
    )
    os.close(theirs)
    try:
        yield OnTerminal(process, ours)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        os.close(ours)
