"""The standard streams exist and take every character, whoever started the process."""

from __future__ import annotations

import subprocess
import sys

import pytest

PREPARED = "import sys; from plait.cli import streams; streams.prepare()\n"


def run(code: str, redirection: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run Python code under a shell that redirects its streams."""
    command = f'exec "$0" -c "$1" {redirection}'
    argv = ["sh", "-c", command, sys.executable, PREPARED + code]
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, env={**env}, timeout=20, check=False)


def test_closed_streams_are_opened() -> None:
    """No file of ours gets the number of a closed stream, and writing to one does no harm."""
    ran = run("print('x'); print(open('/dev/null').fileno() > 2, file=sys.stderr); sys.stdin.read()", "<&- >&-")

    assert (0, b"", b"True\n") == (ran.returncode, ran.stdout, ran.stderr)


def test_a_closed_stderr_takes_what_is_said() -> None:
    """A complaint that nobody can read is no second failure."""
    ran = run("print('x', file=sys.stderr)", "2>&-")

    assert (0, b"") == (ran.returncode, ran.stdout)


@pytest.mark.parametrize(
    "encoding, expected", [("latin-1", b"gr\xf6\xdfe \\u732b\n"), ("ascii", b"gr\\xf6\\xdfe \\u732b\n")]
)
def test_what_an_encoding_lacks_is_spelt_out(encoding: str, expected: bytes) -> None:
    """A small encoding costs readability, never a traceback."""
    ran = run("print('gr\\xf6\\xdfe \\u732b')", "", PYTHONIOENCODING=encoding)

    assert (0, expected, b"") == (ran.returncode, ran.stdout, ran.stderr)


@pytest.mark.parametrize(
    "said, code, expected", [("print('x')", 0, 1), ("print('x')", 3, 3), ("pass", 0, 0), ("print('')", 0, 1)]
)
def test_a_success_that_nobody_can_be_told_of_is_none(said: str, code: int, expected: int) -> None:
    """What is said to a closed stdout is lost, so the exit code says so; silence loses nothing."""
    ran = run(f"{said}; sys.exit(streams.finish({code}))", ">&-")

    assert (expected, b"") == (ran.returncode, ran.stderr)


@pytest.mark.parametrize("code, expected", [(0, 1), (3, 3)])
def test_a_success_that_could_not_be_told_is_none(code: int, expected: int) -> None:
    """When stdout takes nothing the exit code says so, and no traceback follows."""
    ran = run(f"print('x'); sys.exit(streams.finish({code}))", ">/dev/full")

    assert (expected, b"") == (ran.returncode, ran.stderr)
