"""The transport for event loops: aiohttp, one session a loop, read as bytes come.

Floor: 2. Owns: aiohttp's sessions and how an exchange in them is timed and stopped; never: what the bytes mean.

An exchange has one timer, however often its deadline moves: it looks again when it rings. No task is made for a
wait, and a read is one await.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import suppress
from math import inf
from typing import Any, Final

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload
from yarl import URL

from plait.core.cancel import Cancel
from plait.core.exchange import ProviderFailed
from plait.models.failures import At, failure_of, timeout_failure
from plait.models.pace import Pace
from plait.models.routes import Route, route_of, tls_context
from plait.models.transport import Aborted, HttpRequest, Network, Timeouts
from plait.models.unpack import unpacker

_BUFFER_BYTES: Final = 262_144
_HEADER_BYTES_MAX: Final = 65_536
_TARGETS_MAX: Final = 64
_NO_AUTO_HEADERS: Final = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class AsyncHttpTransport:
    """Connections for event loops; see `plait.models.transport.AsyncTransport`."""

    def __init__(self, network: Network | None = None) -> None:
        self._network = network or Network()
        self._sessions: dict[asyncio.AbstractEventLoop, _Session] = {}
        self._targets: dict[str, tuple[Route, URL]] = {}
        self._tls: ssl.SSLContext | None = None

    async def open(self, request: HttpRequest, limits: Timeouts, cancel: Cancel | None = None) -> HttpStream:
        """Send a request and wait for the headers of its answer, whatever their status.

        Cancel: as any await; `cancel`, when given, stops it from any thread.

        Raises:
            ProviderFailed: no answer came. Aborted: `cancel` was given. ConfigError: the URL cannot be used.
        """
        route, url = self._target(request.url)
        exchange = _Exchange(request.url, Pace(limits), cancel)
        exchange.pace.wait_for_answer()
        try:
            session = await self._session()
            with exchange.waiting("headers"):
                response = await session.request(
                    request.method,
                    url,
                    data=_Parts(request.parts) if request.parts else None,
                    headers=_with_login(request.headers, route),
                    proxy=route.proxy_url,
                    proxy_headers=_login(route) if route.is_tunnelled else None,
                    timeout=aiohttp.ClientTimeout(total=None, connect=limits.connect_s),
                    ssl=self._tls_context() if route.scheme == "https" else True,
                    allow_redirects=False,
                )
            exchange.response = response
            return HttpStream(response, exchange)
        except BaseException:
            exchange.close()
            raise

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.keeper.aclose()

    def _target(self, url: str) -> tuple[Route, URL]:
        known = self._targets.get(url)
        if known is None:
            if len(self._targets) >= _TARGETS_MAX:
                self._targets.clear()
            known = self._targets[url] = (route_of(url, self._network), URL(url, encoded=True))
        return known

    async def _session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            session = self._sessions[loop] = _Session(self._new_session(), self._sessions, loop)
            await session.begin()
        return session.client

    def _new_session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=self._network.keep_alive_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            skip_auto_headers=_NO_AUTO_HEADERS,
            read_bufsize=_BUFFER_BYTES,
            max_line_size=_HEADER_BYTES_MAX,
            max_field_size=_HEADER_BYTES_MAX,
        )

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = tls_context(self._network)
        return self._tls


class HttpStream:
    """An answer whose headers have come; see `plait.models.transport.AsyncStream`."""

    def __init__(self, response: aiohttp.ClientResponse, exchange: _Exchange) -> None:
        self.status: int = response.status
        self.headers: Mapping[str, str] = _headers_of(response)
        self._content = response.content
        self._exchange = exchange
        self._unpack = unpacker(self.headers.get("content-encoding", ""), exchange.url)
        self._unpacked: Iterator[bytes] = iter(())
        self._is_over = False

    def __aiter__(self) -> HttpStream:
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
        if not self._is_over and not self._content.at_eof():
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
        self._is_over = True
        self._exchange.close()

    async def _read(self, *, is_draining: bool = False) -> bytes:
        if self._is_over:
            return b""
        exchange = self._exchange
        try:
            data = await self._content.readany()
        except Exception as error:  # boundary: aiohttp's errors have many roots, and all mean that the body broke off
            data = _unread(self._content)
            if not data or exchange.is_stopped:
                raise exchange.explain(error, "stream") from error
        if exchange.is_aborted:
            raise Aborted
        if not data:
            await self.aclose()
        elif not is_draining:
            exchange.pace.read()
        return data


class _Session:
    """A loop's session; it closes when the loop, at its end, shuts down its asynchronous generators."""

    def __init__(
        self,
        client: aiohttp.ClientSession,
        sessions: dict[asyncio.AbstractEventLoop, _Session],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.client = client
        self.keeper = _keep(client, sessions, loop)

    async def begin(self) -> None:
        """Have the loop know the generator."""
        await anext(self.keeper)


async def _keep(
    client: aiohttp.ClientSession,
    sessions: dict[asyncio.AbstractEventLoop, _Session],
    loop: asyncio.AbstractEventLoop,
) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        sessions.pop(loop, None)
        await client.close()


class _Exchange:
    """One request and its answer: the deadline, and how a wait is stopped when it passes or somebody says so."""

    def __init__(self, url: str, pace: Pace, cancel: Cancel | None) -> None:
        self.url = url
        self.pace = pace
        self.response: aiohttp.ClientResponse | None = None
        self.is_aborted = False
        self._is_late = False
        self._has_cancelled = False
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = None
        """The task that waits for the headers; once they are here, closing the response wakes it."""
        self._timer: asyncio.TimerHandle | None = None
        self._undo = cancel.on_cancel(self.abort) if cancel is not None else _nothing

    @property
    def is_stopped(self) -> bool:
        """True when the exchange was ended by us."""
        return self.is_aborted or self._is_late

    def waiting(self, at: At) -> _Waiting:
        """Wait inside for the headers: stopped by the deadline and by `abort`."""
        return _Waiting(self, at)

    def abort(self) -> None:
        """Stop now; any thread, any number of times."""
        self.is_aborted = True
        with suppress(RuntimeError):  # the loop is closed, and everything in it
            self._loop.call_soon_threadsafe(self._interrupt)

    def hurry(self) -> None:
        """Nothing more is wanted but the end, and that soon."""
        self.pace.drain()
        self._set_timer()

    def watch(self, task: asyncio.Task[Any]) -> None:
        """Begin to wait in `task`."""
        self._task = task
        self._set_timer()
        if self.is_aborted:
            self._interrupt()

    def unwatch(self) -> None:
        """The wait in a task is over."""
        self._task = None

    def close(self) -> None:
        """End the exchange; a connection whose answer was not read to its end is closed."""
        self._undo()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.response is not None:
            self.response.close()

    def explain(self, error: BaseException, at: At) -> ProviderFailed | Aborted:
        """Say what an exception of a wait means."""
        if self.is_aborted:
            return Aborted()
        if self._is_late:
            return timeout_failure(self.pace, self.url, at)
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return timeout_failure(self.pace.at_connect(), self.url, "connect")
        if isinstance(error, aiohttp.ClientConnectorError):
            at = "connect"
        return failure_of(error, self.url, at)

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
            self._interrupt()

    def _interrupt(self) -> None:
        if self._task is not None:
            if not self._has_cancelled:  # one cancellation, because one is taken back
                self._has_cancelled = True
                self._task.cancel()
        elif self.response is not None:
            self.response.close()


class _Waiting:
    """The context of `_Exchange.waiting`."""

    def __init__(self, exchange: _Exchange, at: At) -> None:
        self._exchange = exchange
        self._at: At = at
        self._cancelling = 0

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()
        self._exchange.watch(task)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        exchange = self._exchange
        exchange.unwatch()
        if error is None:
            return
        if isinstance(error, asyncio.CancelledError):
            is_ours = exchange.is_stopped and self._task.uncancel() <= self._cancelling
            if is_ours:
                raise exchange.explain(error, self._at) from None
        elif isinstance(error, Exception):
            raise exchange.explain(error, self._at) from error


class _Parts(Payload):
    """A body of kept bytes."""

    def __init__(self, parts: tuple[bytes, ...]) -> None:
        super().__init__(parts)
        self._size = sum(map(len, parts))

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the body as text, for whoever prints a request."""
        return b"".join(self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Send the parts."""
        for part in self._value:
            await writer.write(part)


def _with_login(headers: Mapping[str, str], route: Route) -> Mapping[str, str]:
    """Add the proxy's login where the request itself goes to the proxy."""
    if route.is_tunnelled or not route.proxy_auth:
        return headers
    return {**headers, **_login(route)}


def _login(route: Route) -> dict[str, str]:
    return {"Proxy-Authorization": route.proxy_auth} if route.proxy_auth else {}


def _headers_of(response: aiohttp.ClientResponse) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in response.headers.items():
        name = name.lower()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _unread(content: aiohttp.StreamReader) -> bytes:
    """Return what had arrived before a connection broke.

    aiohttp would drop it, and the last event of an answer may be in it.
    """
    buffer = getattr(content, "_buffer", None)
    data = b"".join(buffer or ())[getattr(content, "_buffer_offset", 0) :]
    if buffer:
        buffer.clear()
    return data


def _nothing() -> None:
    """Undo nothing."""
