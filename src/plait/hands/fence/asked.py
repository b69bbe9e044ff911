"""What a program inside a fence asks the proxy for: read strictly, so that no server behind reads it otherwise.

Floor: 2. Owns: the heads of requests and the first bytes of TLS, as pure functions; never: a socket, or the list.

One host may stand beside others behind one address. So what goes to a host that is allowed says that host's name and no
other: a plain request is written anew and is the only one of its connection, and in a tunnel TLS has to ask for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

TLS: Final = 0x16
"""The first byte of a handshake."""
HELLO_BYTES_MAX: Final = 16 * 1024 + 5
_METHOD: Final = re.compile(r"[A-Z]{1,20}")
_HEADER: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t\x20-\x7e\x80-\xff]*")
_DROPPED: Final = frozenset({"host", "connection", "keep-alive", "te", "upgrade", "trailer", "expect"})
_HOST_NAME: Final = 0


class Unclear(Exception):
    """A request that is none: a status line's number and reason."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request."""

    host: str
    port: str
    is_tunnel: bool
    head: bytes = b""
    """What the server is sent first."""
    body_bytes: int = 0
    """How much follows it; no byte more belongs to it."""
    waits_for_go_ahead: bool = False
    """The body is sent once somebody has said that it is wanted."""


def read_request(head: bytes) -> Asked:
    """Return what a head asks for, without its empty line; raises `Unclear`."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    headers = [_header(line) for line in lines]
    if len(words) != 3 or words[2] not in ("HTTP/1.1", "HTTP/1.0") or not _METHOD.fullmatch(words[0]):
        raise Unclear("400 Bad Request")
    method, target, version = words
    if not target.isascii() or not target.isprintable():
        raise Unclear("400 Bad Request")
    if method == "CONNECT":
        host, _, port = target.rpartition(":")
        return Asked(host, port, True)
    try:
        url = urlsplit(target)
        host, port = url.hostname or "", str(url.port or 80)
    except ValueError:
        raise Unclear("400 Bad Request") from None
    if url.scheme != "http" or url.username is not None:
        raise Unclear("400 Bad Request")
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    kept = [f"{name}:{value}" for name, value in headers if not _is_dropped(name)]
    place = host if port == "80" else f"{host}:{port}"
    sent = [f"{method} {path} {version}", f"Host: {place}", "Connection: close", *kept, "", ""]
    waits = any(name.lower() == "expect" for name, _ in headers)
    return Asked(host, port, False, "\r\n".join(sent).encode("latin-1"), _body_bytes(headers), waits)


def _header(line: str) -> tuple[str, str]:
    if not _HEADER.fullmatch(line):
        raise Unclear("400 Bad Request")
    name, _, value = line.partition(":")
    return name, value


def _is_dropped(name: str) -> bool:
    return name.lower() in _DROPPED or name.lower().startswith("proxy-")


def _body_bytes(headers: list[tuple[str, str]]) -> int:
    lengths = {value.strip() for name, value in headers if name.lower() == "content-length"}
    if any(name.lower() == "transfer-encoding" for name, _ in headers):
        raise Unclear("411 Length Required")
    if len(lengths) > 1 or not all(text.isascii() and text.isdigit() and len(text) < 16 for text in lengths):
        raise Unclear("400 Bad Request")
    return int(next(iter(lengths), "0"))


def hello_bytes(data: bytes) -> int | None:
    """Return how long the record is that begins with these bytes; None while that cannot be told."""
    return 5 + int.from_bytes(data[3:5]) if len(data) >= 5 else None


def server_name(record: bytes) -> str | None:
    """Return the host that a TLS client asks for in its first record: empty for none, None for what cannot be read."""
    try:
        return _server_name(record)
    except (IndexError, UnicodeDecodeError):
        return None


def _server_name(record: bytes) -> str | None:
    hello = record[5:]
    if record[0] != TLS or hello[0] != 1 or int.from_bytes(hello[1:4]) + 4 > len(hello):
        return None  # cut into several records: nobody does so who means well
    at = 4 + 2 + 32
    at += 1 + hello[at]
    at += 2 + int.from_bytes(hello[at : at + 2])
    at += 1 + hello[at]
    if at == len(hello):
        return ""
    end = at + 2 + int.from_bytes(hello[at : at + 2])
    at += 2
    names = []
    while at < end:
        kind, size = int.from_bytes(hello[at : at + 2]), int.from_bytes(hello[at + 2 : at + 4])
        if kind == _HOST_NAME:
            body = hello[at + 4 : at + 4 + size]
            if int.from_bytes(body[:2]) + 2 != len(body) or body[2] or int.from_bytes(body[3:5]) + 5 != len(body):
                return None
            names.append(body[5:].decode("ascii"))
        at += 4 + size
    if at != end or len(names) > 1:
        return None
    return names[0] if names else ""
