"""Questions go to the terminal itself, and only a person who saw them answers."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

ASK = """
import os, sys, time
from plait.cli.terminal import Terminal
from plait.core.cancel import Cancel
os.write(1, b"started\\n")
sys.stdin.readline()
print(repr(Terminal().ask("Allow? ", Cancel())), flush=True)
"""
CANCELLED = """
import threading
from plait.cli.terminal import Terminal
from plait.core.cancel import Cancel
cancel = Cancel()
threading.Timer(0.05, cancel.cancel, ("interrupted",)).start()
print(repr(Terminal().ask("Allow? ", cancel)), flush=True)
"""


@contextmanager
def on_a_terminal(code: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run Python code as the leader of a session with a terminal; yield it and the terminal's other end."""
    ours, theirs = pty.openpty()
    take_it = f"import fcntl, termios; fcntl.ioctl({theirs}, termios.TIOCSCTTY, 0)\n"
    process = subprocess.Popen(
        [sys.executable, "-c", take_it + code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        pass_fds=[theirs],
    )
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.communicate()
        os.close(ours)


def read_until(fd: int, text: bytes, timeout_s: float = 10) -> bytes:
    """Read from a terminal until it shows `text`."""
    seen = b""
    deadline_s = time.monotonic() + timeout_s
    while text not in seen and time.monotonic() < deadline_s:
        if select.select([fd], [], [], 0.1)[0]:
            seen += os.read(fd, 4096)
    return seen


def test_the_answer_is_what_is_typed_after_the_question() -> None:
    """Lines that were typed ahead are thrown away; stdin and stdout play no part."""
    with on_a_terminal(ASK) as (process, terminal):
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        os.write(terminal, b"y\ny\nyes")
        read_until(terminal, b"yes")
        process.stdin.write(b"go\n")
        process.stdin.flush()
        read_until(terminal, b"Allow? ")
        os.write(terminal, b"no, thanks\n")

        assert b"'no, thanks'\n" == process.stdout.readline()


@pytest.mark.parametrize("ending", ["end of file", "stop signal"])
def test_a_question_that_nobody_answers_ends(ending: str) -> None:
    """Ctrl-D and a stop signal are no answer, and end the question."""
    with on_a_terminal(CANCELLED if ending == "stop signal" else ASK) as (process, terminal):
        assert process.stdin is not None
        assert process.stdout is not None
        if ending != "stop signal":
            process.stdout.readline()
            process.stdin.write(b"go\n")
            process.stdin.flush()
        read_until(terminal, b"Allow? ")
        if ending == "end of file":
            os.write(terminal, b"\x04")
        assert b"None\n" == process.stdout.readline()


def test_without_a_terminal_nobody_is_there() -> None:
    """In a session without a terminal there is nobody to ask."""
    code = "from plait.cli.terminal import Terminal; from plait.core.cancel import Cancel\n"
    code += "print(Terminal.is_there(), Terminal().ask('?', Cancel()))"

    ran = subprocess.run(
        [sys.executable, "-c", code], start_new_session=True, capture_output=True, text=True, check=True
    )

    assert "False None\n" == ran.stdout
