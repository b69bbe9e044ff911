"""The transport for event loops: asyncio's own connections, read as bytes come.

Floor: 2. Owns: connections of a loop and how an exchange on them is timed and stopped; never: what the bytes mean.

A request makes no task, a read is one await, and an exchange has one timer, however often its deadline moves: it
looks again when it rings.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Final

from plait.core.cancel import Cancel
from plait.core.exchange import ProviderFailed
from plait.models.failures import At, ProxyRefused, failure_of, timeout_failure
from plait.models.http1 import ResponseParser, request_head
from plait.models.pace import Pace
from plait.models.routes import Destination, Route, destination_of, is_address, tls_context
from plait.models.transport import Aborted, HttpRequest, Network, Timeouts
from plait.models.unpack import unpacker

_UNREAD_BYTES_MAX: Final = 1_048_576
"""How much of a body is taken from the system before somebody reads it."""
_IDLE_MAX: Final = 1_024
"""How many connections on one route wait for their next request."""
_SECOND_ADDRESS_S: Final = 0.25
"""How long a host's first address is tried before the next one is tried beside it."""


class AsyncHttpTransport:
    """Connections for event loops; see `plait.models.transport.AsyncTransport`."""

    def __init__(self, network: Network | None = None) -> None:
        self._network = network or Network()
        self._idle: dict[asyncio.AbstractEventLoop, _Idle] = {}
        self._destinations: dict[str, Destination] = {}
        self._tls: ssl.SSLContext | None = None

    async def open(self, request: HttpRequest, limits: Timeouts, cancel: Cancel | None = None) -> AsyncHttpStream:
        """Send a request and wait for the headers of its answer, whatever their status.

        Cancel: as any await; `cancel`, when given, stops it from any thread.

        Raises:
            ProviderFailed: no answer came. Aborted: `cancel` was given. ConfigError: the URL cannot be used.
        """
        to = self._destination(request.url)
        exchange = _Exchange(request.url, Pace(limits), cancel)
        try:
            idle = await self._idle_here()
            connection = idle.take(to.route, self._network.keep_alive_s) or await self._connect(to.route, exchange)
            connection.expect(request.method)
            exchange.begin(connection)
            _ask(request, to, exchange, connection)
            while connection.parser.head is None:
                await exchange.wait()
            return AsyncHttpStream(connection, exchange, lambda: idle.keep(to.route, connection))
        except BaseException:
            exchange.close()
            raise

    async def aclose(self) -> None:
        """Close the idle connections of the running loop."""
        idle = self._idle.get(asyncio.get_running_loop())
        if idle is not None and idle.keeper is not None:
            await idle.keeper.aclose()

    def _destination(self, url: str) -> Destination:
        known = self._destinations.get(url)
        if known is None:
            known = self._destinations[url] = destination_of(url, self._network)
        return known

    async def _idle_here(self) -> _Idle:
        loop = asyncio.get_running_loop()
        idle = self._idle.get(loop)
        if idle is None:
            idle = self._idle[loop] = _Idle()
            idle.keeper = _until_the_loop_ends(loop, self._idle)
            await anext(idle.keeper)
        return idle

    async def _connect(self, route: Route, exchange: _Exchange) -> _Connection:
        """Connect in a task of its own, because nothing else can be stopped there."""
        connecting = asyncio.ensure_future(_open_connection(route, self._tls_context() if route.is_tls else None))
        exchange.watch(connecting.cancel)
        try:
            return await connecting
        except asyncio.CancelledError:
            if not exchange.is_stopped:
                raise
            raise exchange.explain(None) from None
        except (OSError, ProxyRefused, ValueError) as error:
            raise exchange.explain(error) from error

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = tls_context(self._network)
        return self._tls


class AsyncHttpStream:
    """An answer whose headers have come; see `plait.models.transport.AsyncStream`."""

    def __init__(self, connection: _Connection, exchange: _Exchange, keep: Callable[[], None]) -> None:
        head = connection.parser.head
        assert head is not None
        self.status: int = head.status
        self.headers: Mapping[str, str] = head.headers
        self._connection = connection
        self._exchange = exchange
        self._keep = keep
        self._unpack = unpacker(head.headers.get("content-encoding", ""), exchange.url)
        self._unpacked: Iterator[bytes] = iter(())
        self._is_closed = False

    def __aiter__(self) -> AsyncHttpStream:
        return self

    async def __anext__(self) -> bytes:
        if self._unpack is None:
            data = await self._read()
            if data:
                return data
            raise StopAsyncIteration
        while True:
            for piece in self._unpacked:
                return piece
            packed = await self._read()
            if not packed:
                raise StopAsyncIteration
            self._unpacked = self._unpack(packed)

    async def finish(self) -> None:
        """Wait a moment for the end of the body, so that the connection can be used again."""
        self._exchange.hurry()
        with suppress(ProviderFailed, Aborted):
            while await self._read(is_draining=True):
                pass
        await self.aclose()

    def abort(self) -> None:
        """Stop now; any thread, any number of times."""
        self._exchange.abort()

    async def aclose(self) -> None:
        """Let go of the connection; may be called twice."""
        if not self._is_closed:
            self._is_closed = True
            self._exchange.close()

    async def _read(self, *, is_draining: bool = False) -> bytes:
        """Return what has come of the body, waiting for it; nothing at its end."""
        if self._is_closed:
            return b""
        connection, exchange = self._connection, self._exchange
        while not (data := connection.take()):
            if connection.parser.is_over:
                self._give_back()
                return b""
            await exchange.wait()
        if exchange.is_aborted:
            raise Aborted
        if not is_draining:
            exchange.pace.read()
        return data

    def _give_back(self) -> None:
        self._is_closed = True
        if self._connection.can_follow and not self._exchange.is_stopped:
            self._exchange.let_go()
            self._keep()
        else:
            self._exchange.close()


class _Connection(asyncio.Protocol):
    """One connection: what has come and was not read, and the one who waits for more."""

    def __init__(self) -> None:
        self.parser = ResponseParser()
        self.problem: Exception | None = None
        self.is_lost = False
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._pieces: list[bytes] = []
        self._unread_bytes = 0
        self._is_paused = False
        self._waiter: asyncio.Future[None] | None = None

    @property
    def transport(self) -> asyncio.Transport:
        """What bytes go through."""
        assert self._transport is not None
        return self._transport

    @property
    def can_follow(self) -> bool:
        """Whether another request may be made after the one that is over."""
        return self.parser.can_follow and not self.is_lost and self.problem is None

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

    def data_received(self, data: bytes) -> None:
        """Take bytes."""
        try:
            body = self.parser.feed(data)
        except Exception as problem:  # boundary: nothing may escape into the event loop
            self.fail(problem)
            return
        if body:
            self._pieces.append(body)
            self._unread_bytes += len(body)
            if self._unread_bytes > _UNREAD_BYTES_MAX and not self._is_paused:
                self._is_paused = True
                self.transport.pause_reading()
        if body or self.parser.head is not None:
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


class _Exchange:
    """One request and its answer: the deadline, and how a wait is stopped when it passes or somebody says so."""

    def __init__(self, url: str, pace: Pace, cancel: Cancel | None) -> None:
        self.url = url
        self.pace = pace
        self.is_aborted = False
        self._is_late = False
        self._loop = asyncio.get_running_loop()
        self._connection: _Connection | None = None
        self._stop: Callable[[], object] = _nothing
        self._timer: asyncio.TimerHandle | None = None
        self._undo = cancel.on_cancel(self.abort) if cancel is not None else _nothing
        if self.is_aborted:
            raise Aborted

    @property
    def is_stopped(self) -> bool:
        """True when the exchange was ended by us."""
        return self.is_aborted or self._is_late

    @property
    def _at(self) -> At:
        """How far it has got."""
        if self._connection is None:
            return "connect"
        return "headers" if self._connection.parser.head is None else "stream"

    def watch(self, stop: Callable[[], object]) -> None:
        """From now on `stop` is called when the deadline passes or the exchange is aborted."""
        self._stop = stop
        self._set_timer()

    def begin(self, connection: _Connection) -> None:
        """Send the request over `connection`, and wait for its answer there."""
        self._connection = connection
        self.pace.wait_for_answer()
        self.watch(connection.wake)

    async def wait(self) -> None:
        """Wait until there is something new.

        Raises:
            ProviderFailed: it will not come. Aborted: nobody wants it any more.
        """
        assert self._connection is not None
        try:
            await self._connection.wait()
        except Exception as problem:  # boundary: whatever broke a connection is told by its failure
            raise self.explain(problem) from problem
        if self.is_stopped:
            raise self.explain(None)

    def abort(self) -> None:
        """Stop now; any thread, any number of times."""
        self.is_aborted = True
        with suppress(RuntimeError):  # the loop is closed, and everything in it
            self._loop.call_soon_threadsafe(self._interrupt)

    def hurry(self) -> None:
        """Nothing more is wanted but the end, and that soon."""
        if self._connection is not None and not self._connection.parser.is_over:
            self.pace.drain()
            self._set_timer()

    def let_go(self) -> None:
        """End the exchange and leave the connection whole."""
        self._undo()
        self._stop = _nothing
        self._connection = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """End the exchange and its connection."""
        connection = self._connection
        self.let_go()
        if connection is not None:
            connection.transport.abort()

    def explain(self, error: Exception | None) -> ProviderFailed | Aborted:
        """Say why a wait ended without what it waited for."""
        if self.is_aborted or (error is None and not self._is_late):
            return Aborted()
        if self._is_late:
            return timeout_failure(self.pace, self.url, self._at)
        assert error is not None
        return failure_of(error, self.url, self._at)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        until = self.pace.until
        self._timer = None if until == inf else self._loop.call_later(max(0, until - time.monotonic()), self._ring)

    def _ring(self) -> None:
        self._timer = None
        if time.monotonic() < self.pace.until:
            self._set_timer()
        else:
            self._is_late = True
            self._stop()

    def _interrupt(self) -> None:
        self._stop()


@dataclass(slots=True)
class _Idle:
    """A loop's connections that wait for their next request."""

    kept: dict[Route, list[tuple[_Connection, float]]] = field(default_factory=dict)
    keeper: AsyncGenerator[None, None] | None = None

    def take(self, route: Route, keep_alive_s: float) -> _Connection | None:
        """Return a kept connection that is not known to be dead."""
        kept = self.kept.get(route)
        while kept:
            connection, since = kept.pop()
            if connection.can_follow and since > time.monotonic() - keep_alive_s:
                return connection
            connection.transport.abort()
        return None

    def keep(self, route: Route, connection: _Connection) -> None:
        """Keep a connection for the next request."""
        kept = self.kept.setdefault(route, [])
        if len(kept) < _IDLE_MAX:
            kept.append((connection, time.monotonic()))
        else:
            connection.transport.abort()

    def close(self) -> None:
        """Close all of them."""
        for kept in self.kept.values():
            for connection, _ in kept:
                connection.transport.abort()
        self.kept.clear()


async def _until_the_loop_ends(
    loop: asyncio.AbstractEventLoop, all_idle: dict[asyncio.AbstractEventLoop, _Idle]
) -> AsyncGenerator[None, None]:
    """Close a loop's idle connections when the loop, at its end, shuts its asynchronous generators down."""
    try:
        yield
    finally:
        idle = all_idle.pop(loop, None)
        if idle is not None:
            idle.close()
            await asyncio.sleep(0)  # the transports' own goodbyes


async def _open_connection(route: Route, tls: ssl.SSLContext | None) -> _Connection:
    loop = asyncio.get_running_loop()
    host, port = route.address
    direct_tls = None if route.is_tunnelled else tls
    delay_s = None if is_address(host) else _SECOND_ADDRESS_S
    _, connection = await loop.create_connection(
        _Connection,
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
        assert tls is not None
        tunnel = await loop.start_tls(connection.transport, connection, tls, server_hostname=route.host)
    except BaseException:
        connection.transport.abort()
        raise
    assert tunnel is not None
    connection.connection_made(tunnel)
    return connection


async def _tunnel(connection: _Connection, route: Route) -> None:
    """Ask a proxy for a connection to the host."""
    host = f"[{route.host}]" if ":" in route.host else route.host
    name = f"{host}:{route.port}"
    connection.expect("CONNECT")
    connection.transport.write(request_head("CONNECT", name, name, route.tunnel_headers, None))
    while connection.parser.head is None:
        await connection.wait()
    if connection.parser.head.status != 200:
        raise ProxyRefused(f"status {connection.parser.head.status}")


def _ask(request: HttpRequest, to: Destination, exchange: _Exchange, connection: _Connection) -> None:
    """Send the request."""
    size_bytes = request.size_bytes if request.parts else None
    try:
        head = request_head(request.method, to.target, to.host, {**request.headers, **to.headers}, size_bytes)
    except ValueError as error:
        raise exchange.explain(error) from error
    if to.route.is_tls:
        connection.transport.write(b"".join((head, *request.parts)))  # every write is a record of its own
    else:
        connection.transport.writelines((head, *request.parts))


def _nothing() -> None:
    """Stop or undo nothing."""
