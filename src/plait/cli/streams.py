"""Standard streams that can be written to whatever they are: closed, in a small encoding, given away.

Floor: 7. Owns: their state at the start and at the end of the process; never: what goes through them.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Final, TextIO

from plait.core.unseen import visible

_MARK: Final = "_plait_shows_only_text"


def prepare() -> None:
    """Make stdin, stdout and stderr exist and take every character; called once, before anything is written."""
    _fill_gaps()
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            # A name or a model's word that this encoding lacks is shown by its code, not as a traceback.
            reconfigure(errors="backslashreplace")
        _show_only_text(stream)


def _show_only_text(stream: TextIO) -> None:
    """Have what is printed show itself and do nothing else: names, paths and errors are other people's words.

    Whoever has colours to show writes to the descriptor (`outlet`), with the words made harmless before.
    """
    if getattr(stream, _MARK, False):
        return
    write = stream.write
    setattr(stream, "write", lambda text: write(visible(text)) and len(text))  # noqa: B010 -- a method of its class
    setattr(stream, _MARK, True)


class Nowhere(io.TextIOWrapper):
    """A stream in place of one that was closed: it takes everything, and remembers that something was said."""

    was_told = False

    def write(self, text: str) -> int:
        """Take the text."""
        self.was_told = self.was_told or text != ""
        return super().write(text)


class Closed(io.TextIOWrapper):
    """A stream in place of a standard input that was closed: it holds nothing, and is told apart from an empty one."""


def read_input(file: str) -> bytes:
    """Return the bytes of a file, or of standard input for `-`; what cannot be read is a usage error."""
    import click  # not before somebody reads

    try:
        if file != "-":
            return Path(file).read_bytes()
        if isinstance(sys.stdin, Closed):
            raise click.UsageError("standard input is closed: there is nothing to read for '-'")
        return sys.stdin.buffer.read()
    except (OSError, ValueError) as error:
        what = "standard input" if file == "-" else repr(file)
        reason = getattr(error, "strerror", None) or error
        raise click.UsageError(f"cannot read {what}: {reason}") from error


def finish(code: int) -> int:
    """Write out what is buffered and return the exit code: `code`, or 1 when nobody could be told of a success."""
    if isinstance(sys.stdout, Nowhere) and sys.stdout.was_told and code == 0:
        code = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            # The interpreter would try again at exit, and print what Python thinks of it.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            if stream is sys.stdout and code == 0:
                code = 1
    return code


def _fill_gaps() -> None:
    """Open what was closed, so that no file or socket of ours takes the number of a standard stream."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)
    if sys.stdin is None:
        sys.stdin = Closed(os.fdopen(0, "rb"), encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = Nowhere(os.fdopen(1, "wb"), encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8")
