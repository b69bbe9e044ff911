"""Captured output: head and tail exact, memory bounded, the whole in the spill when asked for."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from hypothesis import given, strategies as st

from plait.hands.capture import Capture, CaptureLimits

PIECES = st.lists(st.binary(max_size=40).map(lambda data: bytes(byte & 0x7F for byte in data)), max_size=12)


@given(PIECES, st.integers(0, 20), st.integers(0, 20))
def test_head_and_tail_are_those_of_the_stream(pieces: list[bytes], head: int, tail: int) -> None:
    """However a stream is cut into pieces, what is kept are its first and last bytes."""
    whole = b"".join(pieces)
    capture = Capture(CaptureLimits(head, tail))
    for piece in pieces:
        capture.feed(piece)
    kept = capture.finish()
    assert len(whole) == kept.total_bytes
    if len(whole) <= head + tail:
        assert (whole, b"", 0) == (kept.head_bytes, kept.tail_bytes, kept.dropped_bytes)
    else:
        assert (whole[:head], whole[len(whole) - tail :]) == (kept.head_bytes, kept.tail_bytes)


def test_the_spill_holds_everything(tmp_path: Path) -> None:
    """Once memory is not enough, the file has the stream from its first byte, for its owner only."""
    path = tmp_path / "spill"
    capture = Capture(CaptureLimits(4, 4), str(path))
    for piece in (b"abc", b"defg", b"hi", b"jklmnop"):
        capture.feed(piece)
    kept = capture.finish()
    assert (b"abcdefghijklmnop", 0o600) == (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
    assert (str(path), True, "abcd", "mnop") == (kept.spill_path, kept.is_spill_whole, kept.head, kept.tail)
    assert "truncated 8 characters; all of it in f" in kept.bounded("all of it in f").text


def test_no_spill_without_need(tmp_path: Path) -> None:
    """Output that fits leaves no file."""
    capture = Capture(CaptureLimits(4, 4), str(tmp_path / "spill"))
    capture.feed(b"12345678")
    assert (None, "12345678") == ((kept := capture.finish()).spill_path, kept.head)
    assert [] == os.listdir(tmp_path)


def test_the_spill_is_bounded(tmp_path: Path) -> None:
    """At its limit the spill ends, and says so; the count goes on."""
    capture = Capture(CaptureLimits(2, 2, spill_bytes_max=10), str(tmp_path / "spill"))
    for _ in range(10):
        capture.feed(b"abcdef")
    kept = capture.finish()
    assert (b"abcdefabcd", False, 60) == (
        (tmp_path / "spill").read_bytes(),
        kept.is_spill_whole,
        kept.total_bytes,
    )


def test_a_full_disk_costs_only_the_spill(small_disk: Path) -> None:
    """Where the spill cannot go on, head, tail and count are still there."""
    capture = Capture(CaptureLimits(4, 4), str(small_disk / "spill"))
    for _ in range(40):
        capture.feed(b"x" * 100_000)
    kept = capture.finish()
    assert (4_000_000, "xxxx", "xxxx", False) == (kept.total_bytes, kept.head, kept.tail, kept.is_spill_whole)


def test_a_spill_never_overwrites(tmp_path: Path) -> None:
    """A file that is there already stays as it is."""
    (tmp_path / "spill").write_text("theirs")
    capture = Capture(CaptureLimits(1, 1), str(tmp_path / "spill"))
    capture.feed(b"abc")
    kept = capture.finish()
    assert ("theirs", None, False) == ((tmp_path / "spill").read_text(), kept.spill_path, kept.is_spill_whole)
