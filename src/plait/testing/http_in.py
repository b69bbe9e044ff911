"""Reads HTTP/1.1 requests from a stream, for a server that only has to understand clients.

Floor: testing. Owns: request line, headers, sized and chunked bodies; never: answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from plait.core.values import dataclass

HEAD_BYTES_MAX: Final = 65_536
BODY_BYTES_MAX: Final = 256 << 20
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class BadHttp(Exception):
    """What came is not a request that this server reads; the message says why."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request with its whole body."""

    method: str
    path: str
    """Without the query."""
    headers: Mapping[str, str]
    body: bytes
    query: str = ""
    """Without the question mark."""

    @property
    def keeps_alive(self) -> bool:
        """Whether the client wants to use the connection again."""
        return self.headers.get("connection", "").lower() != "close"


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> HttpRequest | None:
    """Read the next request; None when the client has closed the connection between requests.

    Raises:
        BadHttp: the bytes are no HTTP/1.1 request, or too large. ConnectionError: the connection broke inside one.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as cut:
        if cut.partial:
            raise BadHttp("the connection ended inside the headers of a request") from cut
        return None
    except asyncio.LimitOverrunError as long:
        raise BadHttp(f"the headers are longer than {HEAD_BYTES_MAX} bytes") from long
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, _, rest = first.partition(" ")
    target, _, version = rest.rpartition(" ")
    if not target or not version.startswith("HTTP/1."):
        raise BadHttp(f"{first[:80]!r} is no HTTP/1.1 request line")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(_CONTINUE)
    path, _, query = target.partition("?")
    return HttpRequest(method, path, headers, await _body(reader, headers), query)


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    try:
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return await _chunked(reader)
        size = int(headers.get("content-length", "0"))
        if not 0 <= size <= BODY_BYTES_MAX:
            raise BadHttp(f"a body of {size} bytes is not read here")
        return await reader.readexactly(size)
    except ValueError as wrong:
        raise BadHttp(f"the length of the body is no number: {wrong}") from wrong
    except asyncio.IncompleteReadError as cut:
        raise BadHttp("the connection ended inside the body of a request") from cut


async def _chunked(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := int((await reader.readline()).partition(b";")[0], 16):
        if len(body) + size > BODY_BYTES_MAX:
            raise BadHttp(f"a body of more than {BODY_BYTES_MAX} bytes is not read here")
        body += await reader.readexactly(size)
        await reader.readline()
    while (await reader.readline()).strip():
        pass
    return bytes(body)
