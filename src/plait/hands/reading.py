"""A window of lines out of a text file of any size, with the digest of the whole.

Floor: 2. Owns: line windows in bounded memory; never: which lines a tool shows by default.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import re
from typing import Final

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands.editing import textfile
from plait.hands.editing.textfile import Newline
from plait.hands.refusals import refusal_from
from plait.hands.text import until_whole_character
from plait.hands.workspace import OpenFile

SCANNED_BYTES_MAX: Final = 256 * 1024 * 1024
_DECODED_WHOLE_BYTES_MAX: Final = 16 * 1024 * 1024
_CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Window:
    """Which lines to read, and how much of them at most."""

    first_line: int = 1
    lines_max: int = 2_000
    bytes_max: int = 1 << 20

    def check(self) -> None:
        """Raise `Refusal` for numbers that name no lines."""
        if self.first_line < 1:
            raise Refusal("INVALID_INPUT", f"line {self.first_line} does not exist", hint="lines are counted from 1")
        if self.lines_max < 1:
            raise Refusal("INVALID_INPUT", f"{self.lines_max} lines are none", hint="ask for at least one line")


@dataclass(frozen=True, slots=True)
class Lines:
    """Some lines of a file: exactly as they are there, but for bytes that are not UTF-8 (U+FFFD)."""

    text: str
    first_line: int
    last_line: int
    """0 when there are none."""
    total_lines: int
    size_bytes: int
    sha256: str
    """Of the whole file."""
    encoding: str
    """`utf-8`, `utf-8-sig`, `utf-16-le`, `utf-16-be`, or `unknown` when some bytes are not UTF-8."""
    newline: Newline
    is_cut: bool
    """True when `bytes_max` ended the text before `lines_max` lines, possibly inside a line."""

    @property
    def has_more(self) -> bool:
        """True when the file goes on after `text`."""
        return self.is_cut or self.last_line < self.total_lines


def read_lines(opened: OpenFile, window: Window | None = None) -> Lines:
    """Read a window of lines, the rest of the file only for its digest and line count.

    Memory stays below a few MiB plus `bytes_max` whatever the size of the file or of a line. Raises `Refusal`:
    `UNSUPPORTED_CONTENT` for a binary file, `TOO_LARGE` beyond `SCANNED_BYTES_MAX`, `INVALID_INPUT` for a window
    that begins after the last line (the message says which is the last).
    """
    window = window or Window()
    window.check()
    if opened.status.st_size > SCANNED_BYTES_MAX:
        raise _too_large(opened, SCANNED_BYTES_MAX)
    try:
        start = os.pread(opened.fd, 4, 0)
        scan = _Scan(opened.shown, window)
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return _read_utf16(opened, scan)
        size_max = SCANNED_BYTES_MAX
        while piece := os.read(opened.fd, _CHUNK_BYTES):
            scan.feed(piece)
            if scan.size_bytes > size_max:  # it grew, or it is no ordinary file
                raise _too_large(opened, size_max)
    except OSError as error:
        raise refusal_from(error, opened.shown, "read") from error
    return scan.finish()


class _Scan:
    """One pass over the bytes of a file: counts everything, keeps the window."""

    def __init__(self, shown: str, window: Window) -> None:
        self._shown = shown
        self._window = window
        self._digest = hashlib.sha256()
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._is_utf8 = True
        self._kept = bytearray()
        self._line = 1  # the line in which the next byte stands
        self._feeds = 0
        self._pairs = 0
        self._ends_with_cr = False
        self._ends_with_feed = True
        self._is_full = False
        self._has_mark = False
        self.size_bytes = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self._digest.update(data)
        if not self.size_bytes:
            self._has_mark = data.startswith(codecs.BOM_UTF8)
            textfile.decode(data[:4], self._shown)  # UTF-32 is refused here
        if b"\0" in data:
            raise textfile.binary(self._shown)
        self._check_utf8(data)
        self.size_bytes += len(data)
        self._pairs += data.count(b"\r\n") + (self._ends_with_cr and data.startswith(b"\n"))
        self._ends_with_cr = data.endswith(b"\r")
        self._ends_with_feed = data.endswith(b"\n")
        feeds = data.count(b"\n")
        self._keep(data, feeds)
        self._feeds += feeds
        self._line += feeds

    def _check_utf8(self, data: bytes, *, is_last: bool = False) -> None:
        if self._is_utf8:
            try:
                self._utf8.decode(data, is_last)
            except UnicodeDecodeError:
                self._is_utf8 = False

    def _keep(self, data: bytes, feeds: int) -> None:
        first = self._window.first_line
        end = first + self._window.lines_max
        if self._is_full or self._line >= end or self._line + feeds < first:
            return
        start = _after_feeds(data, first - self._line)
        stop = _after_feeds(data, end - self._line) if self._line + feeds >= end else len(data)
        room = self._window.bytes_max - len(self._kept)
        self._is_full = stop - start > room
        self._kept += data[start : min(stop, start + room)]

    def finish(self) -> Lines:
        """Return what was found; raises `Refusal` when the window begins after the end."""
        self._check_utf8(b"", is_last=True)
        total = self._feeds + (not self._ends_with_feed)
        refuse_beyond(self._window, total, self._shown)
        kept = bytes(self._kept)
        if self._is_full:
            kept = until_whole_character(kept)
        if self._window.first_line == 1 and self._has_mark:
            kept = kept.removeprefix(codecs.BOM_UTF8)
        count = kept.count(b"\n") + (bool(kept) and not kept.endswith(b"\n"))
        style: Newline = "" if not self._feeds else "\n" if not self._pairs else "mixed"
        return Lines(
            text=kept.decode("utf-8", "replace"),
            first_line=self._window.first_line,
            last_line=self._window.first_line + count - 1 if count else 0,
            total_lines=total,
            size_bytes=self.size_bytes,
            sha256=self._digest.hexdigest(),
            encoding=("utf-8-sig" if self._has_mark else "utf-8") if self._is_utf8 else "unknown",
            newline="\r\n" if self._pairs and self._pairs == self._feeds else style,
            is_cut=self._is_full,
        )


def _read_utf16(opened: OpenFile, scan: _Scan) -> Lines:
    """UTF-16 is decoded whole, so less of it is taken."""
    if opened.status.st_size > _DECODED_WHOLE_BYTES_MAX:
        raise _too_large(opened, _DECODED_WHOLE_BYTES_MAX)
    pieces: list[bytes] = []
    while piece := os.read(opened.fd, _CHUNK_BYTES):
        pieces.append(piece)
        if sum(map(len, pieces)) > _DECODED_WHOLE_BYTES_MAX:
            raise _too_large(opened, _DECODED_WHOLE_BYTES_MAX)
    data = b"".join(pieces)
    found = textfile.decode(data, opened.shown)
    scan.feed(found.text.encode())
    lines = scan.finish()
    return Lines(
        lines.text,
        lines.first_line,
        lines.last_line,
        lines.total_lines,
        len(data),
        hashlib.sha256(data).hexdigest(),
        found.encoding,
        lines.newline,
        lines.is_cut,
    )


def refuse_beyond(window: Window, total_lines: int, shown: str) -> None:
    """Refuse a window that begins after the last line; an empty file has an empty first line."""
    if window.first_line > max(1, total_lines):
        raise Refusal(
            "INVALID_INPUT",
            f"line {window.first_line} is beyond the end of {shown!r}, which has {total_lines} line(s)",
            hint=f"ask for a line up to {total_lines}",
            details={"path": shown, "total_lines": total_lines},
        )


def _after_feeds(data: bytes, feeds: int) -> int:
    """Return the position after the given number of line feeds, or the end."""
    if feeds <= 0:
        return 0
    position = 0
    for match in re.finditer(b"\n", data):
        feeds -= 1
        position = match.end()
        if not feeds:
            return position
    return len(data)


def _too_large(opened: OpenFile, bytes_max: int) -> Refusal:
    return Refusal(
        "TOO_LARGE",
        f"{opened.shown!r} has {max(opened.status.st_size, bytes_max)} bytes or more",
        hint="look at a part of it with a shell command (head, tail, sed -n, grep)",
        details={"path": opened.shown},
    )
