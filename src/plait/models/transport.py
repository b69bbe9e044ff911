"""What a model needs of HTTP: send kept bytes, read what is there, stop at once.

Floor: 2. Owns: the protocols of both colours and their options; never: a client library.

Both transports behave alike, and one conformance suite holds them to it: no request is repeated, no redirect
followed, certificates are checked, bodies come decoded, and every failure is a `ProviderFailed` that names its phase.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import field
from typing import Protocol

from plait.core.cancel import Cancel
from plait.core.values import dataclass


class Aborted(Exception):
    """The exchange was stopped by `abort` or by its `Cancel`; nothing is wrong with the endpoint."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request; `parts` are the body's bytes, sent one after the other and never copied together."""

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    parts: tuple[bytes, ...] = field(default=(), repr=False)

    @property
    def size_bytes(self) -> int:
        """Length of the body."""
        return sum(map(len, self.parts))


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long each phase of an exchange may take, in seconds; None waits for ever.

    The defaults are for models that think: a reasoning model says nothing for minutes, and a local one first reads
    the whole prompt. A stream that has begun and then falls silent is another matter.
    """

    connect_s: float | None = 10.0
    """Name look-up, connection and TLS handshake together; a host that takes longer is not there."""
    first_byte_s: float | None = 300.0
    """From the request to the first byte of the answer's body, headers included."""
    idle_s: float | None = 120.0
    """Between two reads of the body; comments that keep a stream alive count as life."""
    total_s: float | None = None
    """The whole exchange. None, because a long answer that keeps coming is a good answer."""


@dataclass(frozen=True, slots=True)
class Network:
    """How a transport reaches hosts."""

    proxy: str | None = None
    """URL of an HTTP proxy for every host that is not this machine; wins over the environment."""
    trust_env: bool = True
    """Whether `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` count."""
    ca_file: str | None = None
    """PEM file of certificate authorities that are believed in addition to the system's."""
    keep_alive_s: float = 90.0
    """How long an idle connection is kept for the next request."""


class Stream(Protocol):
    """An answer whose headers have come; iterating reads the body, decoded, as it arrives.

    Iterating raises `ProviderFailed` when the body breaks off and `Aborted` after `abort`. A body that was read
    to its end gives its connection back, any other is closed by `close`.
    """

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The response's headers, names in lower case; repeated ones are joined by commas."""
        ...

    def __iter__(self) -> Iterator[bytes]:
        """Yield whatever is there, never an empty piece."""
        ...

    def finish(self) -> None:
        """Nothing more is wanted: wait a moment for the end, so that the connection can be used again."""
        ...

    def abort(self) -> None:
        """Stop now; any thread, any number of times."""
        ...

    def close(self) -> None:
        """Let go of the connection; may be called twice."""
        ...


class Transport(Protocol):
    """Connections for threads; any thread may open, each stream belongs to one."""

    def open(self, request: HttpRequest, limits: Timeouts, cancel: Cancel | None = None) -> Stream:
        """Send a request and wait for the headers of its answer, whatever their status.

        `cancel` stops the exchange in every phase until the stream is closed.

        Raises:
            ProviderFailed: no answer came. Aborted: `cancel` was given.
        """
        ...

    def close(self) -> None:
        """Close idle connections; streams that are open live on."""
        ...


class AsyncStream(Protocol):
    """The same in an event loop."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The response's headers, names in lower case; repeated ones are joined by commas."""
        ...

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield whatever is there, never an empty piece."""
        ...

    async def finish(self) -> None:
        """Nothing more is wanted: wait a moment for the end, so that the connection can be used again."""
        ...

    def abort(self) -> None:
        """Stop now; any thread, any number of times."""
        ...

    async def aclose(self) -> None:
        """Let go of the connection; may be called twice."""
        ...


class AsyncTransport(Protocol):
    """Connections for event loops; each loop has its own, and they close when the loop ends."""

    async def open(self, request: HttpRequest, limits: Timeouts, cancel: Cancel | None = None) -> AsyncStream:
        """Send a request and wait for the headers of its answer, whatever their status.

        Cancel: as any await; `cancel`, when given, stops it from any thread.

        Raises:
            ProviderFailed: no answer came. Aborted: `cancel` was given.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        ...
