"""Output leaves in its own thread, whatever its reader does."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from typing import TextIO

import pytest

from plait.cli.outlet import Outlet
from plait.core.cancel import Cancel

BIG = "x" * (5 << 20)


@pytest.fixture
def pipe() -> Iterator[tuple[int, TextIO]]:
    """Yield the read end of a pipe and a text stream over its write end."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        yield reader, stream
        try:
            os.close(reader)
        except OSError:
            pass


def test_what_is_written_arrives_in_order(pipe: tuple[int, TextIO]) -> None:
    """Pieces come out as they went in, in the stream's encoding."""
    reader, stream = pipe
    outlet = Outlet(stream, Cancel())

    for piece in ("größe ", "猫", "\n"):
        outlet.write(piece)
    outlet.close()

    assert "größe 猫\n".encode() == os.read(reader, 100)
    assert outlet.error is None


def test_characters_that_the_encoding_lacks_are_spelt_out() -> None:
    """No text is refused: what cannot be encoded is shown by its code."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "w", encoding="latin-1") as stream:
        outlet = Outlet(stream, Cancel())
        outlet.write("größe 猫 \udce9")
        outlet.close()

    assert "größe \\u732b \\udce9".encode("latin-1") == os.read(reader, 100)
    os.close(reader)


def test_a_slow_reader_does_not_hold_the_writer(pipe: tuple[int, TextIO]) -> None:
    """More than a pipe holds is taken at once; a stop signal ends the wait for the reader."""
    _, stream = pipe
    cancel = Cancel()
    outlet = Outlet(stream, cancel)

    outlet.write(BIG[: 1 << 20])
    assert not outlet.wait_drained(0.01)
    cancel.cancel("interrupted")
    outlet.close(patience_s=0.01)


def test_a_reader_far_behind_is_waited_for_until_the_stop(pipe: tuple[int, TextIO]) -> None:
    """Memory stays bounded: a writer waits at the limit, and goes on when the run is stopped."""
    _, stream = pipe
    cancel = Cancel()
    outlet = Outlet(stream, cancel)
    waiting = threading.Thread(target=lambda: [outlet.write(BIG) for _ in range(3)], daemon=True)
    waiting.start()
    waiting.join(0.05)

    assert waiting.is_alive()
    cancel.cancel("interrupted")
    waiting.join(5)
    assert not waiting.is_alive()
    outlet.close(patience_s=0.01)


def test_a_reader_that_is_gone_is_told_once(pipe: tuple[int, TextIO]) -> None:
    """The first failed write is reported, and later ones go nowhere."""
    reader, stream = pipe
    os.close(reader)
    seen: list[int | None] = []
    outlet = Outlet(stream, Cancel(), lambda error: seen.append(error.errno))

    for _ in range(3):
        outlet.write("x")
        assert not outlet.wait_drained(5)
    outlet.close()

    assert [errno.EPIPE] == seen
    assert outlet.error is not None


def test_a_pipe_that_somebody_made_non_blocking_is_waited_for(pipe: tuple[int, TextIO]) -> None:
    """A full non-blocking pipe is no failure."""
    reader, stream = pipe
    os.set_blocking(stream.fileno(), False)
    outlet = Outlet(stream, Cancel())

    outlet.write(BIG[: 1 << 18])
    read = 0
    while read < 1 << 18:
        read += len(os.read(reader, 65_536))
    outlet.close()

    assert outlet.error is None
