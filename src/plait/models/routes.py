"""How a URL is reached: directly, or through which proxy.

Floor: 2. Owns: proxy settings and what counts as this machine or a private network; never: a connection.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote, urlsplit

from plait.core.errors import ConfigError
from plait.models.transport import Network

if TYPE_CHECKING:
    import ssl

_PORTS: Final = {"http": 80, "https": 443}
_SAFE: Final = "/%:=&?~#+!$,;'@()*[]"
_SOCKS: Final = frozenset({"socks5", "socks5h"})
"""With either of them the proxy looks names up, so that they stay off the local network."""
_LOCAL_SUFFIXES: Final = (".localhost", ".local", ".internal", ".lan", ".home.arpa")
_SHARED: Final = ipaddress.ip_network("100.64.0.0/10")
"""Addresses of overlay networks and of providers' own networks."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where to connect to for one origin, and through what."""

    scheme: str
    host: str
    port: int
    proxy_host: str = ""
    """Empty: no proxy."""
    proxy_port: int = 0
    proxy_auth: str = field(default="", repr=False)
    """Value of `Proxy-Authorization`."""
    socks_login: tuple[str, str] | None = field(default=None, repr=False)
    """Name and password for a SOCKS proxy that wants them."""
    is_socks: bool = False
    """The proxy speaks SOCKS5."""

    @property
    def address(self) -> tuple[str, int]:
        """Where the socket goes: the proxy, where there is one."""
        return (self.proxy_host, self.proxy_port) if self.proxy_host else (self.host, self.port)

    @property
    def is_tls(self) -> bool:
        """True when what is said on the connection is private."""
        return self.scheme == "https"

    @property
    def is_tunnelled(self) -> bool:
        """True when the proxy is asked for a tunnel, False when it is handed the request itself."""
        return bool(self.proxy_host) and (self.is_tls or self.is_socks)

    @property
    def tunnel_headers(self) -> dict[str, str]:
        """What the proxy is told beside the name of the host."""
        return {"Proxy-Authorization": self.proxy_auth} if self.proxy_auth else {}


@dataclass(frozen=True, slots=True)
class Destination:
    """A URL, taken apart for requests to it."""

    route: Route
    target: str
    """What the request line asks for."""
    host: str
    """Value of `Host`."""
    headers: Mapping[str, str]
    """What a proxy wants with every request, where there is no tunnel."""


def destination_of(url: str, network: Network) -> Destination:
    """Say how `url` is asked for.

    Raises:
        ConfigError: the URL or the proxy cannot be used.
    """
    route = route_of(url, network)
    parts = urlsplit(url)
    host = _host_header(route)
    path = quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
    if not route.proxy_host or route.is_tunnelled:
        return Destination(route, path, host, {})
    return Destination(route, f"{route.scheme}://{host}{path}", host, route.tunnel_headers)


def route_of(url: str, network: Network) -> Route:
    """Say how `url` is reached.

    Raises:
        ConfigError: the URL or the proxy cannot be used.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{url!r} is not an http:// or https:// address", hint="check the endpoint")
    direct = Route(parts.scheme, _ascii(parts.hostname), _port(url))
    proxy = _proxy_of(direct, network)
    if not proxy:
        return direct
    at = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if at.scheme not in ("http", *_SOCKS) or not at.hostname:
        raise ConfigError(
            f"a proxy of the kind {at.scheme}:// cannot be used",
            hint="give an http:// or socks5:// proxy, or unset the variable",
        )
    login = (unquote(at.username), unquote(at.password or "")) if at.username else None
    if at.scheme in _SOCKS:
        return replace(direct, proxy_host=at.hostname, proxy_port=at.port or 1080, socks_login=login, is_socks=True)
    auth = "" if login is None else f"Basic {base64.b64encode(':'.join(login).encode()).decode('ascii')}"
    return replace(direct, proxy_host=at.hostname, proxy_port=at.port or 80, proxy_auth=auth)


def is_private(host: str) -> bool:
    """Say whether a host is this machine or on a private network, judged by its address or name alone."""
    host = host.lower().rstrip(".")
    address = _address(host)
    if address is None:
        # A name without a dot is one of a local network or of a container's neighbours.
        return "." not in host or host.endswith(_LOCAL_SUFFIXES)
    return address.is_private or address.is_loopback or address.is_link_local or address in _SHARED


def is_loopback(host: str) -> bool:
    """Say whether a host is this machine."""
    host = host.lower().rstrip(".")
    address = _address(host)
    return host == "localhost" or host.endswith(".localhost") or (address is not None and address.is_loopback)


def is_address(host: str) -> bool:
    """Say whether a host is given by its address, so that no name has to be looked up."""
    return _address(host) is not None


def tls_context(network: Network) -> ssl.SSLContext:
    """Make the TLS settings: the system's authorities, `ca_file` beside them, HTTP/1.1.

    Raises:
        ConfigError: `ca_file` cannot be read.
    """
    import ssl

    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if network.ca_file:
        try:
            context.load_verify_locations(network.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"the certificate authorities in {network.ca_file!r} cannot be read: {error}",
                hint="`ca_file` is a PEM file",
            ) from error
    return context


def _host_header(route: Route) -> str:
    host = f"[{route.host}]" if ":" in route.host else route.host
    return host if route.port == _PORTS[route.scheme] else f"{host}:{route.port}"


def _port(url: str) -> int:
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"{url!r} has no usable port", hint="check the endpoint") from error
    return port or _PORTS[parts.scheme]


def _ascii(host: str) -> str:
    """Return a host's name as the network knows it."""
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise ConfigError(f"{host!r} cannot be the name of a host", hint="check the endpoint") from error


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _proxy_of(route: Route, network: Network) -> str | None:
    if is_loopback(route.host):
        return None
    if network.proxy:
        return network.proxy
    if not network.trust_env:
        return None
    import urllib.request  # heavy, and not needed for this machine

    proxies = urllib.request.getproxies()
    if urllib.request.proxy_bypass(f"{route.host}:{route.port}"):
        return None
    return proxies.get(route.scheme) or proxies.get("all")
