"""What all conversations with one endpoint share: its connections, its keys, its headers, its limits.

Floor: 2. Owns: state of an endpoint in this process; never: a conversation.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from plait._version import __version__
from plait.core.exchange import ProviderFailed
from plait.models.credentials import Credentials
from plait.models.endpoint import Endpoint
from plait.models.key_change import KeyChange, key_change
from plait.models.limiter import RateLimiter
from plait.models.pool import CredentialPool
from plait.models.transport import AsyncTransport, Network, Timeouts, Transport

if TYPE_CHECKING:
    from plait.models.async_http import AsyncHttpTransport
    from plait.models.sync_http import SyncTransport

_SENDABLE: Final = re.compile(r"[\x20-\x7e]+")


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """How an endpoint is used."""

    timeouts: Timeouts = field(default_factory=Timeouts)
    network: Network = field(default_factory=Network)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """More headers; they win over the endpoint's own."""
    body: Mapping[str, object] = field(default_factory=dict)
    """More body members of every request."""
    max_rpm: int | None = None
    """Requests a minute that this process allows itself; None is no limit of its own."""


class Backend:
    """One endpoint as this process uses it; any number of models and conversations, in any thread."""

    def __init__(
        self,
        endpoint: Endpoint,
        credentials: Credentials,
        options: BackendOptions | None = None,
        *,
        transport: Transport | None = None,
        async_transport: AsyncTransport | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.options = options or BackendOptions()
        self.limiter = None if self.options.max_rpm is None else RateLimiter(self.options.max_rpm)
        self._credentials = credentials
        self._pool: CredentialPool | None = None
        self._headers: dict[str, Mapping[str, str]] = {}
        self._transport = transport
        self._async_transport = async_transport
        self._lock = threading.Lock()

    @property
    def transport(self) -> Transport:
        """The connections for threads; made when they are first wanted."""
        with self._lock:
            if self._transport is None:
                self._transport = self._new_sync()
            return self._transport

    @property
    def async_transport(self) -> AsyncTransport:
        """The connections for event loops; made when they are first wanted."""
        with self._lock:
            if self._async_transport is None:
                self._async_transport = self._new_async()
            return self._async_transport

    def key(self) -> str:
        """Return the key to send now, empty where none is needed.

        Raises:
            ProviderFailed: class `auth`; one is needed and there is none, or it cannot be sent.
        """
        with self._lock:
            if self._pool is None:
                keys = self._credentials.find()
                for key in keys:
                    self._check(key)
                self._pool = CredentialPool(keys)
            return self._pool.ready() or ""

    def after(self, key: str, failed: ProviderFailed, tried: Collection[str] = ()) -> KeyChange | None:
        """Say what comes after a key that was refused, None where the failure is not about it; see `key_change`."""
        where = self._credentials.label if len(self._credentials.sources) == 1 else ""
        return None if self._pool is None else key_change(self._pool, key, failed, tried, where)

    def headers(self, key: str) -> Mapping[str, str]:
        """Return the headers of every request with this key; made once."""
        headers = self._headers.get(key)
        if headers is None:
            headers = self._headers[key] = MappingProxyType(self._make_headers(key))
        return headers

    def told(self, failed: ProviderFailed, key: str, url: str) -> ProviderFailed:
        """Give a failure the advice that only this endpoint's user needs, and take the key out of it."""
        if key:
            failed.message = failed.message.replace(key, "[REDACTED]")
            failed.args = (failed.message,)
        if failed.kind == "auth":
            failed.hint = self._key_advice(key)
        elif failed.detail == "not_event_stream":
            failed.hint = _address_advice(url, self.endpoint.base)
        return failed

    def close(self) -> None:
        """Close the idle connections of threads; loops close theirs when they end."""
        with self._lock:
            transport = self._transport
        if transport is not None:
            transport.close()

    async def aclose(self) -> None:
        """Close the connections of the running loop, and those of threads."""
        self.close()
        with self._lock:
            transport = self._async_transport
        if transport is not None:
            await transport.aclose()

    def _key_advice(self, key: str) -> str:
        if key:
            return f"check the key in {self._credentials.label}: it is wrong, expired, or may not use this model"
        return f"this endpoint wants a key: set {self._credentials.label}"

    def _make_headers(self, key: str) -> dict[str, str]:
        profile = self.endpoint.profile
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            # Packed streams are held back by whatever packs them.
            "Accept-Encoding": "identity",
            "User-Agent": f"plait/{__version__}",
        }
        if key:
            headers[profile.auth_header] = f"Bearer {key}" if profile.auth_header == "Authorization" else key
        for more in (profile.headers, self.options.headers):
            for name, value in more.items():
                known = next((other for other in headers if other.lower() == name.lower()), name)
                headers.pop(known, None)
                headers[name] = value
        return headers

    def _check(self, key: str) -> None:
        if not _SENDABLE.fullmatch(key):
            raise ProviderFailed(
                "auth",
                f"the key in {self._credentials.label} holds a character that no key has",
                retryable=False,
                phase="connect",
                detail="unusable_key",
                hint="copy the key again, without line breaks and quotation marks",
            )

    def _new_sync(self) -> SyncTransport:
        from plait.models.sync_http import SyncTransport

        return SyncTransport(self.options.network)

    def _new_async(self) -> AsyncHttpTransport:
        from plait.models.async_http import AsyncHttpTransport

        return AsyncHttpTransport(self.options.network)


def _address_advice(url: str, base: str) -> str:
    if base.endswith("/v1"):
        return f"{url} is no model API: check the endpoint's host and path"
    return f"{url} is no model API: did you forget /v1? Try {base}/v1"
