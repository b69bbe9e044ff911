"""What all conversations with one endpoint share: its connections, its keys, its headers, its limits.

Floor: 2. Owns: state of an endpoint in this process; never: a conversation.
"""

from __future__ import annotations

import copy
import re
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from plait._version import __version__
from plait.core.exchange import ProviderFailed
from plait.core.mask import MASK
from plait.core.usage import Usage
from plait.core.values import dataclass
from plait.models.credentials import Credentials
from plait.models.endpoint import SECRET_NAME, Endpoint
from plait.models.limiter import RateLimiter
from plait.models.pool import CredentialPool
from plait.models.transport import AsyncTransport, Network, Timeouts, Transport

if TYPE_CHECKING:
    from plait.models.http.async_http import AsyncHttpTransport
    from plait.models.http.sync_http import SyncTransport
    from plait.models.key_change import KeyChange
    from plait.models.prices import Price, PriceTable

_SENDABLE: Final = re.compile(r"[\x20-\x7e]+")
_SECRET_CHARS_MIN: Final = 8
_KEY_CHARS_MIN: Final = 4


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
    prices: PriceTable | None = None
    """What models cost; None is the table of plait with the user's own in it."""


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
        self.learnt: set[str] = set()
        """What the endpoint's refusals have taught all its conversations; see `adjusting`."""
        self._credentials = credentials
        self._pool: CredentialPool | None = None
        self._secrets = _secrets_in(self.options, endpoint.query)
        self._headers: dict[str, Mapping[str, str]] = {}
        self._transport = transport
        self._async_transport = async_transport
        self._prices: dict[str, Price | None] = {}
        """Of the models that were asked for."""
        self._lock = threading.Lock()

    @property
    def secrets(self) -> tuple[str, ...]:
        """What nobody but the endpoint should see, as far as it was looked for: keys, secret headers, passwords."""
        return self._secrets

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

    def through(self, wrap: Callable[[Transport], Transport]) -> Backend:
        """Return the same endpoint, with its keys and limits, whose threads' connections go through something."""
        twin = copy.copy(self)
        twin._transport = wrap(self.transport)
        return twin

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
                self._secrets = (*(key for key in keys if len(key) >= _KEY_CHARS_MIN), *self._secrets)
                self._pool = CredentialPool(keys)
            return self._pool.ready() or ""

    async def afind_key(self) -> None:
        """Look for the keys in a thread, where that could hold up the loop: a keyring, a command, a file.

        Raises:
            ProviderFailed: as `key` does.
        """
        if self._pool is None and self._credentials.is_slow:
            import asyncio  # a thread's conversations do without

            await asyncio.to_thread(self.key)

    def after(self, key: str, failed: ProviderFailed, tried: Collection[str] = ()) -> KeyChange | None:
        """Say what comes after a key that was refused, None where the failure is not about it; see `key_change`."""
        if self._pool is None:
            return None
        from plait.models.key_change import key_change  # until a key is refused nobody asks

        where = self._credentials.label if len(self._credentials.sources) == 1 else ""
        return key_change(self._pool, key, failed, tried, where)

    def headers(self, key: str) -> Mapping[str, str]:
        """Return the headers of every request with this key; made once."""
        headers = self._headers.get(key)
        if headers is None:
            headers = self._headers[key] = MappingProxyType(self._make_headers(key))
        return headers

    def told(self, failed: ProviderFailed, key: str, url: str) -> ProviderFailed:
        """Give a failure the advice that only this endpoint's user needs, and take what is secret out of it."""
        if failed.kind == "auth":
            failed.hint = self._key_advice(key)
        elif failed.detail == "not_event_stream":
            failed.hint = _address_advice(url.partition("?")[0], self.endpoint.base)
        return self.hush(failed)

    def hush(self, failed: ProviderFailed) -> ProviderFailed:
        """Take keys out of what a failure says: servers and proxies repeat what they were sent."""
        for secret in self._secrets:
            failed.message = failed.message.replace(secret, MASK)
            failed.hint = failed.hint.replace(secret, MASK)
        failed.args = (failed.message,)
        return failed

    def counted(self, usage: Usage, model: str, price: Price | None = None) -> Usage:
        """Return what an answer used, without numbers that mean nothing here, with its cost where that is known."""
        if not self.endpoint.profile.reports_input and usage != Usage.UNAVAILABLE:
            usage = replace(usage, input=None, cache_read=None, cache_write=None)
        if usage.cost is not None or usage.input is None:
            return usage
        price = price or self.price_of(model)
        if price is None:
            return usage
        from plait.models.prices import with_cost

        return with_cost(usage, price)

    def price_of(self, model: str) -> Price | None:
        """Return what a model costs here by the table, None where that is not known; the table is read once a model."""
        if model not in self._prices:
            self._prices[model] = self._look_up_price(model)
        return self._prices[model]

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

    def _look_up_price(self, model: str) -> Price | None:
        name = self.endpoint.profile.name
        if not name:
            return None
        from plait.models.prices import known_prices

        return (self.options.prices or known_prices(name)).price_of(name, model)

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
        from plait.models.http.sync_http import SyncTransport

        return SyncTransport(self.options.network)

    def _new_async(self) -> AsyncHttpTransport:
        from plait.models.http.async_http import AsyncHttpTransport

        return AsyncHttpTransport(self.options.network)


def _secrets_in(options: BackendOptions, query: str) -> tuple[str, ...]:
    """Return the values that are secret by their names, longest first; short ones would blank out ordinary words."""
    named = [*options.headers.items(), *parse_qsl(query)]
    found = {value.removeprefix("Bearer ") for name, value in named if SECRET_NAME.search(name)}
    if options.network.proxy is not None and (login := urlsplit(options.network.proxy).password):
        found |= {login, unquote(login)}
    return tuple(sorted((value for value in found if len(value) >= _SECRET_CHARS_MIN), key=len, reverse=True))


def _address_advice(url: str, base: str) -> str:
    if base.endswith("/v1"):
        return f"{url} is no model API: check the endpoint's host and path"
    return f"{url} is no model API: did you forget /v1? Try {base}/v1"
