"""The transport for threads: plain sockets, read as bytes come, stopped from any thread.

Floor: 2. Owns: sockets of blocking requests and the few connections kept for the next; never: what the bytes mean.

Every wait ends with the deadline of its exchange, so that a server that drips its headers is as late as one that
says nothing. Stopping shuts the socket down, which wakes whatever waits on it.
"""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from plait.core.cancel import Cancel
from plait.core.exchange import ProviderFailed
from plait.models.failures import At, ProxyRefused, Via, failure_of, timeout_failure, via_of
from plait.models.http.http1 import BrokenOff, NotHttp, RequestHeads, ResponseParser, request_head
from plait.models.http.pace import Pace
from plait.models.http.routes import Destination, Route, destination_of, tls_context
from plait.models.http.unpack import unpacker
from plait.models.transport import Aborted, HttpRequest, Network, Timeouts

_READ_BYTES: Final = 65_536
"""From 128 kB on, glibc asks the system for each buffer and gives it back: ten times what reading an answer costs."""
_IDLE_MAX: Final = 32
"""How many connections on one route wait for their next request."""
_HASTE_S: Final = 1.0
"""A server that closes a kept connection sooner after an answer than this does not keep any."""


class SyncTransport:
    """Connections for threads; see `plait.models.transport.Transport`."""

    def __init__(self, network: Network | None = None) -> None:
        self._network = network or Network()
        self._lock = threading.Lock()
        self._idle: dict[Route, list[tuple[socket.socket, float]]] = {}
        self._hasty: set[Route] = set()
        """Routes whose servers promise to keep a connection and close it after an answer (llama.cpp's streams)."""
        self._destinations: dict[str, Destination] = {}
        self._heads = RequestHeads()
        self._tls: ssl.SSLContext | None = None

    def open(self, request: HttpRequest, limits: Timeouts, cancel: Cancel | None = None) -> SyncStream:
        """Send a request and wait for the headers of its answer, whatever their status.

        Raises:
            ProviderFailed: no answer came. Aborted: `cancel` was given. ConfigError: the URL cannot be used.
        """
        to = self._destination(request.url)
        exchange = _Exchange(request.url, Pace(limits), cancel)
        kept: socket.socket | None = None
        try:
            with exchange.explained:
                kept = self._take(to.route)
                exchange.hold(kept or self._connect(to.route, exchange))
                exchange.pace.wait_for_answer()
                exchange.parser = ResponseParser(request.method)
                size_bytes = request.size_bytes if request.parts else None
                headers = {**request.headers, **to.headers}
                head = self._heads.head(request.method, to.target, to.host, headers, size_bytes)
                body = _ask((head, *request.parts), exchange, exchange.parser)
            return SyncStream(exchange.parser, body, exchange, lambda sock: self._keep(to.route, sock))
        except BaseException as error:
            if kept is not None and getattr(error, "detail", "") == "closed":
                self._hasty.add(to.route)
            exchange.close()
            raise

    def close(self) -> None:
        """Close idle connections; streams that are open live on."""
        with self._lock:
            waiting = [sock for kept in self._idle.values() for sock, _ in kept]
            self._idle.clear()
        for sock in waiting:
            sock.close()

    def __del__(self) -> None:
        # A model that nobody closes takes its idle connections with it.
        for kept in self._idle.values():
            for sock, _ in kept:
                sock.close()

    def _destination(self, url: str) -> Destination:
        known = self._destinations.get(url)
        if known is None:
            known = self._destinations[url] = destination_of(url, self._network)
        return known

    def _take(self, route: Route) -> socket.socket | None:
        """Return a kept connection that is not known to be dead."""
        oldest = time.monotonic() - self._network.keep_alive_s
        while True:
            with self._lock:
                kept = self._idle.get(route)
                if not kept:
                    return None
                sock, since = kept.pop()
            if since > oldest and _is_quiet(sock):
                return sock
            if time.monotonic() - since < _HASTE_S:
                self._hasty.add(route)
            sock.close()

    def _keep(self, route: Route, sock: socket.socket) -> None:
        with self._lock:
            kept = self._idle.setdefault(route, [])
            if len(kept) < _IDLE_MAX and route not in self._hasty:
                kept.append((sock, time.monotonic()))
                return
        sock.close()

    def _connect(self, route: Route, exchange: _Exchange) -> socket.socket:
        exchange.via = via_of(route)
        sock = _dial(*route.address, exchange)
        try:
            if route.is_tunnelled:
                _tunnel(sock, route, exchange)
            exchange.via = None
            if not route.is_tls:
                return sock
            # Wrapping takes the descriptor away from `sock`; a second one stays for whoever stops the exchange.
            exchange.hold_through_handshake(sock)
            sock.settimeout(exchange.pace.left_s)
            return self._tls_context().wrap_socket(sock, server_hostname=route.host)
        except BaseException:
            sock.close()
            raise

    def _tls_context(self) -> ssl.SSLContext:
        with self._lock:
            if self._tls is None:
                self._tls = tls_context(self._network)
            return self._tls


class SyncStream:
    """An answer whose headers have come; see `plait.models.transport.Stream`."""

    def __init__(
        self, parser: ResponseParser, body: bytes, exchange: _Exchange, keep: Callable[[socket.socket], None]
    ) -> None:
        head = parser.head
        assert head is not None
        self.status: int = head.status
        self.headers: Mapping[str, str] = head.headers
        self._parser = parser
        self._first = body
        self._exchange = exchange
        self._keep = keep
        self._unpack = unpacker(head.headers.get("content-encoding", ""), exchange.url)
        self._is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        while data := self._read():
            if self._unpack is None:
                yield data
                continue
            for piece in self._unpack(data):
                # One read may unpack to a thousand times its size: who stops it should not wait for all of that.
                if self._exchange.is_aborted:
                    raise Aborted
                yield piece

    def finish(self) -> None:
        """Wait a moment for the end of the body, so that the connection can be used again."""
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
        if not self._is_closed:
            self._is_closed = True
            self._exchange.close()

    def _read(self, *, is_draining: bool = False) -> bytes:
        """Return what has come of the body, waiting for it; nothing at its end."""
        if self._is_closed:
            return b""
        data, self._first = self._first, b""
        if not is_draining:
            self._exchange.pace.look_again()
        with self._exchange.explained:
            while not data and not self._parser.is_over:
                data = _receive(self._exchange, self._parser)
        if not data:
            self._give_back()
        elif not is_draining:
            self._exchange.pace.read()
        return data

    def _give_back(self) -> None:
        sock = self._exchange.let_go() if self._parser.can_follow else None
        if sock is None:
            self.close()
        else:
            self._is_closed = True
            self._keep(sock)


class _Exchange:
    """One request and its answer: the deadline, the socket, and how both are stopped."""

    def __init__(self, url: str, pace: Pace, cancel: Cancel | None) -> None:
        self.url = url
        self.pace = pace
        self.is_aborted = False
        self.parser: ResponseParser | None = None
        self.via: Via | None = None
        """A proxy that is still to be passed."""
        self.explained = _Explained(self)
        """Turns what goes wrong inside into `ProviderFailed` or `Aborted`."""
        self._lock = threading.RLock()  # a signal handler may abort while this thread holds it
        self._sock: socket.socket | None = None
        self._spare: socket.socket | None = None
        self._undo = cancel.on_cancel(self.abort) if cancel is not None else _nothing

    @property
    def sock(self) -> socket.socket:
        """The socket of the exchange, ready to wait until its deadline.

        Raises:
            TimeoutError: the deadline has passed.
        """
        assert self._sock is not None
        self._sock.settimeout(self.pace.left_s)
        return self._sock

    @property
    def at(self) -> At:
        """How far it has got."""
        if self.parser is None:
            return "connect"
        return "headers" if self.parser.head is None else "stream"

    def hold(self, sock: socket.socket) -> None:
        """Make `sock` the one that is used, and that `abort` shuts down."""
        with self._lock:
            self._sock = sock
            self._drop_spare()
            if self.is_aborted:
                raise Aborted

    def hold_through_handshake(self, sock: socket.socket) -> None:
        """The same for a socket whose descriptor will be taken away by TLS."""
        with self._lock:
            self._spare = self._sock = sock.dup()

    def abort(self) -> None:
        """Stop now; any thread, any number of times."""
        with self._lock:
            self.is_aborted = True
            if self._sock is not None:
                # Not the method of a TLS socket: that one drops the TLS layer under the thread that reads.
                with suppress(OSError):
                    socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def let_go(self) -> socket.socket | None:
        """End the exchange and return its connection whole, None when it was stopped before."""
        self._undo()
        with self._lock:
            if self.is_aborted:
                return None
            sock, self._sock = self._sock, None
            return sock

    def close(self) -> None:
        """End the exchange and its connection."""
        self._undo()
        with self._lock:
            sock, self._sock = self._sock, None
            self._drop_spare()
        if sock is not None:
            sock.close()

    def _drop_spare(self) -> None:
        if self._spare is not None:
            self._spare.close()
            self._spare = None


class _Explained:
    """The context of `_Exchange.explained`; one object, because it is entered once a read."""

    def __init__(self, exchange: _Exchange) -> None:
        self._exchange = exchange

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        exchange = self._exchange
        if exchange.is_aborted and (error is None or isinstance(error, (OSError, BrokenOff, NotHttp))):
            raise Aborted from None
        if isinstance(error, TimeoutError):
            raise timeout_failure(exchange.pace, exchange.url, exchange.at, exchange.via) from error
        if isinstance(error, (OSError, BrokenOff, NotHttp, ProxyRefused, ValueError)):
            raise failure_of(error, exchange.url, exchange.at, exchange.via) from error


def _dial(host: str, port: int, exchange: _Exchange) -> socket.socket:
    """Connect to the first address that answers; one that is dead costs only its share of the time."""
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    problem: OSError | None = None
    for number, (family, kind, protocol, _, address) in enumerate(addresses):
        sock = socket.socket(family, kind, protocol)
        try:
            exchange.hold(sock)
            left_s = exchange.pace.left_s
            sock.settimeout(left_s and left_s / (len(addresses) - number))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except OSError as error:
            sock.close()
            problem = error
        except BaseException:
            sock.close()
            raise
    raise problem or OSError(f"{host} has no address")


def _tunnel(sock: socket.socket, route: Route, exchange: _Exchange) -> None:
    """Ask a proxy for a connection to the host."""
    if route.is_socks:
        from plait.models.http.socks import SocksHandshake  # few have such a proxy

        talk = SocksHandshake(route.host, route.port, route.socks_login)
        while not talk.is_over:
            sock.sendall(talk.outgoing)
            talk.feed(_received(exchange, talk.wanted))
        return
    host = f"[{route.host}]" if ":" in route.host else route.host
    name = f"{host}:{route.port}"
    sock.sendall(request_head("CONNECT", name, name, route.tunnel_headers, None))
    parser = ResponseParser("CONNECT")
    while parser.head is None:
        _receive(exchange, parser)
    if parser.head.status != 200:
        raise ProxyRefused(f"status {parser.head.status}")


def _ask(parts: Sequence[bytes], exchange: _Exchange, parser: ResponseParser) -> bytes:
    """Send the request and read up to the end of the answer's head; return what came of the body with it."""
    # A server that refuses a request early says why before it closes: so what cannot be sent is no failure yet.
    with suppress(BrokenPipeError, ConnectionResetError):
        _send(exchange.sock, parts)
    body = b""
    while parser.head is None:
        body = _receive(exchange, parser)
    return body


def _send(sock: socket.socket, parts: Sequence[bytes]) -> None:
    if isinstance(sock, ssl.SSLSocket) or not hasattr(sock, "sendmsg"):
        sock.sendall(b"".join(parts))
        return
    sent = sock.sendmsg(parts)
    if sent < sum(map(len, parts)):
        sock.sendall(memoryview(b"".join(parts))[sent:])


def _receive(exchange: _Exchange, parser: ResponseParser) -> bytes:
    """Wait for bytes and return what they hold of the body."""
    data = exchange.sock.recv(_READ_BYTES)
    if data:
        return parser.feed(data)
    if exchange.is_aborted:
        raise Aborted
    parser.end()
    return b""


def _received(exchange: _Exchange, bytes_max: int) -> bytes:
    """Wait for bytes of a proxy's."""
    data = exchange.sock.recv(bytes_max)
    if data:
        return data
    if exchange.is_aborted:
        raise Aborted
    raise BrokenOff("the proxy hung up")


def _is_quiet(sock: socket.socket) -> bool:
    """Say whether an idle connection has nothing to tell: neither its end nor bytes nobody asked for."""
    try:
        if isinstance(sock, ssl.SSLSocket) and sock.pending():
            return False
        if hasattr(select, "poll"):
            looking = select.poll()
            looking.register(sock, select.POLLIN)
            return not looking.poll(0)
        sock.settimeout(0)
        socket.socket.recv(sock, 1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except (OSError, ValueError):  # a closed one has no number
        return False
    return False


def _nothing() -> None:
    """Undo nothing."""
