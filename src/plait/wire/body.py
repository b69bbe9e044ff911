"""What a response body is, told by its first bytes: an event stream, one JSON document, a web page, or gzip of these.

Floor: 1. Owns: unpacking a body into events; never: what the events mean.

Servers answer with JSON where a stream was asked for, and proxies with a page; the header that should say so is
wrong as often as not, so the bytes decide.
"""

from __future__ import annotations

import json
import re
from typing import Final, Literal

from plait.wire.gunzip import MAGIC, Gunzip
from plait.wire.sse import DONE, SIZE_BYTES_MAX, Event, SseParser

BodyKind = Literal["", "stream", "json", "page"]
"""Empty while nothing but blanks has come."""

BODY_BYTES_MAX: Final = 128 * 1024 * 1024
JSON_BYTES_MAX: Final = SIZE_BYTES_MAX
"""A document takes many times its size in memory once it is parsed, so one alone may be less than a stream."""
_EXCERPT_BYTES: Final = 400
_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder(strict=False)
_STREAM_BEGINS: Final = (b"data:", b"event:", b"id:", b"retry:", b"error:", MAGIC)
_BLANK: Final = b" \t\r\n\xef\xbb\xbf"


class BodyReader:
    """Turns the bytes of a body into events; a JSON document is one event, given at the end.

    Args:
        size_bytes_max: largest body, after unpacking, that is read.

    `problem` is a sentence once the body cannot be read any further; `excerpt` its first bytes.
    """

    def __init__(self, *, size_bytes_max: int = BODY_BYTES_MAX) -> None:
        self.kind: BodyKind = ""
        self.problem = ""
        self.excerpt = b""
        self._size_bytes_left = size_bytes_max
        self._start: bytes | None = b""
        """The first bytes while they could still be those of gzip, None from then on."""
        self._gunzip: Gunzip | None = None
        self._json = bytearray()
        self._sse = SseParser()

    @property
    def is_spent(self) -> bool:
        """True when reading on could change nothing."""
        return self.problem != "" or (self.kind == "page" and len(self.excerpt) == _EXCERPT_BYTES)

    @property
    def is_foreign(self) -> bool:
        """True for a web page, or text that has nothing of an event stream; a stream cut in its first word has."""
        if self.kind == "stream" and not self._sse.is_stream:
            return not any(begin.startswith(self.excerpt.lstrip(_BLANK)) for begin in _STREAM_BEGINS)
        return self.kind == "page"

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that these bytes complete."""
        if self._start is not None:
            data = self._start + data
            if len(data) < len(MAGIC) and MAGIC.startswith(data):
                self._start = data
                return []
            self._start = None
            self._gunzip = Gunzip() if data.startswith(MAGIC) else None
        if self._gunzip is None:
            return self._take(data)
        events: list[Event] = []
        for plain in self._gunzip.feed(data):
            events += self._take(plain)
            if self.is_spent:
                return events
        self.problem = self.problem or self._gunzip.problem
        return events

    def finish(self) -> list[Event]:
        """Return the events that the end of the body completes."""
        events = self._take(self._start) if self._start else []
        if self.problem:
            return events
        if self.kind == "json":
            return _documents(bytes(self._json))
        return events + self._sse.finish()

    def _take(self, data: bytes) -> list[Event]:
        if self.problem:
            return []
        is_over = len(data) > self._size_bytes_left
        if is_over:
            data = data[: self._size_bytes_left]
        self._size_bytes_left -= len(data)
        if len(self.excerpt) < _EXCERPT_BYTES:
            self._look(data)
        events = self._read(data)
        if self._sse.too_large:
            self.problem = f"one event of the stream is larger than {SIZE_BYTES_MAX} bytes"
        elif is_over or len(self._json) > JSON_BYTES_MAX:
            self.problem = "the body is larger than any answer"
        return events

    def _look(self, data: bytes) -> None:
        self.excerpt += data[: _EXCERPT_BYTES - len(self.excerpt)]
        if self.kind:
            return
        first = self.excerpt.lstrip(_BLANK)[:1]
        if first == b"<":
            self.kind = "page"
        elif first and first in b"{[":
            self.kind = "json"
        elif first or len(self.excerpt) == _EXCERPT_BYTES:
            self.kind = "stream"

    def _read(self, data: bytes) -> list[Event]:
        if self.kind == "page":
            return []
        if self.kind == "json":
            self._json += data
            return []
        return self._sse.feed(data)


def _documents(body: bytes) -> list[Event]:
    """Give the one document of a body and the end; or the documents and events of a body that has several."""
    text = body.lstrip(_BLANK).decode("utf-8", "surrogateescape")
    documents: list[Event] = []
    at = 0
    while text.startswith(("{", "["), at):
        end = _end_of_document(text, at)
        documents.append((b"", _encoded(text[at:end])))
        at = _BLANKS.match(text, end).end()  # type: ignore[union-attr]  # nothing at all is blank
    if at == len(text) and len(documents) == 1:
        return [*documents, (b"", DONE)]
    lines = SseParser()
    return [*documents, *lines.feed(_encoded(text[at:])), *lines.finish()]


def _end_of_document(text: str, start: int) -> int:
    """Return where the document at `start` ends: at the end of the text where it is damaged or cut."""
    try:
        _, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return len(text)
    return end


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
