"""An incremental parser of server-sent events that does not care where a read ends.

Floor: 1. Owns: lines, fields and events of a `text/event-stream`; never: what the data means.
Source: WHATWG HTML, 9.2 Server-sent events, with liberties that real servers need: an event that the end of the stream
leaves open still counts, a field called `error` is an event, a line without a field is data when it is a JSON document,
goes on with one, or is the end marker, and a data line that is a whole JSON document ends its event when another one
follows without an empty line.
"""

from __future__ import annotations

import json
from typing import Final

Event = tuple[bytes, bytes]
"""Name (empty for an unnamed event) and data."""

DONE: Final = b"[DONE]"
SIZE_BYTES_MAX: Final = 16 * 1024 * 1024
_BOM: Final = b"\xef\xbb\xbf"
_FIELDS: Final = frozenset({b"data", b"event", b"id", b"retry", b"error", b""})


class SseParser:
    """Turns bytes into events.

    Args:
        size_bytes_max: largest line, and largest data of one event, that is kept in memory.

    `too_large` turns true when a line or event passed that limit; nothing more is returned from then on.
    `is_stream` says whether anything that was read had the form of an event stream.
    """

    def __init__(self, *, size_bytes_max: int = SIZE_BYTES_MAX) -> None:
        self.too_large = False
        self.is_stream = False
        self._size_bytes_max = size_bytes_max
        self._begun = False
        self._skip_line_feed = False
        self._tail = bytearray()
        """The line that is still coming."""
        self._name = b""
        self._lines: list[bytes] = []
        self._size_bytes = 0
        self._is_open = False
        """True between the first line of an event and the empty line that ends it."""

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that these bytes complete, in order."""
        if self.too_large:
            return []
        data = self._with_plain_line_ends(data)
        if b"\n" not in data:
            self._tail += data
            self.too_large = len(self._tail) > self._size_bytes_max
            return []
        if self._tail:
            data = bytes(self._tail) + data
            self._tail.clear()
        events: list[Event] = []
        if self._is_open:
            data = self._close_open_event(data, events)
        blocks = data.split(b"\n\n")
        rest = blocks.pop()
        for block in blocks:
            is_small = 6 < len(block) <= self._size_bytes_max and not self.too_large
            if is_small and block.startswith(b"data: ") and b"\n" not in block:
                # One line of data, as nearly every block is: taken here, without a call.
                events.append((b"", block[6:]))
                self.is_stream = True
            elif not self._take_simple(block, events):
                self._take_lines(block.split(b"\n"), events)
                self._dispatch(events)
        self._keep(rest, events)
        return events

    def finish(self) -> list[Event]:
        """Return the event that the end of the stream left open, if it has data."""
        events: list[Event] = []
        if self._tail:
            self._take_lines([bytes(self._tail)], events)
            self._tail.clear()
        self._dispatch(events)
        return events

    def _with_plain_line_ends(self, data: bytes) -> bytes:
        if not self._begun:
            self._tail += data
            if len(self._tail) < len(_BOM) and _BOM.startswith(self._tail):
                return b""
            data = bytes(self._tail).removeprefix(_BOM)
            self._tail.clear()
            self._begun = True
        if self._skip_line_feed and data:
            data = data.removeprefix(b"\n")
            self._skip_line_feed = False
        if b"\r" in data:
            self._skip_line_feed = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data

    def _take_simple(self, block: bytes, events: list[Event]) -> bool:
        """Take a block of one data line, or of an event line and a data line: nearly every block is one of them."""
        if len(block) > self._size_bytes_max or self.too_large:
            return False
        name = b""
        if block.startswith(b"event: "):
            head, _, block = block.partition(b"\n")
            name = head[7:]
        if not block.startswith(b"data: ") or b"\n" in block:
            return False
        if len(block) > 6:
            events.append((name, block[6:]))
        self.is_stream = True
        return True

    def _close_open_event(self, data: bytes, events: list[Event]) -> bytes:
        """Read on to the empty line that ends the open event; return what comes after it."""
        if data.startswith(b"\n"):
            self._dispatch(events)
            return data[1:]
        lines, end, rest = data.partition(b"\n\n")
        if not end:
            return data
        self._take_lines(lines.split(b"\n"), events)
        self._dispatch(events)
        return rest

    def _keep(self, rest: bytes, events: list[Event]) -> None:
        """Take the whole lines of an event that is not complete; remember the line that is still coming."""
        *lines, tail = rest.split(b"\n")
        self._take_lines(lines, events)
        self._tail += tail
        if len(tail) > self._size_bytes_max:
            self.too_large = True

    def _take_lines(self, lines: list[bytes], events: list[Event]) -> None:
        for line in lines:
            if len(line) > self._size_bytes_max:
                self.too_large = True
            if self.too_large:
                return
            if line:
                self._take_line(line, events)
            else:
                self._dispatch(events)

    def _take_line(self, line: bytes, events: list[Event]) -> None:
        field, _, value = line.partition(b":")
        field = field.lstrip(b" \t")
        if field not in _FIELDS:
            self._take_other(line, events)
            return
        self.is_stream = True
        value = value.removeprefix(b" ")
        if field == b"data":
            self._take_data(value, events)
        elif field == b"event":
            self._dispatch_if_whole(events)
            self._name = value
            self._is_open = True
        elif field == b"error":
            self._dispatch(events)
            events.append((b"error", value))

    def _take_other(self, line: bytes, events: list[Event]) -> None:
        """Take a line without a field: a server forgot it, mostly for an error, or spread a document over lines."""
        begun = self._lines[0] if self._lines else b""
        is_whole = line == DONE or (line.startswith(b"{") and _is_document(line))
        if is_whole or (begun.startswith((b"{", b"[")) and not _is_document(begun)):
            self._take_data(line, events)

    def _take_data(self, value: bytes, events: list[Event]) -> None:
        self._dispatch_if_whole(events)
        self._lines.append(value)
        self._size_bytes += len(value)
        self._is_open = True
        if self._size_bytes > self._size_bytes_max:
            self.too_large = True
        elif value == DONE and len(self._lines) == 1:
            self._dispatch(events)  # a reader must not wait for a socket that nobody closes

    def _dispatch_if_whole(self, events: list[Event]) -> None:
        if len(self._lines) == 1 and _is_document(self._lines[0]):
            self._dispatch(events)

    def _dispatch(self, events: list[Event]) -> None:
        if self.too_large:
            return
        data = b"\n".join(self._lines)
        if data:
            events.append((self._name, data))
        self._name, self._size_bytes, self._is_open = b"", 0, False
        self._lines.clear()


def _is_document(line: bytes) -> bool:
    """Say whether a line is a whole JSON object or array, so that nothing more can belong to it."""
    if not line.startswith((b"{", b"[")) or not line.endswith((b"}", b"]")):
        return False
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
