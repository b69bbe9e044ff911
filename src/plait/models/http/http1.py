"""HTTP/1.1 as a model API needs it, without a socket: one request out, one response in.

Floor: 2. Owns: the bytes of a request's head, and what a response's bytes mean; never: when they come.
Source: RFC 9112, checked 2026-11.

It stands where aiohttp and urllib3 could: measured beside them, a request on it costs half their time in the
processor, and starting to use it a tenth of theirs. Both transports also behave alike because both read with it.

What decides where a body ends is read strictly: anything doubtful there is `NotHttp`, and a connection is used again
only when nothing at all is left over. Other headers are read as leniently as servers write them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from plait.core.values import dataclass

HEAD_BYTES_MAX: Final = 65_536
_LINE_BYTES_MAX: Final = 8_192
_STATUS_LINE: Final = re.compile(r"HTTP/1\.([01]) (\d{3})(?: .*)?")
_HEAD_END: Final = re.compile(rb"\r?\n\r?\n")
_CHUNK_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")
_PLAIN_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})\r\n")
_OURS: Final = frozenset({"host", "content-length", "transfer-encoding"})
"""What says where a request goes and where it ends; two of one of these, and a proxy and a server read two requests."""
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


class NotHttp(Exception):
    """The bytes are not what HTTP/1.1 promises; the message says where it goes wrong."""


class BrokenOff(Exception):
    """The connection ended before the response did."""


@dataclass(frozen=True, slots=True)
class Head:
    """What came before the body."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case; repeated ones are joined by commas."""


def request_head(method: str, target: str, host: str, headers: Mapping[str, str], size_bytes: int | None) -> bytes:
    """Return a request's head.

    Args:
        size_bytes: length of the body, None for a request without one.

    Raises:
        ValueError: a header cannot be sent; the message holds its name and not its value.
    """
    return _end_head(_begin_head(method, target, host, headers), size_bytes)


class RequestHeads:
    """Makes requests' heads; where only the size differs from the one before, nothing else is checked and joined again.

    Any thread may use it: what is remembered is one value, read and replaced as a whole.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: tuple[tuple[str, str, str, Mapping[str, str]], bytes] | None = None

    def head(self, method: str, target: str, host: str, headers: dict[str, str], size_bytes: int | None) -> bytes:
        """Return what `request_head` returns; `headers` is kept, and must not be changed afterwards."""
        asked = (method, target, host, headers)
        last = self._last
        if last is None or last[0] != asked:
            last = self._last = (asked, _begin_head(method, target, host, headers))
        return _end_head(last[1], size_bytes)


def _begin_head(method: str, target: str, host: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise ValueError(f"the header {name!r} holds a character that no header can carry")
        if name.lower() not in _OURS:
            lines.append(f"{name}: {value}")
    return "\r\n".join((*lines, "")).encode("latin-1")


def _end_head(start: bytes, size_bytes: int | None) -> bytes:
    return start + b"\r\n" if size_bytes is None else b"%bContent-Length: %d\r\n\r\n" % (start, size_bytes)


class ResponseParser:
    """Reads one response, however its bytes are cut.

    `head` is None until it is complete, `is_over` true from the last byte of the body; `can_follow` says then
    whether another request may be made on the same connection.
    """

    __slots__ = (
        "_awaits_line_end",
        "_has_ended_chunks",
        "_held",
        "_is_chunked",
        "_left",
        "_method",
        "can_follow",
        "head",
        "is_over",
    )

    def __init__(self, method: str = "POST") -> None:
        self.head: Head | None = None
        self.is_over = False
        self.can_follow = False
        self._method = method
        self._held = b""
        self._is_chunked = False
        self._left: int | None = None
        """Bytes that are left of the body or of the chunk, None for a body that ends with the connection."""
        self._awaits_line_end = False
        self._has_ended_chunks = False

    def feed(self, data: bytes) -> bytes:
        """Return the bytes of the body that are in `data`.

        Raises:
            NotHttp: there is something else in it.
        """
        if self.head is None:
            data = self._read_head(self._held + data)
            if self.head is None:
                return b""
        if self.is_over:
            self.can_follow = self.can_follow and not data
            return b""
        if self._is_chunked:
            return self._read_chunks(data)
        if self._left is None:
            return data
        return self._read_counted(data)

    def end(self) -> None:
        """Take the end of the connection.

        Raises:
            BrokenOff: something is missing.
        """
        self.can_follow = False
        if self.is_over:
            return
        is_counted = self._left is not None and not self._has_ended_chunks
        if self.head is None or is_counted:
            raise BrokenOff
        self.is_over = True

    def _read_head(self, data: bytes) -> bytes:
        """Take the head out of `data`, and what informational heads come before it; return what follows."""
        while (end := _HEAD_END.search(data)) is not None:
            lines = data[: end.start()].decode("latin-1").replace("\r\n", "\n").split("\n")
            status, is_old = _status_of(lines[0])
            rest = data[end.end() :]
            if 100 <= status < 200 and status != 101:
                data = rest
                continue
            self._held = b""
            head = Head(status, _headers_of(lines[1:]))
            self._begin_body(head, is_old=is_old)
            self.head = head
            return rest
        if len(data) > HEAD_BYTES_MAX:
            raise NotHttp("its headers do not end")
        if not b"HTTP/1.".startswith(data[:7]):
            raise NotHttp(f"it begins with {data[:24]!r}")
        self._held = data
        return b""

    def _begin_body(self, head: Head, *, is_old: bool) -> None:
        tokens = [token.strip().lower() for token in head.headers.get("connection", "").split(",")]
        self.can_follow = "keep-alive" in tokens if is_old else "close" not in tokens
        coding = head.headers.get("transfer-encoding", "").lower()
        length = head.headers.get("content-length")
        if (
            self._method == "HEAD"
            or head.status in (101, 204, 304)
            or (self._method == "CONNECT" and head.status < 300)
        ):
            self.is_over = True
        elif coding:
            if coding != "chunked":
                raise NotHttp(f"its body is sent as {coding!r}")
            self._is_chunked = True
            self._left = 0
            self.can_follow = self.can_follow and length is None
        elif length is not None:
            self._left = _length_of(length)
            self.is_over = self._left == 0
        else:
            self.can_follow = False

    def _read_counted(self, data: bytes) -> bytes:
        assert self._left is not None
        left, self._left = self._left, max(0, self._left - len(data))
        self.is_over = self._left == 0
        if len(data) > left:
            self.can_follow = False
            return data[:left]
        return data

    def _read_chunks(self, data: bytes) -> bytes:
        data = self._held + data if self._held else data
        body: list[bytes] = []
        at = 0
        while not self.is_over:
            if not (self._left or self._awaits_line_end or self._has_ended_chunks):
                at = _take_whole_chunks(data, at, body)
            if self._left:
                stop = at + self._left
                body.append(data[at:stop])
                self._left = max(0, stop - len(data))
                if self._left:
                    at = len(data)
                    break
                at = stop
                self._awaits_line_end = True
            if self._awaits_line_end and data.startswith(b"\r\n", at):
                self._awaits_line_end = False
                at += 2
            end = data.find(b"\n", at)
            if end < 0 or end - at > _LINE_BYTES_MAX:
                self._check_open_line(len(data) - at)
                break
            self._take_line(data[at:end].removesuffix(b"\r"))
            at = end + 1
        self._held = data[at:]
        if self.is_over and self._held:
            self.can_follow = False
        return body[0] if len(body) == 1 else b"".join(body)

    def _check_open_line(self, size_bytes: int) -> None:
        if size_bytes > _LINE_BYTES_MAX:
            raise NotHttp("a line between two chunks does not end")

    def _take_line(self, line: bytes) -> None:
        if self._awaits_line_end:
            if line:
                raise NotHttp("a chunk is longer than it said")
            self._awaits_line_end = False
        elif self._has_ended_chunks:
            self.is_over = not line  # trailers say nothing that a model API's client needs
        else:
            size = _CHUNK_SIZE.fullmatch(line)
            if size is None:
                raise NotHttp(f"the size of a chunk is {line[:24]!r}")
            self._left = int(size[1], 16)
            self._has_ended_chunks = self._left == 0


def _take_whole_chunks(data: bytes, at: int, body: list[bytes]) -> int:
    """Take chunks that lie whole in what was read, as nearly all do; return where what has to be looked at begins."""
    while (line := _PLAIN_SIZE.match(data, at)) is not None:
        start = line.end()
        stop = start + int(line[1], 16)
        if stop == start or not data.startswith(b"\r\n", stop):
            break
        body.append(data[start:stop])
        at = stop + 2
    return at


def _status_of(line: str) -> tuple[int, bool]:
    """Return the status, and whether the server speaks HTTP/1.0."""
    match = _STATUS_LINE.fullmatch(line)
    if match is None:
        raise NotHttp(f"it begins with {line[:24]!r}")
    return int(match[2]), match[1] == "0"


def _headers_of(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    name = ""
    for line in lines:
        if line.startswith((" ", "\t")) and name:  # an old way to go on with the header above
            headers[name] += f" {line.strip()}"
            continue
        before, _, after = line.partition(":")
        name = before.lower() if _HEADER_NAME.fullmatch(before) and len(before) < len(line) else ""
        if name:
            value = after.strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _length_of(text: str) -> int:
    """Return the length of a body; a header that came twice must say the same."""
    lengths = {part.strip() for part in text.split(",")}
    length = lengths.pop()
    if lengths or not (length.isascii() and length.isdigit()):
        raise NotHttp(f"the length of its body is {text[:24]!r}")
    return int(length)
