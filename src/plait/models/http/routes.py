"""How a URL is reached: directly, or through which proxy.

Floor: 2. Owns: proxy settings and what counts as this machine or a private network; never: a connection.
"""

from __future__ import annotations

import base64
import ipaddress
import os
from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, quote, unquote, urlsplit

from plait.core.errors import ConfigError
from plait.core.values import dataclass
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
    proxy_source: str = ""
    """What named the proxy: a variable, or the setting `proxy`."""

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
    proxy, source = _proxy_of(direct, network)
    if not proxy:
        return direct
    at = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if at.scheme not in ("http", *_SOCKS) or not at.hostname:
        raise ConfigError(
            f"a proxy of the kind {at.scheme}:// cannot be used, and {source} names one",
            hint=f"give {source} an http:// or socks5:// proxy, or none",
        )
    login = (unquote(at.username), unquote(at.password or "")) if at.username else None
    through = replace(direct, proxy_host=at.hostname, proxy_port=_proxy_port(at, source), proxy_source=source)
    if at.scheme in _SOCKS:
        return replace(through, socks_login=login, is_socks=True)
    auth = "" if login is None else f"Basic {base64.b64encode(':'.join(login).encode()).decode('ascii')}"
    return replace(through, proxy_auth=auth)


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


def _proxy_port(at: SplitResult, source: str) -> int:
    try:
        port = at.port
    except ValueError as error:
        raise ConfigError(f"the proxy that {source} names has no usable port", hint=f"correct {source}") from error
    return port or (1080 if at.scheme in _SOCKS else 80)


def _proxy_of(route: Route, network: Network) -> tuple[str, str]:
    """Return the URL of the proxy and what names it, both empty for none."""
    if is_loopback(route.host):
        return "", ""
    if network.proxy:
        return network.proxy, "`proxy`"
    if not network.trust_env:
        return "", ""
    import urllib.request  # heavy, and not needed for this machine

    proxies = urllib.request.getproxies()
    if urllib.request.proxy_bypass(f"{route.host}:{route.port}"):
        return "", ""
    scheme = route.scheme if proxies.get(route.scheme) else "all"
    return proxies.get(scheme, ""), _variable(scheme)


def _variable(scheme: str) -> str:
    """Return the variable that names the proxy for a scheme; some systems keep proxies in their own settings."""
    names = (f"{scheme}_proxy", f"{scheme}_proxy".upper())
    return next((name for name in names if os.environ.get(name)), "the system's settings")
