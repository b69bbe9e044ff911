"""A server at an address: streamable HTTP, and the older way over server-sent events.

Floor: 3. Owns: headers, and how much one answer may hold; never: the protocol (the `mcp` package has both ways).

The package bounds what comes as events and reads any other body whole. Here such a body has the same bound, and comes
unpacked: what a few packed bytes become is not known before they are in memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from plait.tools.mcp.config import ServerConfig
from plait.tools.mcp.sieve import Incoming, Sieve, sifted

BODY_BYTES_MAX: Final = 16 << 20


@asynccontextmanager
async def http_transport(
    config: ServerConfig, sieve: Sieve, on_end: Callable[[], None]
) -> AsyncIterator[tuple[Incoming, Any]]:
    """Yield the streams of a connection; leaving the block ends it, and the session at the server."""
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client

    def client(headers: Any = None, timeout: Any = None, auth: Any = None) -> Any:
        return _bounded_client({**dict(headers or {}), **config.headers}, timeout, auth)

    if config.kind == "sse":
        events = sse_client(config.url, timeout=config.timeout_s, httpx_client_factory=client)
        async with events as (read, write):
            yield Incoming(sifted(read, sieve), on_end), write
        return
    async with (
        client() as http,
        streamable_http_client(config.url, http_client=http, max_sse_event_size=BODY_BYTES_MAX) as (read, write),
    ):
        yield Incoming(sifted(read, sieve), on_end), write


def _bounded_client(headers: dict[str, str], timeout: Any, auth: Any) -> Any:
    import httpx2
    from mcp.shared._httpx_utils import create_mcp_http_client

    class Bounded(httpx2.AsyncByteStream):
        """A body, up to the bound."""

        def __init__(self, stream: Any, encoding: str) -> None:
            self._stream = stream
            self._encoding = encoding

        async def __aiter__(self) -> AsyncIterator[bytes]:
            if self._encoding not in ("", "identity"):
                raise httpx2.StreamError(f"the answer is packed ({self._encoding[:40]}), which was not asked for")
            size = 0
            async for data in self._stream:
                size += len(data)
                if size > BODY_BYTES_MAX:
                    raise httpx2.StreamError(f"the answer has more than {BODY_BYTES_MAX:,} bytes")
                yield data

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def bound(response: Any) -> None:
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = Bounded(response.stream, response.headers.get("content-encoding", "").strip().lower())

    http = create_mcp_http_client({"Accept-Encoding": "identity", **headers}, timeout, auth)
    http.event_hooks = {"request": [], "response": [bound]}
    return http
