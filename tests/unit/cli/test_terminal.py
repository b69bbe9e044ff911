"""Questions go to the terminal itself, and only a person who saw them answers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.helpers.terminals import on_terminal

ASK = """
import sys
from plait.cli.terminal import Terminal
from plait.core.cancel import Cancel
print("started", flush=True)
sys.stdin.readline()
print(repr(Terminal().ask("Allow? ", Cancel())), flush=True)
"""
CANCELLED = """
import threading
from plait.cli.terminal import Terminal
from plait.core.cancel import Cancel
cancel = Cancel()
threading.Timer(0.05, cancel.cancel, ("interrupted",)).start()
print(repr(Terminal().ask("The question\\nAllow? ", cancel)), flush=True)
"""


def test_the_answer_is_what_is_typed_after_the_question() -> None:
    """Lines that were typed ahead are thrown away, keys take back what they should; no stream plays a part."""
    with on_terminal([sys.executable, "-c", ASK], piped=True) as asked:
        assert asked.process.stdin is not None
        assert asked.process.stdout is not None
        asked.process.stdout.readline()
        asked.paste(b"y\ny\nyes")
        asked.wait_for(b"yes")
        asked.process.stdin.write(b"go\n")
        asked.process.stdin.flush()
        asked.wait_for(b"Allow? ")
        asked.type(b"no\xc3\xa9\x7f, \x15no, x\x08thanks\r")

        assert b"'no, thanks'\n" == asked.process.stdout.readline()


@pytest.mark.parametrize("code, keys", [(ASK, b"\x04"), (CANCELLED, b"")], ids=["end of file", "stop signal"])
def test_a_question_that_nobody_answers_ends(code: str, keys: bytes) -> None:
    """Ctrl-D and a stop signal are no answer, and end the question."""
    with on_terminal([sys.executable, "-c", code], piped=True) as asked:
        assert asked.process.stdin is not None
        assert asked.process.stdout is not None
        asked.process.stdin.write(b"go\n")
        asked.process.stdin.flush()
        asked.wait_for(b"Allow? " if keys else b"The question")
        if keys:
            asked.type(keys)

        assert b"None\n" == asked.process.stdout.readlines()[-1]


def test_without_a_terminal_nobody_is_there() -> None:
    """In a session without a terminal there is nobody to ask."""
    code = "from plait.cli.terminal import Terminal; from plait.core.cancel import Cancel\n"
    code += "print(Terminal.is_there(), Terminal().ask('?', Cancel()))"
    argv = [sys.executable, "-c", code]

    ran = subprocess.run(argv, start_new_session=True, capture_output=True, text=True, check=True)

    assert "False None\n" == ran.stdout


def test_a_background_job_asks_nobody() -> None:
    """A process that is not in the terminal's foreground would be stopped by reading from it, so it does not."""
    code = (
        "import os\nfrom plait.cli.terminal import Terminal\n"
        "if os.fork() == 0:\n    os.setpgid(0, 0)\n    print(Terminal.is_there(), flush=True)\n    os._exit(0)\n"
        "os.wait()\nprint(Terminal.is_there(), flush=True)\n"
    )
    with on_terminal([sys.executable, "-c", code], piped=True) as asked:
        assert asked.process.stdout is not None

        assert [b"False\n", b"True\n"] == asked.process.stdout.readlines()
