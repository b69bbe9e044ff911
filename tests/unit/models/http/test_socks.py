"""A SOCKS5 proxy between plait and an endpoint: a real one for both transports, and its answers cut everywhere."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest

from plait.core.exchange import ProviderFailed
from plait.models.failures import ProxyRefused
from plait.models.http.routes import route_of
from plait.models.http.socks import SocksHandshake
from plait.models.transport import Network
from plait.testing import ScriptServer
from tests.unit.models.http.transports import FETCHERS, Fetch, raw_server, request_to

HELLO = b"\x05\x00"
YES = b"\x05\x00\x00\x01\x7f\x00\x00\x01\x1f\x90"


@pytest.fixture(params=FETCHERS)
def fetch(request: pytest.FixtureRequest) -> Fetch:
    """Either transport."""
    return FETCHERS[request.param]


@dataclass
class Proxy:
    """A SOCKS5 proxy on loopback: wants a login, and connects every name to one server."""

    target: tuple[str, int]
    login: bytes | None = None
    asked: list[bytes] = field(default_factory=list)
    """The targets that were asked for, as they came."""

    def serve(self, connection: socket.socket) -> None:
        """Shake hands and pass bytes on."""
        read = connection.makefile("rb", buffering=0).read
        count = (read(2) or b"\0\0")[1]
        assert (b"\x02" if self.login else b"\x00") in (read(count) or b"")
        connection.sendall(b"\x05\x02" if self.login else HELLO)
        if self.login:
            said = connection.recv(4_096)
            connection.sendall(b"\x01\x00" if said == self.login else b"\x01\x01")
            if said != self.login:
                return
        self.asked.append(connection.recv(4_096))
        with socket.create_connection(self.target) as there:
            connection.sendall(YES)
            back = threading.Thread(target=_pass_on, args=(there, connection))
            back.start()
            _pass_on(connection, there)
            back.join()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def proxied(login: bytes | None = None) -> Iterator[tuple[Proxy, str]]:
    """Run a server behind a proxy; give the proxy and its address."""
    with ScriptServer(["through the proxy", "and again"], allow_unused=True) as server:
        at = urlsplit(server.url)
        assert at.hostname is not None
        assert at.port is not None
        proxy = Proxy((at.hostname, at.port), login)
        with raw_server(proxy.serve) as url:
            yield proxy, urlsplit(url).netloc


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
def test_a_host_is_reached_through_the_proxy(fetch: Fetch, scheme: str) -> None:
    """The proxy is told the host's name, not an address, and the connection is kept for the next request."""
    with proxied() as (proxy, address):
        network = Network(proxy=f"{scheme}://{address}")
        answers = fetch([request_to("http://models.example:81/v1")] * 2, None, network)
    assert [True, True] == [word in got.body for word, got in zip((b"proxy", b"again"), answers, strict=True)]
    assert [b"\x05\x01\x00\x03\x0emodels.example\x00\x51"] == proxy.asked


def test_a_proxy_may_want_a_login(fetch: Fetch) -> None:
    """Name and password come from the proxy's URL; the wrong ones, are the proxy's refusal and in no text."""
    with proxied(b"\x01\x02me\x09pass word") as (proxy, address):
        good, bad = (f"socks5://{login}@{address}" for login in ("me:pass%20word", "me:secret"))
        assert b"proxy" in fetch([request_to("http://models.example/v1")], None, Network(proxy=good))[0].body
        with pytest.raises(ProviderFailed, match="does not take this login") as failed:
            fetch([request_to("http://models.example/v1")], None, Network(proxy=bad))
    assert ("unavailable", "proxy", False) == (failed.value.kind, failed.value.detail, failed.value.retryable)
    assert "secret" not in str(failed.value) + failed.value.hint
    assert "secret" not in repr(route_of("http://models.example", Network(proxy=bad)))
    assert 1 == len(proxy.asked)


@pytest.mark.parametrize(
    "answer, words",
    [
        (b"HTTP/1.1 400 no\r\n\r\n", "no SOCKS5 proxy"),
        (b"\x05\xff", "it wants a login"),
        (b"\x05\x02", "it wants a login"),
        (HELLO + b"\x05\x05\x00\x01\x00\x00\x00\x00\x00\x00", "the host refused the connection"),
        (HELLO + b"\x05\x63\x00\x01\x00\x00\x00\x00\x00\x00", "code 99"),
        (HELLO + b"\x05\x00\x00\x09\x00\x00\x00\x00\x00\x00", "its answer is none"),
        (HELLO + b"\x04\x00\x00\x01\x00\x00\x00\x00\x00\x00", "its answer is none"),
    ],
    ids=["http", "no method", "another method", "refused", "unknown code", "unknown address", "version"],
)
def test_a_refusal_of_the_proxy_is_told(fetch: Fetch, answer: bytes, words: str) -> None:
    """What the proxy says no to is in the failure, for both transports."""

    def serve(connection: socket.socket) -> None:
        connection.sendall(answer)
        connection.recv(4_096)
        connection.recv(4_096)

    with raw_server(serve) as url, pytest.raises(ProviderFailed, match=words) as failed:
        fetch([request_to("https://models.example/v1")], None, Network(proxy=f"socks5://{urlsplit(url).netloc}"))
    assert ("unavailable", "proxy", "connect") == (failed.value.kind, failed.value.detail, failed.value.phase)


@pytest.mark.parametrize("answer", [b"", b"\x05", HELLO, HELLO + YES[:7]], ids=["nothing", "half", "hello", "most"])
def test_a_proxy_that_hangs_up_is_unavailable(fetch: Fetch, answer: bytes) -> None:
    """A connection that ends during the talk may succeed when it is made again."""

    def serve(connection: socket.socket) -> None:
        connection.recv(4_096)
        connection.sendall(answer)
        if len(answer) > 1:
            connection.recv(4_096)

    with raw_server(serve) as url, pytest.raises(ProviderFailed) as failed:
        fetch([request_to("http://models.example/v1")], None, Network(proxy=f"socks5://{urlsplit(url).netloc}"))
    assert ("unavailable", True) == (failed.value.kind, failed.value.retryable)


@pytest.mark.parametrize("bound", [YES, b"\x05\x00\x00\x03\x04host\x00\x50", b"\x05\x00\x00\x04" + bytes(18)])
def test_answers_may_come_in_any_pieces(bound: bytes) -> None:
    """Byte by byte or together: the talk is over with the last byte of the answer, and not before."""
    for host, asked in (
        ("h", b"\x03\x01h"),
        ("192.0.2.1", b"\x01\xc0\x00\x02\x01"),
        ("::1", b"\x04" + bytes(15) + b"\x01"),
    ):
        talk = SocksHandshake(host, 443)
        said = talk.outgoing
        for byte in HELLO + bound:
            assert not talk.is_over
            assert 0 < talk.wanted
            talk.feed(bytes([byte]))
            said += talk.outgoing
        assert talk.is_over
        assert b"\x05\x01\x00\x05\x01\x00" + asked + b"\x01\xbb" == said


@pytest.mark.parametrize("host, login", [("x" * 256, None), ("h", ("", "p")), ("h", ("n" * 256, "p"))])
def test_what_cannot_be_said_is_refused(host: str, login: tuple[str, str] | None) -> None:
    """Names and logins that the protocol cannot carry are told before anything is sent."""
    with pytest.raises(ProxyRefused, match="too long"):
        SocksHandshake(host, 443, login)
