"""Both transports behind one function, so that every case is run against either."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

from plait.core.cancel import Cancel
from plait.models.http.async_http import AsyncHttpTransport
from plait.models.http.sync_http import SyncTransport
from plait.models.transport import HttpRequest, Network, Timeouts

BODY = json.dumps({"model": "any", "stream": True, "messages": [{"role": "user", "content": "hi"}]}).encode()


@dataclass(frozen=True)
class Got:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes


Fetch = Callable[..., list[Got]]


def request_to(base_url: str, *, body: bytes = BODY, headers: dict[str, str] | None = None) -> HttpRequest:
    """Make a request in two parts to the completions of `base_url`."""
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", **(headers or {})}
    return HttpRequest("POST", f"{base_url}/chat/completions", headers, (body[:20], body[20:]))


def fetch_sync(
    requests: Sequence[HttpRequest],
    limits: Timeouts | None = None,
    network: Network | None = None,
    cancel: Cancel | None = None,
) -> list[Got]:
    """Make the requests one after the other over one transport."""
    transport = SyncTransport(network)
    try:
        got = []
        for request in requests:
            stream = transport.open(request, limits or Timeouts(), cancel)
            try:
                got.append(Got(stream.status, dict(stream.headers), b"".join(stream)))
            finally:
                stream.close()
        return got
    finally:
        transport.close()


def fetch_async(
    requests: Sequence[HttpRequest],
    limits: Timeouts | None = None,
    network: Network | None = None,
    cancel: Cancel | None = None,
) -> list[Got]:
    """The same in an event loop."""

    async def run() -> list[Got]:
        transport = AsyncHttpTransport(network)
        got = []
        for request in requests:
            stream = await transport.open(request, limits or Timeouts(), cancel)
            try:
                got.append(Got(stream.status, dict(stream.headers), b"".join([piece async for piece in stream])))
            finally:
                await stream.aclose()
        return got

    return asyncio.run(run())


FETCHERS = {"sync": fetch_sync, "async": fetch_async}


_GOODBYE_S = 5.0
"""For a client to close its connections."""


@contextmanager
def raw_server(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """Hand every connection to `serve`, one after the other; its socket errors are the client's business."""
    listener = socket.create_server(("127.0.0.1", 0))
    served: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            served[:] = [connection]
            with closing(connection), suppress(OSError):
                serve(connection)

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://localhost:{listener.getsockname()[1]}/v1"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(_GOODBYE_S)
        # asyncio leaves a connection to the collector whose time was over in the moment it came about.
        for connection in served if thread.is_alive() else ():
            connection.shutdown(socket.SHUT_RDWR)
        thread.join()
