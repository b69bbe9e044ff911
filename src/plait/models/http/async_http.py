"""The transport for event loops: asyncio's own connections, read as bytes come.

Floor: 2. Owns: connections of a loop and how an exchange on them is timed and stopped; never: what the bytes mean.

A request makes no task, a read is one await, and an exchange has one timer, however often its deadline moves: it
looks again when it rings.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from math import inf

from plait.core.cancel import Cancel
from plait.core.exchange import ProviderFailed
from plait.models.failures import At, ProxyRefused, Via, failure_of, timeout_failure, via_of
from plait.models.http.async_connection import Connection, Idle, open_connection, until_the_loop_ends
from plait.models.http.http1 import BrokenOff, NotHttp, RequestHeads
from plait.models.http.pace import Pace
from plait.models.http.routes import Destination, Route, destination_of, tls_context
from plait.models.http.unpack import unpacker
from plait.models.transport import Aborted, HttpRequest, Network, Timeouts


class AsyncHttpTransport:
    """Connections for event loops; see `plait.models.transport.AsyncTransport`."""

    def __init__(self, network: Network | None = None) -> None:
        self._network = network or Network()
        self._idle: dict[asyncio.AbstractEventLoop, Idle] = {}
        self._destinations: dict[str, Destination] = {}
        self._heads = RequestHeads()
        self._tls: ssl.SSLContext | None = None

    async def open(self, request: HttpRequest, limits: Timeouts, cancel: Cancel | None = None) -> AsyncHttpStream:
        """Send a request and wait for the headers of its answer, whatever their status.

        Cancel: as any await; `cancel`, when given, stops it from any thread.

        Raises:
            ProviderFailed: no answer came. Aborted: `cancel` was given. ConfigError: the URL cannot be used.
        """
        to = self._destination(request.url)
        exchange = _Exchange(request.url, Pace(limits), cancel)
        idle = await self._idle_here()
        kept: Connection | None = None
        try:
            kept = idle.take(to.route, self._network.keep_alive_s)
            connection = kept or await self._connect(to.route, exchange)
            connection.expect(request.method)
            exchange.begin(connection)
            self._ask(request, to, exchange, connection)
            while connection.parser.head is None:
                await exchange.wait()
            return AsyncHttpStream(connection, exchange, lambda: idle.keep(to.route, connection))
        except BaseException as error:
            if kept is not None and getattr(error, "detail", "") == "closed":
                idle.hasty.add(to.route)
            exchange.close()
            raise

    async def aclose(self) -> None:
        """Close the idle connections of the running loop."""
        idle = self._idle.get(asyncio.get_running_loop())
        if idle is not None and idle.keeper is not None:
            await idle.keeper.aclose()

    def _ask(self, request: HttpRequest, to: Destination, exchange: _Exchange, connection: Connection) -> None:
        """Send the request."""
        size_bytes = request.size_bytes if request.parts else None
        try:
            head = self._heads.head(request.method, to.target, to.host, {**request.headers, **to.headers}, size_bytes)
        except ValueError as error:
            raise exchange.explain(error) from error
        if to.route.is_tls:
            connection.transport.write(b"".join((head, *request.parts)))  # every write is a record of its own
        else:
            connection.transport.writelines((head, *request.parts))

    def _destination(self, url: str) -> Destination:
        known = self._destinations.get(url)
        if known is None:
            known = self._destinations[url] = destination_of(url, self._network)
        return known

    async def _idle_here(self) -> Idle:
        loop = asyncio.get_running_loop()
        idle = self._idle.get(loop)
        if idle is None:
            idle = self._idle[loop] = Idle()
            idle.keeper = until_the_loop_ends(loop, self._idle)
            await anext(idle.keeper)
        return idle

    async def _connect(self, route: Route, exchange: _Exchange) -> Connection:
        """Connect in a task of its own, because nothing else can be stopped there."""
        exchange.via = via_of(route)
        tls = self._tls_context() if route.is_tls else None
        connecting = asyncio.ensure_future(open_connection(route, tls, exchange.pass_proxy))
        exchange.watch(connecting.cancel)
        try:
            connection = await connecting
            exchange.pass_proxy()
            return connection
        except asyncio.CancelledError:
            if not exchange.is_stopped:
                raise
            raise exchange.explain(None) from None
        except (OSError, ProxyRefused, BrokenOff, NotHttp, ValueError) as error:
            raise exchange.explain(error) from error

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = tls_context(self._network)
        return self._tls


class AsyncHttpStream:
    """An answer whose headers have come; see `plait.models.transport.AsyncStream`."""

    def __init__(self, connection: Connection, exchange: _Exchange, keep: Callable[[], None]) -> None:
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
                # One read may unpack to a thousand times its size: the loop goes on, and can stop it, in between.
                await asyncio.sleep(0)
                if self._exchange.is_stopped:
                    raise self._exchange.explain(None)
                return piece
            packed = await self._read()
            if not packed:
                raise StopAsyncIteration
            self._unpacked = self._unpack(packed)

    async def finish(self) -> None:
        """Wait a moment for the end of the body, so that the connection can be used again."""
        if self._is_closed:
            return
        if self._connection.parser.is_over:
            self._connection.take()
            self._give_back()
            return
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
        if not is_draining:
            exchange.pace.look_again()
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


class _Exchange:
    """One request and its answer: the deadline, and how a wait is stopped when it passes or somebody says so."""

    def __init__(self, url: str, pace: Pace, cancel: Cancel | None) -> None:
        self.url = url
        self.pace = pace
        self.is_aborted = False
        self.via: Via | None = None
        """A proxy that is still to be passed."""
        self._is_late = False
        self._is_waiting = False
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
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

    def pass_proxy(self) -> None:
        """From now on what goes wrong is not the proxy's."""
        self.via = None

    def begin(self, connection: Connection) -> None:
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
        self._is_waiting = True
        if self._timer is None:
            self._set_timer()
        try:
            await self._connection.wait()
        except Exception as problem:  # boundary: whatever broke a connection is told by its failure
            raise self.explain(problem) from problem
        finally:
            self._is_waiting = False
        if self.is_stopped:
            raise self.explain(None)

    def abort(self) -> None:
        """Stop now; any thread, any number of times."""
        self.is_aborted = True
        with suppress(RuntimeError):  # the loop is closed, and everything in it
            self._loop.call_soon_threadsafe(self._interrupt)

    def hurry(self) -> None:
        """Nothing more is wanted but the end, and that soon."""
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
            return timeout_failure(self.pace, self.url, self._at, self.via)
        assert error is not None
        return failure_of(error, self.url, self._at, self.via)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        until = self.pace.until
        self._timer = None if until == inf else self._loop.call_later(max(0, until - time.monotonic()), self._ring)

    def _ring(self) -> None:
        self._timer = None
        if time.monotonic() < self.pace.until:
            self._set_timer()
        elif self._is_waiting or self.pace.phase != "idle":
            self._is_late = True
            self._stop()

    def _interrupt(self) -> None:
        self._stop()


def _nothing() -> None:
    """Stop or undo nothing."""
