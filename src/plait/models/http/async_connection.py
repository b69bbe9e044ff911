"""Connections of an event loop: one at a time, and those that wait for their next request.

Floor: 2. Owns: asyncio's protocol and transports; never: a deadline (that is the exchange's, in `async_http`).
"""

from __future__ import annotations

import asyncio
import select
import ssl
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import field
from typing import TYPE_CHECKING, Final

from plait.core.values import dataclass
from plait.models.failures import ProxyRefused
from plait.models.http.http1 import ResponseParser, request_head
from plait.models.http.routes import Route, is_address

if TYPE_CHECKING:
    from plait.models.http.socks import SocksHandshake

_READ_BYTES: Final = 65_536
"""Read into a buffer of the connection's own: asyncio would have the system make one of 256 kB for every read."""
_UNREAD_BYTES_MAX: Final = 1_048_576
"""How much of a body is taken from the system before somebody reads it."""
_IDLE_MAX: Final = 1_024
"""How many connections on one route wait for their next request."""
_HASTE_S: Final = 1.0
"""A server that closes a kept connection sooner after an answer than this does not keep any."""
_SECOND_ADDRESS_S: Final = 0.25
"""How long a host's first address is tried before the next one is tried beside it."""


class Connection(asyncio.BufferedProtocol):
    """One connection: what has come and was not read, and the one who waits for more."""

    def __init__(self) -> None:
        self.parser = ResponseParser()
        self.problem: Exception | None = None
        self.is_lost = False
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._pieces: list[bytes] = []
        self._unread_bytes = 0
        self._is_paused = False
        self._waiter: asyncio.Future[None] | None = None
        self._talk: SocksHandshake | None = None

    @property
    def transport(self) -> asyncio.Transport:
        """What bytes go through."""
        assert self._transport is not None
        return self._transport

    @property
    def can_follow(self) -> bool:
        """Whether another request may be made after the one that is over."""
        return self.parser.can_follow and not self.is_lost and self.problem is None

    async def shake_hands(self, talk: SocksHandshake) -> None:
        """Talk to a proxy until it has connected.

        Raises:
            Exception: it will not, or the connection broke.
        """
        self._talk = talk
        while not talk.is_over:
            self.transport.write(talk.outgoing)
            await self.wait()
        self._talk = None

    def expect(self, method: str) -> None:
        """Get ready for the response to a request."""
        self.parser = ResponseParser(method)

    def take(self) -> bytes:
        """Return the bytes of the body that have come.

        What came before a connection broke is given before the break is told.
        """
        if not self._pieces:
            return b""
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._unread_bytes = 0
        if self._is_paused:
            self._is_paused = False
            self.transport.resume_reading()
        return data

    async def wait(self) -> None:
        """Wait until there is something new to see.

        Raises:
            Exception: the connection broke, or what came is not HTTP.
        """
        if self.problem is None and not self._pieces:
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self.problem is not None and not self._pieces:
            raise self.problem

    def wake(self) -> None:
        """Have whoever waits look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def fail(self, problem: Exception) -> None:
        """Tell whoever waits, and close."""
        if self.problem is None:
            self.problem = problem
        self.wake()
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport; TLS in a tunnel gives a second one."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        """Say where bytes are to be put."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes that were put there."""
        data, body = bytes(self._buffer[:nbytes]), b""
        try:
            if self._talk is None:
                body = self.parser.feed(data)
            else:
                self._talk.feed(data)
        except Exception as problem:  # boundary: nothing may escape into the event loop
            self.fail(problem)
            return
        if body:
            self._pieces.append(body)
            self._unread_bytes += len(body)
            if self._unread_bytes > _UNREAD_BYTES_MAX and not self._is_paused:
                self._is_paused = True
                self.transport.pause_reading()
        if body or self._talk is not None or self.parser.head is not None:
            self.wake()

    def eof_received(self) -> None:
        """Take the end of what the server says; the connection is then closed."""
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Take the end of the connection."""
        self.is_lost = True
        self._end(exc)

    def _end(self, exc: Exception | None) -> None:
        if self.problem is None and not self.parser.is_over:
            self.problem = exc
            try:
                self.parser.end()
            except Exception as problem:  # boundary: nothing may escape into the event loop
                self.problem = exc or problem
        self.wake()


@dataclass(slots=True)
class Idle:
    """A loop's connections that wait for their next request."""

    kept: dict[Route, list[tuple[Connection, float]]] = field(default_factory=dict)
    hasty: set[Route] = field(default_factory=set)
    """Routes whose servers promise to keep a connection and close it after an answer (llama.cpp's streams)."""
    keeper: AsyncGenerator[None, None] | None = None

    def take(self, route: Route, keep_alive_s: float) -> Connection | None:
        """Return a kept connection that is not known to be dead."""
        kept = self.kept.get(route)
        while kept:
            connection, since = kept.pop()
            if connection.can_follow and since > time.monotonic() - keep_alive_s and _is_quiet(connection.transport):
                return connection
            if time.monotonic() - since < _HASTE_S:
                self.hasty.add(route)
            connection.transport.abort()
        return None

    def keep(self, route: Route, connection: Connection) -> None:
        """Keep a connection for the next request."""
        kept = self.kept.setdefault(route, [])
        if len(kept) < _IDLE_MAX and route not in self.hasty:
            kept.append((connection, time.monotonic()))
        else:
            connection.transport.abort()

    def close(self) -> None:
        """Close all of them."""
        for kept in self.kept.values():
            for connection, _ in kept:
                connection.transport.abort()
        self.kept.clear()


def _is_quiet(transport: asyncio.Transport) -> bool:
    """Say whether an idle connection has nothing to tell.

    The loop may not have looked since the last answer came to its end, and some servers close just after it.
    """
    sock = transport.get_extra_info("socket")
    if sock is None or not hasattr(select, "poll"):
        return True
    looking = select.poll()
    looking.register(sock.fileno(), select.POLLIN)
    return not looking.poll(0)


async def until_the_loop_ends(
    loop: asyncio.AbstractEventLoop, all_idle: dict[asyncio.AbstractEventLoop, Idle]
) -> AsyncGenerator[None, None]:
    """Close a loop's idle connections when the loop, at its end, shuts its asynchronous generators down."""
    try:
        yield
    finally:
        idle = all_idle.pop(loop, None)
        if idle is not None:
            idle.close()
            await asyncio.sleep(0)  # the transports' own goodbyes


async def open_connection(route: Route, tls: ssl.SSLContext | None, on_tunnel: Callable[[], None]) -> Connection:
    """Connect; `on_tunnel` is called once a proxy that makes a tunnel has made it."""
    loop = asyncio.get_running_loop()
    host, port = route.address
    direct_tls = None if route.is_tunnelled else tls
    delay_s = None if is_address(host) else _SECOND_ADDRESS_S
    _, connection = await loop.create_connection(
        Connection,
        host,
        port,
        ssl=direct_tls,
        server_hostname=route.host if direct_tls is not None else None,
        happy_eyeballs_delay=delay_s,
    )
    if not route.is_tunnelled:
        return connection
    try:
        await _tunnel(connection, route)
        on_tunnel()
        if tls is None:
            return connection
        tunnel = await loop.start_tls(connection.transport, connection, tls, server_hostname=route.host)
    except BaseException:
        connection.transport.abort()
        raise
    assert tunnel is not None
    connection.connection_made(tunnel)
    return connection


async def _tunnel(connection: Connection, route: Route) -> None:
    """Ask a proxy for a connection to the host."""
    if route.is_socks:
        from plait.models.http.socks import SocksHandshake  # few have such a proxy

        await connection.shake_hands(SocksHandshake(route.host, route.port, route.socks_login))
        return
    host = f"[{route.host}]" if ":" in route.host else route.host
    name = f"{host}:{route.port}"
    connection.expect("CONNECT")
    connection.transport.write(request_head("CONNECT", name, name, route.tunnel_headers, None))
    while connection.parser.head is None:
        await connection.wait()
    if connection.parser.head.status != 200:
        raise ProxyRefused(f"status {connection.parser.head.status}")
