"""The two transports against real sockets: one behaviour, whichever is used."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from plait.core.cancel import Cancel
from plait.core.errors import ConfigError
from plait.core.exchange import ProviderFailed
from plait.models.http.async_http import AsyncHttpTransport
from plait.models.http.sync_http import SyncTransport
from plait.models.transport import Aborted, HttpRequest, Network, Timeouts
from plait.testing import Raw, Request, ScriptServer, faults, unused_url
from tests.unit.models.http.transports import BODY, FETCHERS, Fetch, fetch_sync, raw_server, request_to

QUICK = Timeouts(connect_s=2, first_byte_s=0.12, idle_s=0.12)


@pytest.fixture(params=["sync", "async"])
def fetch(request: pytest.FixtureRequest) -> Fetch:
    """Either transport."""
    return FETCHERS[request.param]


def test_a_request_arrives_byte_for_byte_and_its_answer_comes_back(fetch: Fetch) -> None:
    """The parts of a body arrive joined, with their length, and the answer's status, headers and body come back."""
    with ScriptServer(["Hello."]) as server:
        (got,) = fetch([request_to(server.url, headers={"Authorization": "Bearer k"})])
    (request,) = server.requests
    assert BODY == request.body
    assert str(len(BODY)) == request.headers["content-length"]
    assert "Bearer k" == request.headers["authorization"]
    assert 200 == got.status
    assert got.headers["content-type"].startswith("text/event-stream")
    assert b"Hello." in got.body


def test_a_connection_is_used_again(fetch: Fetch) -> None:
    """Requests of one transport, one after the other, share one connection."""
    with ScriptServer(["one", "two", "three"]) as server:
        fetch([request_to(server.url)] * 3)
        assert 1 == server.connections


def test_a_kept_connection_that_the_server_closed_is_not_used(fetch: Fetch) -> None:
    """A server that restarts between two requests is asked over a new connection."""
    with ScriptServer(["one", faults.Cut("before_headers"), "two"]) as server:
        request = request_to(server.url)
        with pytest.raises(ProviderFailed):
            fetch([request] * 2)
        assert b"two" in fetch([request])[0].body


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_connection_that_is_closed_in_spite_of_a_promise_is_not_used(colour: str) -> None:
    """A server that closes right after its answer is asked over new connections, whether a loop has looked or not."""
    answer = b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5\r\nContent-Length: 2\r\n\r\nok"
    is_closed = threading.Event()

    def serve(listener: socket.socket) -> None:
        for _ in range(3):
            connection, _ = listener.accept()
            connection.recv(65_536)
            connection.sendall(answer)
            connection.close()
            is_closed.set()

    def wait() -> None:
        assert is_closed.wait(10)
        is_closed.clear()

    async def ask_async(request: HttpRequest) -> list[bytes]:
        transport, bodies = AsyncHttpTransport(), []
        for _ in range(3):
            stream = await transport.open(request, Timeouts())
            bodies.append(b"".join([piece async for piece in stream]))
            wait()  # in the loop's own thread, so that the loop cannot see the end come
        return bodies

    def ask_sync(request: HttpRequest) -> list[bytes]:
        transport, bodies = SyncTransport(), []
        for _ in range(3):
            bodies.append(b"".join(transport.open(request, Timeouts())))
            wait()
        return bodies

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=[listener], daemon=True)
        thread.start()
        request = request_to(f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
        bodies = ask_sync(request) if colour == "sync" else asyncio.run(ask_async(request))
        thread.join(10)
    assert [b"ok"] * 3 == bodies


def test_every_status_is_an_answer(fetch: Fetch) -> None:
    """A status is for the caller to judge: nothing is raised, followed or repeated."""
    elsewhere = {"Location": "http://127.0.0.1:9/"}
    with ScriptServer([faults.Status(503), faults.Status(307, headers=elsewhere), faults.Status(401)]) as server:
        got = fetch([request_to(server.url)] * 3)
    assert [503, 307, 401] == [answer.status for answer in got]


def test_gzip_is_unpacked(fetch: Fetch) -> None:
    """A body that comes packed is read as if it had not been."""
    with ScriptServer([faults.Gzip(answer="squeezed"), "squeezed"]) as server:
        packed, plain = fetch([request_to(server.url)] * 2)
    assert len(plain.body) > 0
    assert b"squeezed" in packed.body


def test_an_unknown_packing_is_a_typed_failure(fetch: Fetch) -> None:
    """A body in an encoding that nobody asked for is refused by its name, not decoded into rubbish."""
    with ScriptServer([Raw(b"?", {"Content-Encoding": "br"})]) as server, pytest.raises(ProviderFailed) as failed:
        fetch([request_to(server.url)])
    assert ("protocol", "encoding") == (failed.value.kind, failed.value.detail)


def test_a_refused_connection_says_what_to_do(fetch: Fetch) -> None:
    """Where nobody listens the failure names the address, and starting the server as the remedy."""
    with pytest.raises(ProviderFailed) as failed:
        fetch([request_to(unused_url())])
    assert ("unavailable", "refused", "connect", True) == _facts(failed.value)
    assert "nothing listens at 127.0.0.1:" in failed.value.message
    assert "start the server" in failed.value.hint


def test_an_unknown_host_is_not_tried_again(fetch: Fetch) -> None:
    """A name that does not exist is a mistake of the address, and trying again would not mend it."""
    with pytest.raises(ProviderFailed) as failed:
        fetch([request_to("http://no-such-host.invalid/v1")])
    assert ("unavailable", "dns", "connect") == _facts(failed.value)[:3]
    assert "no-such-host.invalid" in failed.value.message


@pytest.mark.parametrize(
    "place, phase, detail",
    [
        ("before_headers", "headers", "first_byte"),
        ("mid_headers", "headers", "first_byte"),
        ("after_headers", "stream", "first_byte"),
        ("mid_event", "stream", "idle"),
        ("before_end", "stream", "idle"),
    ],
)
def test_silence_is_a_timeout_that_names_its_limit(fetch: Fetch, place: faults.Phase, phase: str, detail: str) -> None:
    """A server that falls silent is given up after the limit of the phase it is in."""
    began = time.monotonic()
    with ScriptServer([faults.Stall(place)]) as server, pytest.raises(ProviderFailed) as failed:
        fetch([request_to(server.url)], QUICK)
    assert ("timeout", detail, phase, True) == _facts(failed.value)
    assert time.monotonic() - began < 2.0


def test_headers_that_drip_are_late_all_the_same(fetch: Fetch) -> None:
    """One byte now and then does not push the first-byte limit back."""
    with ScriptServer([faults.Slow(gap_s=0.02)]) as server, pytest.raises(ProviderFailed) as failed:
        fetch([request_to(server.url)], QUICK)
    assert ("timeout", "first_byte", "headers", True) == _facts(failed.value)


def test_the_total_limit_ends_a_stream_that_keeps_coming(fetch: Fetch) -> None:
    """A body that drips for ever is stopped by the limit on the whole exchange."""
    limits = Timeouts(first_byte_s=5, idle_s=5, total_s=0.2)
    with ScriptServer([faults.KeepAlives(count=1000, gap_s=0.02)]) as server, pytest.raises(ProviderFailed) as failed:
        fetch([request_to(server.url)], limits)
    assert ("timeout", "total", "stream", True) == _facts(failed.value)


def test_a_silent_address_is_given_up_after_the_connect_limit(fetch: Fetch) -> None:
    """A port that takes no connection costs the connect limit, and the failure says that it was that one."""
    with _full_backlog() as url, pytest.raises(ProviderFailed) as failed:
        fetch([request_to(url)], Timeouts(connect_s=0.15))
    assert ("timeout", "connect", "connect", True) == _facts(failed.value)


@pytest.mark.parametrize("place", ["before_headers", "mid_headers", "after_headers", "mid_event", "before_end"])
@pytest.mark.parametrize("way", [faults.Reset, faults.Cut])
def test_a_broken_connection_is_a_failure_of_its_phase(
    fetch: Fetch, place: faults.Phase, way: type[faults.Reset] | type[faults.Cut]
) -> None:
    """A connection that breaks is unavailable before the answer began, and an incomplete answer after."""
    began = place not in ("before_headers", "mid_headers")
    expected = ("protocol", "incomplete_stream", "stream") if began else ("unavailable", "closed", "headers")
    with ScriptServer([way(place)]) as server, pytest.raises(ProviderFailed) as failed:
        fetch([request_to(server.url)])
    assert (*expected, True) == _facts(failed.value)


def test_something_that_does_not_speak_http_is_named(fetch: Fetch) -> None:
    """An answer that is not HTTP at all points at the address."""
    banner = Raw(b"SSH-2.0-OpenSSH_9.2\r\n", framed=False)
    with ScriptServer([banner]) as server, pytest.raises(ProviderFailed) as failed:
        fetch([request_to(server.url)])
    assert ("protocol", "not_http", "headers", False) == _facts(failed.value)


def test_a_cancel_from_another_thread_ends_every_phase(fetch: Fetch) -> None:
    """Whatever an exchange waits for, its cancel ends it at once."""
    for place in ("before_headers", "after_headers", "mid_event"):
        cancel = Cancel()

        def script(_request: Request, cancel: Cancel = cancel, place: str = place) -> faults.Stall:
            threading.Timer(0.1, cancel.cancel, ["enough"]).start()
            return faults.Stall(place)  # type: ignore[arg-type]

        with ScriptServer(script) as server, pytest.raises(Aborted):
            fetch([request_to(server.url)], None, None, cancel)


def test_a_cancel_that_was_given_before_sends_nothing(fetch: Fetch) -> None:
    """Work that was stopped before it began makes no request."""
    cancel = Cancel()
    cancel.cancel("enough")
    with ScriptServer([], allow_unused=True) as server:
        with pytest.raises(Aborted):
            fetch([request_to(server.url)], None, None, cancel)
        assert () == server.requests


def test_a_connection_that_was_stopped_is_not_used_again() -> None:
    """What is left of an aborted answer can never be read as the next one."""
    with ScriptServer([faults.Stall("mid_event", answer="first"), "second"]) as server:
        transport = SyncTransport()
        stream = transport.open(request_to(server.url), Timeouts())
        next(iter(stream))
        stream.abort()
        with pytest.raises(Aborted):
            list(stream)
        stream.close()
        assert b"second" in b"".join(transport.open(request_to(server.url), Timeouts()))
        transport.close()
        assert 2 == server.connections


def test_finish_leaves_a_connection_that_ends_soon_usable(fetch: Fetch) -> None:
    """Who has read enough may say so: the rest is drained, and the next request has its connection."""
    request_count = 2

    def sync(url: str) -> None:
        transport = SyncTransport()
        for _ in range(request_count):
            stream = transport.open(request_to(url), Timeouts())
            next(iter(stream))
            stream.finish()
        transport.close()

    async def run(url: str) -> None:
        transport = AsyncHttpTransport()
        for _ in range(request_count):
            stream = await transport.open(request_to(url), Timeouts())
            await anext(stream)
            await stream.finish()

    with ScriptServer(["one", "two"]) as server:
        if fetch is fetch_sync:
            sync(server.url)
        else:
            asyncio.run(run(server.url))
        assert 1 == server.connections


def test_finish_does_not_wait_for_a_body_that_never_ends() -> None:
    """A server that keeps the body open after its last event costs a moment, not a timeout."""
    with ScriptServer([faults.Stall("before_end")]) as server:
        transport = SyncTransport()
        stream = transport.open(request_to(server.url), Timeouts())
        next(iter(stream))
        began = time.monotonic()
        stream.finish()
        assert time.monotonic() - began < 2.0
        transport.close()


def test_a_cancelled_task_leaves_no_connection() -> None:
    """Cancelling the task that reads closes the connection, and the cancellation passes through."""

    async def run(url: str) -> None:
        transport = AsyncHttpTransport()

        async def read() -> None:
            stream = await transport.open(request_to(url), Timeouts())
            try:
                async for _ in stream:
                    pass
            finally:
                await stream.aclose()

        task = asyncio.create_task(read())
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with ScriptServer([faults.Stall("mid_event")]) as server:
        asyncio.run(run(server.url))
        server.wait_for_idle()


def test_a_transport_serves_one_event_loop_after_another() -> None:
    """Sessions belong to their loop and close with it, so that a model outlives any number of `asyncio.run`."""
    transport = AsyncHttpTransport()

    async def run(url: str) -> bytes:
        stream = await transport.open(request_to(url), Timeouts())
        return b"".join([piece async for piece in stream])

    with ScriptServer(["one", "two"]) as server:
        assert b"one" in asyncio.run(run(server.url))
        assert b"two" in asyncio.run(run(server.url))
        server.wait_for_idle()


def test_threads_share_a_transport() -> None:
    """Many threads at once get their own answers."""
    texts = [f"answer {number}" for number in range(16)]
    by_text: dict[str, bytes] = {}

    def script(request: object) -> str:
        return str(getattr(request, "json")["messages"][0]["content"])  # noqa: B009 - the request is any mapping

    with ScriptServer(script) as server:
        transport = SyncTransport()

        def ask(text: str) -> None:
            body = BODY.replace(b'"hi"', f'"{text}"'.encode())
            by_text[text] = b"".join(transport.open(request_to(server.url, body=body), Timeouts()))

        threads = [threading.Thread(target=ask, args=[text]) for text in texts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        transport.close()
    assert sorted(texts) == sorted(by_text)
    assert all(text.split()[1].encode() in body for text, body in by_text.items())


def test_tls_is_checked_and_a_private_authority_can_be_named(fetch: Fetch, certificate: Path) -> None:
    """An unknown certificate is refused without trying again; with its authority named the request succeeds."""
    with _tls_server(certificate) as url:
        with pytest.raises(ProviderFailed) as failed:
            fetch([request_to(url)])
        assert ("unavailable", "certificate", "connect", False) == _facts(failed.value)
        assert "ca_file" in failed.value.hint
        (got,) = fetch([request_to(url)], None, Network(ca_file=str(certificate)))
        assert b"over tls" == got.body


def test_a_certificate_for_another_host_is_refused(fetch: Fetch, certificate: Path) -> None:
    """A trusted certificate is not enough: it must be for the host that was asked."""
    with _tls_server(certificate) as url, pytest.raises(ProviderFailed) as failed:
        fetch([request_to(url.replace("localhost", "127.0.0.1"))], None, Network(ca_file=str(certificate)))
    assert "certificate" == failed.value.detail


def test_plain_http_behind_an_https_address_is_named(fetch: Fetch) -> None:
    """Who writes https for a plain server is told so."""
    with _plain_server() as url, pytest.raises(ProviderFailed) as failed:
        fetch([request_to(url.replace("http://", "https://"))], Timeouts(connect_s=2))
    assert ("unavailable", "tls", "connect", False) == _facts(failed.value)
    assert "http://" in failed.value.hint


def test_a_proxy_is_asked_for_every_other_host(fetch: Fetch) -> None:
    """A plain request to another host goes to the proxy whole, with the proxy's login and not in the URL."""
    with ScriptServer(["through the proxy"]) as proxy:
        address = proxy.url.removeprefix("http://").removesuffix("/v1")
        network = Network(proxy=f"http://me:pass%20word@{address}")
        (got,) = fetch([request_to("http://models.example/v1")], None, network)
    assert b"proxy" in got.body
    (request,) = proxy.requests
    assert "Basic bWU6cGFzcyB3b3Jk" == request.headers["proxy-authorization"]
    assert "models.example" == request.headers["host"]


def test_the_environment_names_the_proxy_unless_it_is_not_trusted(
    fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HTTP_PROXY counts by default, NO_PROXY and this machine are spared."""
    with ScriptServer(["one", "direct"]) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1"))
        assert 200 == fetch([request_to("http://models.example/v1")])[0].status
        assert b"direct" in fetch([request_to(proxy.url)])[0].body
        monkeypatch.setenv("NO_PROXY", ".invalid")
        with pytest.raises(ProviderFailed) as failed:
            fetch([request_to("http://models.invalid/v1")])
    assert "dns" == failed.value.detail


def test_a_proxy_that_refuses_is_named(fetch: Fetch) -> None:
    """A tunnel that the proxy denies is the proxy's refusal, not the endpoint's."""
    with ScriptServer([], allow_unused=True) as proxy:
        network = Network(proxy=proxy.url.removesuffix("/v1"))
        with pytest.raises(ProviderFailed) as failed:
            fetch([request_to("https://models.example/v1")], None, network)
    assert ("unavailable", "proxy", "connect", False) == _facts(failed.value)


def test_an_address_that_is_none_is_a_configuration_error(fetch: Fetch) -> None:
    """A URL of another kind never reaches a socket."""
    with pytest.raises(ConfigError):
        fetch([HttpRequest("POST", "ftp://models.example/v1", {}, (b"",))])


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for `localhost`, with its key in the same file."""
    path = tmp_path_factory.mktemp("tls") / "localhost.pem"
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    )
    subprocess.run([*command.split(), "-keyout", str(path), "-out", f"{path}.crt"], check=True, capture_output=True)
    path.write_text(path.read_text() + Path(f"{path}.crt").read_text())
    return path


@contextmanager
def _tls_server(certificate: Path) -> Iterator[str]:
    """Answer every request with a few bytes over TLS."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)

    def serve(plain: socket.socket) -> None:
        with closing(context.wrap_socket(plain, server_side=True)) as connection:
            request = b""
            while not request.endswith(BODY[-20:]):
                request += connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\nConnection: close\r\n\r\nover tls")

    with raw_server(serve) as url:
        yield url.replace("http://", "https://")


@contextmanager
def _plain_server() -> Iterator[str]:
    """Answer whatever comes as a web server answers what it cannot read."""

    def serve(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    with raw_server(serve) as url:
        yield url


@contextmanager
def _full_backlog() -> Iterator[str]:
    """Listen and never accept, with the queue already full."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    address = listener.getsockname()
    waiting = [socket.socket() for _ in range(4)]
    for sock in waiting:
        sock.setblocking(False)
        sock.connect_ex(address)
    try:
        yield f"http://127.0.0.1:{address[1]}/v1"
    finally:
        for sock in (*waiting, listener):
            sock.close()


def _facts(failed: ProviderFailed) -> tuple[str, str, str, bool]:
    return failed.kind, failed.detail, failed.phase, failed.retryable
