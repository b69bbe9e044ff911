"""What goes wrong before an answer comes: told apart, with advice, alike in both transports."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import struct
import threading
import time
from urllib.parse import urlsplit

import pytest

from plait.core.errors import ConfigError
from plait.core.exchange import ProviderFailed
from plait.models.errors import to_error
from plait.models.failures import ProxyRefused, failure_of
from plait.models.http.async_http import AsyncHttpTransport
from plait.models.http.http1 import BrokenOff, NotHttp
from plait.models.http.sync_http import SyncTransport
from plait.models.transport import Network, Timeouts
from plait.testing import Raw, ScriptServer
from tests.unit.models.http.transports import FETCHERS, Fetch, raw_server, request_to

URL = "https://models.example:8443/v1/chat/completions?key=secret"


def tls_error(reason: str) -> ssl.SSLError:
    """Make what the TLS library raises for a reason."""
    error = ssl.SSLError(1, f"[SSL: {reason}] it went wrong")
    error.reason = reason
    return error


def certificate_error(message: str) -> ssl.SSLCertVerificationError:
    """Make what it raises for a certificate."""
    error = ssl.SSLCertVerificationError(1, message)
    error.verify_message = message
    return error


ERRORS: dict[str, tuple[BaseException, tuple[str, str, bool], str]] = {
    "refused": (ConnectionRefusedError(errno.ECONNREFUSED, "no"), ("unavailable", "refused", True), "start the server"),
    "no route": (OSError(errno.EHOSTUNREACH, "No route"), ("unavailable", "unreachable", True), "network"),
    "network down": (OSError(errno.ENETUNREACH, "down"), ("unavailable", "unreachable", True), "network"),
    "unknown name": (socket.gaierror(socket.EAI_NONAME, "unknown"), ("unavailable", "dns", False), "spelling"),
    "no answer about a name": (socket.gaierror(socket.EAI_AGAIN, "later"), ("unavailable", "dns", True), "name server"),
    "expired": (certificate_error("certificate has expired"), ("unavailable", "certificate", False), "ca_file"),
    "no tls": (tls_error("WRONG_VERSION_NUMBER"), ("unavailable", "tls", False), "http://"),
    "handshake": (tls_error("TLSV1_ALERT_INTERNAL_ERROR"), ("unavailable", "tls", True), "try again"),
    "proxy": (ProxyRefused("status 407"), ("unavailable", "proxy", False), "HTTPS_PROXY"),
    "reset": (ConnectionResetError(errno.ECONNRESET, "reset"), ("unavailable", "closed", True), "try again"),
    "closed": (BrokenOff(), ("unavailable", "closed", True), "try again"),
    "no http": (NotHttp("it begins with b'SSH'"), ("protocol", "not_http", False), "address and port"),
}


@pytest.fixture(params=["sync", "async"])
def fetch(request: pytest.FixtureRequest) -> Fetch:
    """Requests over either transport."""
    return FETCHERS[request.param]


@pytest.mark.parametrize("name", ERRORS)
def test_every_trouble_has_a_class_and_advice(name: str) -> None:
    """Each error of sockets, names, TLS and proxies has its class, says where it happened, and what to do."""
    error, expected, advice = ERRORS[name]
    failed = failure_of(error, URL, "connect")
    told = to_error(failed, endpoint=URL)

    assert expected == (failed.kind, failed.detail, failed.retryable)
    assert "models.example" in told.message
    assert advice in told.hint
    assert "secret" not in f"{told.message} {told.hint}"


def test_a_handshake_that_is_cut_may_be_tried_again(fetch: Fetch) -> None:
    """A server that hangs up in the middle of the handshake is unavailable now, and that is no mistake of the user."""

    def hang_up(connection: socket.socket) -> None:
        connection.recv(64)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with raw_server(hang_up) as url, pytest.raises(ProviderFailed) as failed:
        fetch([request_to(url.replace("http://", "https://"))], Timeouts(connect_s=2))
    assert ("unavailable", "connect", True) == (failed.value.kind, failed.value.phase, failed.value.retryable)


def test_a_handshake_that_stands_still_is_a_timeout(fetch: Fetch) -> None:
    """A server that takes the connection and says nothing costs the connect limit."""

    def say_nothing(connection: socket.socket) -> None:
        while connection.recv(4_096):
            pass

    with raw_server(say_nothing) as url, pytest.raises(ProviderFailed) as failed:
        fetch([request_to(url.replace("http://", "https://"))], Timeouts(connect_s=0.15))
    assert ("timeout", "connect", "connect") == (failed.value.kind, failed.value.detail, failed.value.phase)


@pytest.mark.parametrize(
    "answer, kind, is_retryable",
    [(b"", "unavailable", True), (b"HTTP/1.1 2", "unavailable", True), (b"SSH-2.0-x\r\n", "protocol", False)],
    ids=["nothing", "half", "garbage"],
)
def test_a_proxy_that_does_not_answer_properly_is_a_failure(
    fetch: Fetch, answer: bytes, kind: str, is_retryable: bool
) -> None:
    """A proxy that hangs up, or is none, is told as that in both transports."""

    def serve(connection: socket.socket) -> None:
        connection.recv(4_096)
        connection.sendall(answer)

    with raw_server(serve) as url, pytest.raises(ProviderFailed) as failed:
        fetch([request_to("https://models.example/v1")], None, Network(proxy=url.removesuffix("/v1")))
    assert (kind, "connect", is_retryable) == (failed.value.kind, failed.value.phase, failed.value.retryable)


def _closed_port() -> int:
    """Return a port at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.mark.parametrize("scheme", ["http", "socks5"])
@pytest.mark.parametrize("endpoint", ["http", "https"])
def test_a_proxy_where_nothing_listens_is_named(
    fetch: Fetch, endpoint: str, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failure names the proxy and the variable it came from, and does not send its reader to the endpoint."""
    variable, port = f"{endpoint}_proxy".upper(), _closed_port()
    monkeypatch.setenv(variable, f"{scheme}://me:secret@127.0.0.1:{port}")
    with pytest.raises(ProviderFailed) as caught:
        fetch([request_to(f"{endpoint}://models.example/v1")])
    failed = caught.value

    assert f"nothing listens at the proxy 127.0.0.1:{port} ({variable})" == failed.message
    assert f"check the proxy, correct or remove {variable}, or name the host in NO_PROXY" == failed.hint
    assert ("unavailable", "refused", "connect", True) == (failed.kind, failed.detail, failed.phase, failed.retryable)


def test_a_proxy_without_an_address_is_named(fetch: Fetch) -> None:
    """A proxy's name that nobody knows is told as the proxy's, with the setting that holds it."""
    with pytest.raises(ProviderFailed) as caught:
        fetch([request_to("https://models.example/v1")], None, Network(proxy="http://proxy.invalid:3128"))

    assert "dns" == caught.value.detail
    assert "'proxy.invalid', which is the proxy of `proxy`" in caught.value.message
    assert "models.example" not in caught.value.message


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_a_proxy_that_keeps_silent_is_named(fetch: Fetch, scheme: str) -> None:
    """Time that is spent on reaching the proxy is the proxy's."""
    gone = threading.Event()

    def say_nothing(_: socket.socket) -> None:
        gone.wait(30)

    with raw_server(say_nothing) as url:
        address = urlsplit(url).netloc
        with pytest.raises(ProviderFailed) as caught:
            fetch(
                [request_to("https://models.example/v1")],
                Timeouts(connect_s=0.1),
                Network(proxy=f"{scheme}://{address}"),
            )
        gone.set()

    assert f"no connection with the proxy {address} (`proxy`) within 0.1 s" == caught.value.message


def test_a_host_behind_a_proxy_is_not_the_proxy(fetch: Fetch) -> None:
    """Once the tunnel stands, what goes wrong is the endpoint's."""

    def serve(connection: socket.socket) -> None:
        connection.recv(4_096)
        connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        connection.recv(4_096)

    with raw_server(serve) as url, pytest.raises(ProviderFailed) as caught:
        fetch([request_to("https://models.example/v1")], None, Network(proxy=url.removesuffix("/v1")))

    assert "models.example" in caught.value.message
    assert "proxy" not in caught.value.message


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:x", "socks5://127.0.0.1:99999"])
def test_a_proxy_with_a_port_that_is_none_is_a_configuration_error(fetch: Fetch, proxy: str) -> None:
    """What cannot be connected to is told with the setting that holds it."""
    with pytest.raises(ConfigError, match="the proxy that `proxy` names has no usable port"):
        fetch([request_to("https://models.example/v1")], None, Network(proxy=proxy))


def test_a_slow_reader_is_not_taken_for_a_silent_server() -> None:
    """Time that passes while nobody reads is not the server's: the rest of the body is still there."""
    body = b"".join(b"data: %d\n\n" % number for number in range(40_000))
    limits = Timeouts(first_byte_s=5, idle_s=0.1)

    def read(url: str) -> bytes:
        transport = SyncTransport()
        stream = transport.open(request_to(url), limits)
        read = bytearray()
        for number, piece in enumerate(stream):
            read += piece
            time.sleep(0.3 if number == 0 else 0)
        transport.close()
        return bytes(read)

    async def aread(url: str) -> bytes:
        transport = AsyncHttpTransport()
        stream = await transport.open(request_to(url), limits)
        read = bytearray()
        number = 0
        async for piece in stream:
            read += piece
            number += 1
            await asyncio.sleep(0.3 if number == 1 else 0)
        await transport.aclose()
        return bytes(read)

    with ScriptServer([Raw(body), Raw(body)]) as server:
        assert body == read(server.url)
        assert body == asyncio.run(aread(server.url))
