"""The transport for threads: urllib3's connections, read as bytes come, stopped from any thread.

Floor: 2. Owns: sockets of blocking requests and the few connections kept for the next; never: what the bytes mean.

Every socket knows the deadline of the exchange it serves, so that a server that drips its headers is as late as one
that says nothing. Stopping shuts the socket down, which wakes whatever waits on it.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

from urllib3.connection import HTTPConnection, HTTPSConnection

from plait.core.cancel import Cancel
from plait.core.exchange import ProviderFailed
from plait.models.failures import At, failure_of, timeout_failure
from plait.models.pace import Pace
from plait.models.routes import Route, route_of, tls_context
from plait.models.transport import Aborted, HttpRequest, Network, Timeouts
from plait.models.unpack import unpacker

_READ_BYTES: Final = 65_536
_IDLE_MAX: Final = 32
"""How many connections to one origin wait for their next request."""


class SyncTransport:
    """Connections for threads; see `plait.models.transport.Transport`."""

    def __init__(self, network: Network | None = None) -> None:
        self._network = network or Network()
        self._lock = threading.Lock()
        self._idle: dict[Route, list[tuple[_Connection, float]]] = {}
        self._tls: ssl.SSLContext | None = None

    def open(self, request: HttpRequest, limits: Timeouts, cancel: Cancel | None = None) -> SyncStream:
        """Send a request and wait for the headers of its answer, whatever their status.

        Raises:
            ProviderFailed: no answer came. Aborted: `cancel` was given. ConfigError: the URL cannot be used.
        """
        route = route_of(request.url, self._network)
        exchange = _Exchange(request.url, Pace(limits), cancel)
        try:
            with exchange.explained("connect"):
                connection = self._connected(route, exchange)
            with exchange.explained("headers"):
                exchange.pace.wait_for_answer()
                response = _ask(connection, route, request, exchange)
            return SyncStream(response, exchange, lambda: self._keep(route, connection))
        except BaseException:
            exchange.close()
            raise

    def close(self) -> None:
        """Close idle connections; streams that are open live on."""
        with self._lock:
            waiting = [connection for kept in self._idle.values() for connection, _ in kept]
            self._idle.clear()
        for connection in waiting:
            connection.close()

    def _connected(self, route: Route, exchange: _Exchange) -> _Connection:
        connection = self._take(route) or self._make(route)
        exchange.connection = connection
        if connection.sock is None:
            connection.exchange = exchange
            connection.connect()
            connection.exchange = None
        assert isinstance(connection.sock, (_PacedSocket, _PacedTlsSocket))
        exchange.hold(connection.sock)
        connection.sock.pace = exchange.pace
        return connection

    def _take(self, route: Route) -> _Connection | None:
        """Return a kept connection that is not known to be dead."""
        oldest = time.monotonic() - self._network.keep_alive_s
        while True:
            with self._lock:
                kept = self._idle.get(route)
                if not kept:
                    return None
                connection, since = kept.pop()
            if since > oldest and connection.is_connected:
                return connection
            connection.close()

    def _keep(self, route: Route, connection: _Connection) -> None:
        with self._lock:
            kept = self._idle.setdefault(route, [])
            if len(kept) < _IDLE_MAX:
                kept.append((connection, time.monotonic()))
                return
        connection.close()

    def _make(self, route: Route) -> _Connection:
        host, port = (route.proxy_host, route.proxy_port) if route.proxy_host else (route.host, route.port)
        if route.scheme == "http":
            return _PlainConnection(host, port)
        connection = _TlsConnection(host, port, ssl_context=self._tls_context())
        if route.is_tunnelled:
            headers = {"Proxy-Authorization": route.proxy_auth} if route.proxy_auth else {}
            connection.set_tunnel(route.host, route.port, headers)
        return connection

    def _tls_context(self) -> ssl.SSLContext:
        with self._lock:
            if self._tls is None:
                self._tls = tls_context(self._network)
                self._tls.sslsocket_class = _PacedTlsSocket
            return self._tls


class SyncStream:
    """An answer whose headers have come; see `plait.models.transport.Stream`."""

    def __init__(self, response: http.client.HTTPResponse, exchange: _Exchange, keep: Callable[[], None]) -> None:
        self.status: int = response.status
        self.headers: Mapping[str, str] = _headers_of(response)
        self._response = response
        self._exchange = exchange
        self._keep = keep
        self._unpack = unpacker(self.headers.get("content-encoding", ""), exchange.url)
        self._is_over = False

    def __iter__(self) -> Iterator[bytes]:
        while not self._is_over:
            data = self._read()
            if not data:
                return
            if self._unpack is None:
                yield data
            else:
                yield from self._unpack(data)

    def finish(self) -> None:
        """Wait a moment for the end of the body, so that the connection can be used again."""
        if self._is_over:
            return
        self._exchange.pace.drain()
        with suppress(ProviderFailed, Aborted):
            while self._read(is_draining=True):
                pass
        self.close()

    def abort(self) -> None:
        """Stop now; any thread, any number of times."""
        self._exchange.abort()

    def close(self) -> None:
        """Let go of the connection; may be called twice."""
        self._is_over = True
        self._response.close()
        self._exchange.close()

    def _read(self, *, is_draining: bool = False) -> bytes:
        with self._exchange.explained("stream"):
            data = self._response.read1(_READ_BYTES)
            if not data and self._response.length:
                raise http.client.IncompleteRead(b"", self._response.length)
            if self._exchange.is_aborted:
                raise Aborted
        if not data:
            self._give_back()
        elif not is_draining:
            self._exchange.pace.read()
        return data

    def _give_back(self) -> None:
        self._is_over = True
        connection = self._exchange.connection
        can_be_used_again = connection is not None and connection.sock is not None and not self._response.will_close
        if can_be_used_again and self._exchange.let_go():
            self._exchange.connection = None
            self._keep()
        else:
            self.close()


class _Exchange:
    """One request and its answer: the deadline, the socket, and how both are stopped."""

    def __init__(self, url: str, pace: Pace, cancel: Cancel | None) -> None:
        self.url = url
        self.pace = pace
        self.connection: _Connection | None = None
        self.is_aborted = False
        self._lock = threading.RLock()  # a signal handler may abort while this thread holds it
        self._sock: socket.socket | None = None
        self._spare: socket.socket | None = None
        self._undo = cancel.on_cancel(self.abort) if cancel is not None else _nothing

    def explained(self, at: At) -> _Explained:
        """Turn what goes wrong inside into `ProviderFailed` or `Aborted`."""
        return _Explained(self, at)

    def hold(self, sock: socket.socket) -> None:
        """Make `sock` the one that `abort` shuts down."""
        with self._lock:
            self._sock = sock
            self._drop_spare()
            if self.is_aborted:
                raise Aborted

    def hold_through_handshake(self, sock: socket.socket) -> None:
        """The same for a socket that is about to be wrapped in TLS, which takes its descriptor away."""
        self._spare = sock.dup()
        self._sock = self._spare

    def abort(self) -> None:
        """Stop now; any thread, any number of times."""
        with self._lock:
            self.is_aborted = True
            if self._sock is not None:
                # Not the method of a TLS socket: that one drops the TLS layer under the thread that reads.
                with suppress(OSError):
                    socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def let_go(self) -> bool:
        """End the exchange and leave the connection whole; False when it was stopped before."""
        self._undo()
        with self._lock:
            self._sock = None
            self._drop_spare()
            return not self.is_aborted

    def close(self) -> None:
        """End the exchange and its connection."""
        self.let_go()
        if self.connection is not None:
            self.connection.close()

    def _drop_spare(self) -> None:
        if self._spare is not None:
            self._spare.close()
            self._spare = None


class _Explained:
    """The context of `_Exchange.explained`; a class, because it is entered once a read."""

    __slots__ = ("_at", "_exchange")

    def __init__(self, exchange: _Exchange, at: At) -> None:
        self._exchange = exchange
        self._at: At = at

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, (Aborted, ProviderFailed)):
            return
        if not isinstance(error, (OSError, http.client.HTTPException, ValueError)):
            return
        exchange = self._exchange
        if exchange.is_aborted:
            raise Aborted from None
        if isinstance(error, TimeoutError):
            raise timeout_failure(exchange.pace, exchange.url, self._at) from error
        raise failure_of(error, exchange.url, self._at) from error


class _PacedSocket(socket.socket):
    """A socket whose reads end with its exchange's deadline."""

    pace: Pace | None = None

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        if self.pace is not None:
            self.settimeout(self.pace.left_s)
        return super().recv_into(buffer, nbytes, flags)


class _PacedTlsSocket(ssl.SSLSocket):
    """The same over TLS."""

    pace: Pace | None = None

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        if self.pace is not None:
            self.settimeout(self.pace.left_s)
        return super().recv_into(buffer, nbytes, flags)


class _Response(http.client.HTTPResponse):
    """Reads over informational responses, of which the standard library knows only 100."""

    def begin(self) -> None:
        super().begin()
        while 100 < self.status < 200 and self.status != http.HTTPStatus.SWITCHING_PROTOCOLS:
            self.headers = self.msg = None  # type: ignore[assignment]
            super().begin()


class _Dials(HTTPConnection):
    """Opens its sockets within an exchange, so that its deadline and its abort hold there too."""

    response_class = _Response
    exchange: _Exchange | None = None

    def _new_conn(self) -> socket.socket:
        assert self.exchange is not None
        return _dial(self.host, self.port, self.exchange, is_tls=isinstance(self, HTTPSConnection))


class _PlainConnection(_Dials):
    pass


class _TlsConnection(_Dials, HTTPSConnection):
    pass


_Connection = _PlainConnection | _TlsConnection


def _dial(host: str, port: int, exchange: _Exchange, *, is_tls: bool) -> socket.socket:
    """Connect to the first address that answers; one that is dead costs only its share of the time."""
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    problem: OSError | None = None
    for number, (family, kind, protocol, _, address) in enumerate(addresses):
        sock = _PacedSocket(family, kind, protocol)
        try:
            exchange.hold(sock)
            left_s = exchange.pace.left_s
            sock.settimeout(left_s and left_s / (len(addresses) - number))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.settimeout(exchange.pace.left_s)
            if is_tls:
                exchange.hold_through_handshake(sock)
            return sock
        except OSError as error:
            sock.close()
            problem = error
        except BaseException:
            sock.close()
            raise
    raise problem or OSError(f"{host} has no address")


def _ask(connection: _Connection, route: Route, request: HttpRequest, exchange: _Exchange) -> http.client.HTTPResponse:
    """Send the request and read the head of its answer."""
    headers = dict(request.headers)
    if request.parts:
        headers["Content-Length"] = str(request.size_bytes)
    target = _target(request.url, route, headers)
    connection.timeout = exchange.pace.left_s
    try:
        connection.request(
            request.method, target, iter(request.parts) if request.parts else None, headers, preload_content=False
        )
    except (BrokenPipeError, ConnectionResetError):
        pass  # a server that refuses a request early says why before it closes
    # Not urllib3's own response: its layers cost more than all of the stream's decoding.
    return http.client.HTTPConnection.getresponse(connection)


def _target(url: str, route: Route, headers: dict[str, str]) -> str:
    """Return what the request line asks for; a proxy without a tunnel wants the whole URL."""
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not route.proxy_host or route.is_tunnelled:
        return path
    if route.proxy_auth:
        headers["Proxy-Authorization"] = route.proxy_auth
    headers["Host"] = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{headers['Host']}{path}"


def _headers_of(response: http.client.HTTPResponse) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in response.getheaders():
        name = name.lower()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _nothing() -> None:
    """Undo nothing."""
