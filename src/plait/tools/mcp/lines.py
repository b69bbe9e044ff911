"""The lines that a server writes, cut out of its bytes as they come, whatever else it writes between them.

Floor: 3. Owns: where a line ends, how long one may be, which part of one may be a message; never: a message's meaning.

A server that prints a log line to its standard output, half a line before a message, bytes that are no text or a line
without end costs its own words and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from plait.core.values import dataclass

LINE_BYTES_MAX: Final = 16 << 20
"""The longest message that is read; pictures stand in messages as text."""
_ENDS_BYTES: Final = 512
_ID: Final = rb'"id"\s*:\s*(-?[0-9]{1,18}|"[^"\\]{1,200}")'
_ID_FIRST: Final = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID)
_ID_LAST: Final = re.compile(rb",\s*" + _ID + rb"\s*\}\s*$")
_BEGINNING: Final = re.compile(rb'\{\s*"(?:jsonrpc|id|method|params|result|error)"')


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line that was not kept: its size, and the id of the message where its ends tell it."""

    size_bytes: int
    id: int | str | None


class Unreadable:
    """A second look at what was read as no message: servers cut texts in the middle of a character.

    `text` is the same JSON with whole characters, or None where it is no JSON object. `id` is that of the answer that
    it is meant to be, or None.
    """

    def __init__(self, part: bytes) -> None:
        self.text: str | None = None
        self.id: int | str | None = None
        try:
            value = json.loads(part.decode("utf-8", "replace"))
            dumped = json.dumps(value, ensure_ascii=False)
        except RecursionError:
            self.id = _id_of(part[:_ENDS_BYTES], part[-_ENDS_BYTES:])
            return
        except ValueError:
            return
        if isinstance(value, dict) and value.get("jsonrpc") == "2.0":
            self.text = dumped.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            self.id = _answered_by(value)


class Lines:
    """Cuts bytes into lines; holds at most one line's worth."""

    def __init__(self, bytes_max: int = LINE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._held = bytearray()
        self._skipped = 0
        """Size so far of a line that is too long; its first bytes are in `_held`, its last in `_end`."""
        self._end = b""

    def feed(self, data: bytes) -> Iterator[bytes | TooLong]:
        """Take what came and yield the lines that it completes, without their ends."""
        *whole, rest = data.split(b"\n")
        for piece in whole:
            self._hold(piece)
            yield self._take()
        self._hold(rest)

    def close(self) -> Iterator[bytes | TooLong]:
        """Yield the last line when it has no end."""
        if self._held or self._skipped:
            yield self._take()

    def _hold(self, piece: bytes) -> None:
        if not self._skipped and len(self._held) + len(piece) <= self._bytes_max:
            self._held += piece
            return
        if not self._skipped:
            self._skipped = len(self._held)
            self._end = bytes(self._held[-_ENDS_BYTES:])
            self._held += piece[:_ENDS_BYTES]
            del self._held[_ENDS_BYTES:]
        self._skipped += len(piece)
        self._end = (self._end + piece[-_ENDS_BYTES:])[-_ENDS_BYTES:]

    def _take(self) -> bytes | TooLong:
        line, size = bytes(self._held), self._skipped
        self._held.clear()
        self._skipped = 0
        return TooLong(size, _id_of(line, self._end)) if size else line.rstrip(b"\r")


def messages_in(line: bytes) -> Iterator[bytes]:
    """Yield what of a line may be a message, the most likely part first: all of it, or what follows some noise."""
    stripped = line.strip()
    if stripped.startswith(b"{"):
        yield stripped
    for found in list(_BEGINNING.finditer(stripped, 1))[:4]:
        yield stripped[found.start() :]


def _answered_by(value: dict[str, object]) -> int | str | None:
    asked = value.get("id")
    is_answer = "method" not in value and ("result" in value or "error" in value)
    return asked if is_answer and isinstance(asked, (int, str)) and not isinstance(asked, bool) else None


def _id_of(first: bytes, last: bytes) -> int | str | None:
    found = _ID_FIRST.search(first) or _ID_LAST.search(last)
    if found is None:
        return None
    value: int | str = json.loads(found[1].decode("utf-8", "replace"))
    return value
