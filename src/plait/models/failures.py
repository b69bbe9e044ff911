"""What can go wrong with a connection, told apart in one place for both transports.

Floor: 2. Owns: exceptions of sockets, TLS and HTTP → `ProviderFailed`; never: what a provider says in words.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

from plait.core.errors import ErrorClass
from plait.core.exchange import ProviderFailed
from plait.core.values import dataclass
from plait.models.http.http1 import BrokenOff
from plait.models.http.pace import Pace

if TYPE_CHECKING:
    from plait.models.http.routes import Route

Trouble = Literal[
    "refused",
    "unreachable",
    "dns",
    "dns_temporary",
    "certificate",
    "not_tls",
    "tls",
    "proxy",
    "closed",
    "garbage",
    "encoding",
]
At = Literal["connect", "headers", "stream"]


class ProxyRefused(Exception):
    """A proxy answered a request for a tunnel with something else than yes."""


@dataclass(frozen=True, slots=True)
class _Case:
    detail: str
    message: str
    hint: str = ""
    kind: ErrorClass = "unavailable"
    retryable: bool = True


_CASES: Final[Mapping[Trouble, _Case]] = {
    "refused": _Case(
        "refused", "nothing listens at {where}", "start the server, or check the endpoint's address and port"
    ),
    "unreachable": _Case(
        "unreachable", "{where} cannot be reached: {reason}", "check the network, the VPN and the endpoint's address"
    ),
    "dns": _Case(
        "dns",
        "there is no host called {name}",
        "check the spelling of the endpoint",
        retryable=False,
    ),
    "dns_temporary": _Case(
        "dns", "the name {name} cannot be looked up now: {reason}", "check the network and the name server"
    ),
    "certificate": _Case(
        "certificate",
        "the certificate of {where} is not trusted: {reason}",
        "if the host uses its own certificate authority, name its PEM file as `ca_file`",
        retryable=False,
    ),
    "not_tls": _Case(
        "tls",
        "{where} does not speak TLS",
        "if it is a plain HTTP server, write http:// in the endpoint",
        retryable=False,
    ),
    "tls": _Case("tls", "no TLS connection with {where}: {reason}"),
    "proxy": _Case(
        "proxy",
        "the proxy would not connect to {where}: {reason}",
        "check {source} and its user and password, or name the host in NO_PROXY",
        retryable=False,
    ),
    "closed": _Case("closed", "{where} closed the connection before it answered"),
    "garbage": _Case(
        "not_http",
        "{where} does not answer in HTTP: {reason}",
        "check the endpoint's address and port",
        kind="protocol",
        retryable=False,
    ),
    "encoding": _Case(
        "encoding", "the answer of {where} is packed in a way that was not asked for: {reason}", kind="protocol"
    ),
}
_BROKEN_OFF: Final = _Case("incomplete_stream", "the answer of {where} broke off before its end", kind="protocol")
_NO_ROUTE: Final = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN})
_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"})
_UNKNOWN_NAME: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


@dataclass(frozen=True, slots=True)
class Via:
    """The proxy that was being reached when something went wrong."""

    host: str
    port: int
    source: str
    """What named it: a variable, or a setting."""

    @property
    def words(self) -> str:
        """The proxy, and where it came from."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"the proxy {name}:{self.port} ({self.source})"

    @property
    def hint(self) -> str:
        """What to do about a proxy that cannot be reached."""
        return f"check the proxy, correct or remove {self.source}, or name the host in NO_PROXY"


def via_of(route: Route) -> Via | None:
    """Return the proxy that a connection has to pass, None for a direct one."""
    return Via(route.proxy_host, route.proxy_port, route.proxy_source) if route.proxy_host else None


def failure_of(error: BaseException, url: str, at: At, via: Via | None = None) -> ProviderFailed:
    """Say what `error` means for a request to `url` that had got as far as `at`.

    `via` is a proxy that was still to be passed.
    """
    trouble, reason = _trouble_of(error)
    if trouble == "proxy":
        at = "connect"
        case = _CASES[trouble]
        source = "HTTPS_PROXY" if via is None else via.source
        return _failed(replace(case, hint=case.hint.format(source=source)), url, at, reason)
    if via is not None:
        return _failed_before(via, _CASES[trouble], at, reason)
    is_broken_off = at == "stream" and trouble in ("closed", "garbage", "tls", "unreachable")
    return _failed(_BROKEN_OFF if is_broken_off else _CASES[trouble], url, at, reason)


def encoding_failure(url: str, reason: str) -> ProviderFailed:
    """Say that a body is packed in a way that cannot be unpacked."""
    return _failed(_CASES["encoding"], url, "stream", reason)


def timeout_failure(pace: Pace, url: str, at: At, via: Via | None = None) -> ProviderFailed:
    """Say which limit an exchange has passed; `via` is a proxy that was still to be passed."""
    if via is not None and pace.phase == "connect":
        message = f"no connection with {via.words} within {pace.limit_s:g} s"
        return ProviderFailed("timeout", message, phase=at, detail=pace.phase, hint=via.hint)
    where, limit = where_of(url), f"{pace.limit_s:g} s"
    sentences = {
        "connect": (f"no connection with {where} within {limit}", "check the address, the network and any proxy"),
        "first_byte": (
            f"{where} took the request and did not begin to answer within {limit} (first byte)",
            "raise the first-byte timeout if the model reads or thinks that long",
        ),
        "idle": (
            f"the answer of {where} stood still for {limit} (idle)",
            "raise the idle timeout if the model pauses that long",
        ),
        "total": (f"the answer of {where} was not complete within {limit} (total)", "raise the total timeout"),
    }
    message, hint = sentences[pace.phase]
    return ProviderFailed("timeout", message, phase=at, detail=pace.phase, hint=hint)


def where_of(url: str) -> str:
    """Return host and port of a URL for people, without user, path and query."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    name = f"[{host}]" if ":" in host else host
    return f"{name}:{parts.port}" if parts.port else name


def _failed(case: _Case, url: str, at: At, reason: str) -> ProviderFailed:
    message = case.message.format(where=where_of(url), name=repr(urlsplit(url).hostname or ""), reason=reason)
    return ProviderFailed(case.kind, message, phase=at, detail=case.detail, hint=case.hint, retryable=case.retryable)


def _failed_before(via: Via, case: _Case, at: At, reason: str) -> ProviderFailed:
    """Return the failure of a proxy: it is what has to be mended, whatever the endpoint is."""
    name = f"{via.host!r}, which is the proxy of {via.source},"
    message = case.message.format(where=via.words, name=name, reason=reason).rstrip(",")
    return ProviderFailed(case.kind, message, phase=at, detail=case.detail, hint=via.hint, retryable=case.retryable)


def _trouble_of(error: BaseException) -> tuple[Trouble, str]:
    if isinstance(error, ssl.SSLCertVerificationError):
        return "certificate", error.verify_message or _first_line(error)
    if isinstance(error, ssl.SSLError):
        reason = error.reason or _first_line(error)
        return ("not_tls" if reason in _NOT_TLS else "tls"), reason.lower().replace("_", " ")
    if isinstance(error, socket.gaierror):
        return ("dns" if error.errno in _UNKNOWN_NAME else "dns_temporary"), error.strerror or "unknown"
    if isinstance(error, ProxyRefused):
        return "proxy", str(error)
    if isinstance(error, ConnectionRefusedError):
        return "refused", "refused"
    if isinstance(error, OSError) and error.errno in _NO_ROUTE:
        return "unreachable", error.strerror or "no route"
    if isinstance(error, (OSError, BrokenOff)):
        return "closed", _first_line(error)
    return "garbage", _first_line(error)


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]
