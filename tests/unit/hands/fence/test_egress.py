"""The way out to some hosts: by exact names only, through a proxy that checks the address it connects to."""

from __future__ import annotations

import gc
import http.server
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from plait.core.errors import Refusal
from plait.hands.command import Command, RunOptions
from plait.hands.fence.allowlist import Allowlist, host_name, is_public
from plait.hands.fence.asked import server_name
from plait.hands.fence.egress import Egress, connect_publicly
from plait.hands.fence.fence import BubblewrapFence, open_fence
from plait.hands.fence.policy import SandboxPolicy
from plait.hands.process import run

HOSTS = ("allowed.test", "*.pages.test", "ports.test:8443")
TRIES = """
import socket, urllib.request
def get(url):
    try:
        return urllib.request.urlopen(url, timeout=10).read().decode()
    except OSError as error:
        return str(error)
def tunnel(target):
    with socket.create_connection(("127.0.0.1", 3128), 10) as peer:
        peer.sendall(f"CONNECT {target} HTTP/1.1\\r\\n\\r\\n".encode())
        first = peer.recv(4096).split(b"\\r\\n")[0].decode()
        if " 200 " in first:
            peer.sendall(b"GET /tunnelled HTTP/1.0\\r\\nHost: x\\r\\n\\r\\n")
            while piece := peer.recv(4096):
                first = piece.decode()
        return first.split("\\n")[-1]
print(get("http://allowed.test/a?b=c"))
print(get("http://denied.test/"))
print(tunnel("deep.pages.test:443"))
print(tunnel("pages.test:443"))
print(tunnel("127.0.0.1:80"))
try:
    socket.create_connection(("192.0.2.1", 80), 5)
except OSError as error:
    print(error.strerror)
"""


class Page(http.server.BaseHTTPRequestHandler):
    """Answers with what it was asked."""

    def do_GET(self) -> None:
        body = f"{self.path} for {self.headers['Host']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[tuple[str, int]]:
    """Return the address of a web server that stands for every public host."""
    found = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=found.serve_forever, daemon=True)
    thread.start()
    yield ("127.0.0.1", found.server_address[1])
    found.shutdown()
    found.server_close()


def test_names_are_compared_whole() -> None:
    """A name is itself, a suffix ends on the border of a label, and a port is one of the usual two unless named."""
    allowed = Allowlist.of(HOSTS)

    expected = {
        ("allowed.test", 443): True,
        ("ALLOWED.test.", 80): True,
        ("allowed.test", 22): False,
        ("sub.allowed.test", 443): False,
        ("notallowed.test", 443): False,
        ("allowed.test.evil.test", 443): False,
        ("a.pages.test", 443): True,
        ("a.b.pages.test", 443): True,
        ("pages.test", 443): False,
        ("evilpages.test", 443): False,
        ("ports.test", 8443): True,
        ("ports.test", 443): False,
        ("allowed.test@evil.test", 443): False,
        ("allowed.test\0.evil.test", 443): False,
        ("", 443): False,
    }
    assert expected == {asked: allowed.allows(*asked) for asked in expected}


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "127.1", "0x7f.1", "0177.0.0.1", "2130706433", "::1", "[::1]", "1.2.3.4", "a..b", "-a.b"]
)
def test_an_address_is_no_name(address: str) -> None:
    """In none of its spellings, also where a suffix would cover it."""
    assert host_name(address) is None
    with pytest.raises(ValueError, match="names"):
        Allowlist.of([address])


@given(st.ip_addresses())
def test_no_address_is_a_name_and_only_public_ones_are_reached(address: object) -> None:
    """Whatever belongs to this machine, its network or its cloud's is not public; nor is what is mapped to it."""
    text = str(address)

    assert host_name(text) is None
    if is_public(text):
        assert not text.startswith(("10.", "127.", "169.254.", "192.168.", "fe80:", "fc", "fd", "::1", "0."))


def test_addresses_that_are_nobodys_are_refused() -> None:
    """Loopback, private, link-local, carrier, multicast, mapped and translated ones."""
    private = "127.0.0.1 10.0.0.1 192.168.1.1 172.16.0.1 169.254.169.254 100.64.0.1 0.0.0.0 224.0.0.1 255.255.255.255"
    private6 = "::1 :: fe80::1 fc00::1 ff02::1 ::ffff:127.0.0.1 64:ff9b::7f00:1 2002:7f00:1:: fe80::1%eth0 x"
    private6 += " fec0::2 ::127.0.0.1 2001::1 3fff::1 64:ff9b:1::1 192.88.99.1 198.18.0.1 240.0.0.1"

    assert [] == [text for text in f"{private} {private6}".split() if is_public(text)]
    assert is_public("1.1.1.1")
    assert is_public("2606:4700::1111")


def test_a_name_that_leads_here_leads_nowhere() -> None:
    """What is connected to is the address that was looked at."""
    with pytest.raises(PermissionError, match="no public address"):
        connect_publicly("localhost", 80)


def test_a_fence_lets_out_to_the_policys_hosts_alone(workspace: Path, server: tuple[str, int]) -> None:
    """Programs inside use the proxy as they use any; beside it there is no network."""
    fence = open_fence(SandboxPolicy(workspace, network=HOSTS))
    assert isinstance(fence, BubblewrapFence)
    asked: list[tuple[str, int]] = []

    def connect(host: str, port: int) -> socket.socket:
        asked.append((host, port))
        return socket.create_connection(server)

    fence = replace(fence, egress=Egress(Allowlist.of(fence.policy.hosts), connect))
    options = RunOptions(
        cwd=str(workspace),
        environment=fence.environment(os.environ),
        timeout_s=60,
        separates_errors=True,
        leftovers="kill",
        fence=fence,
    )

    done = run(Command((fence.ground.interpreter, "-c", TRIES)), options)

    assert "" == (done.errors or done.output).head
    assert [
        "/a?b=c for allowed.test",
        "HTTP Error 403: Forbidden",
        "/tunnelled for x",
        "HTTP/1.1 403 Forbidden",
        "HTTP/1.1 403 Forbidden",
        "Network is unreachable",
    ] == done.output.head.splitlines()
    assert [("allowed.test", 80), ("deep.pages.test", 443)] == asked
    assert [*HOSTS] == fence.policy.metadata()["network"]


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET http://u:p@allowed.test/ HTTP/1.1\r\n\r\n",
        b"GET ftp://allowed.test/ HTTP/1.1\r\n\r\n",
        b"GET http://[::1/ HTTP/1.1\r\n\r\n",
        b"CONNECT allowed.test HTTP/1.1\r\n\r\n",
        b"CONNECT allowed.test:-1 HTTP/1.1\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"GET http://allowed.test/ HTTP/1.1\r\nHost : evil.test\r\n\r\n",
        b"GET http://allowed.test/ HTTP/1.1\r\nX: y\n Host: evil.test\r\n\r\n",
        b"GET http://allowed.test/ HTTP/1.1\r\nX: y\nHost: evil.test\r\n\r\n",
        b"GET http://allowed.test/ HTTP/1.1\r\nX: y\rHost: evil.test\r\n\r\n",
        b"GET http://allowed.test/ HTTP/1.1\r\n Host: evil.test\r\n\r\n",
        b"GET http://allowed.test/ HTTP/1.1\r\nX: \0\r\n\r\n",
        b"GET http://allowed.test/\nHost: HTTP/1.1\r\n\r\n",
        b"G\nET http://allowed.test/ HTTP/1.1\r\n\r\n",
        b"GET http://allowed.test/ HTTP/1.1\nHost: evil.test\r\n\r\n",
        b"GET http://allowed.test/ HTTP/2\r\n\r\n",
        b"GET http://allowed.test/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET http://allowed.test/ HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
        b"POST http://allowed.test/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET http://allowed.test\\@evil.test/ HTTP/1.1\r\n\r\n",
        b"GET http://evil.test#@allowed.test/ HTTP/1.1\r\n\r\n",
        b"GET http://allowed.test%2eevil.test/ HTTP/1.1\r\n\r\n",
        b"GET http://allowed.test:22/ HTTP/1.1\r\n\r\n",
        b"CONNECT allowed.test:443@evil.test:443 HTTP/1.1\r\n\r\n",
        b"CONNECT allowed.test\0.evil.test:443 HTTP/1.1\r\n\r\n",
        b"CONNECT evil.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n",
        b"\xff\xfe\r\n\r\n",
        b"GET http://allowed.test/ HTTP/1.1\r\nX: " + b"x" * 40_000,
    ],
)
def test_what_is_no_request_is_answered_and_goes_nowhere(sent: bytes) -> None:
    """The proxy connects to nothing for a request that it does not understand."""

    def connect(host: str, port: int) -> socket.socket:
        raise AssertionError((host, port))

    proxy = Egress(Allowlist.of(["allowed.test"]), connect)
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(10)
        peer.connect(proxy.path)
        peer.sendall(sent)
        peer.shutdown(socket.SHUT_WR)
        status = peer.recv(64).split(b" ")[1]
    proxy.close()

    assert status in (b"400", b"403", b"411")


def through(sent: bytes, *, more: bytes = b"", said: bytes = b"HTTP/1.1 204 No Content\r\n\r\n") -> tuple[bytes, bytes]:
    """Send bytes through a proxy; return what the server got, and what came back."""
    server = socket.create_server(("127.0.0.1", 0))
    got: list[bytes] = []

    def serve() -> None:
        peer, _ = server.accept()
        with peer:
            peer.settimeout(10)
            if said:
                got.append(peer.recv(100_000))
                peer.sendall(said)
                peer.shutdown(socket.SHUT_WR)
            while piece := peer.recv(100_000):
                got.append(piece)

    serving = threading.Thread(target=serve)
    serving.start()
    proxy = Egress(Allowlist.of(["allowed.test"]), lambda *_: socket.create_connection(server.getsockname()))
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(proxy.path)
        client.sendall(sent)
        back = b""
        while piece := client.recv(100_000):
            back += piece
            if more:
                client.sendall(more)
                client.shutdown(socket.SHUT_WR)
                more = b""
    proxy.close()
    serving.join(10)
    server.close()
    return b"".join(got), back


def test_a_plain_request_is_the_only_one_of_its_connection() -> None:
    """What stands behind it, for another host behind the same address perhaps, is not sent."""
    first = (
        b"POST http://allowed.test/a HTTP/1.1\r\nHost: evil.test\r\nhOsT:evil.test\r\nContent-Length: 4\r\nX: y\r\n\r\n"
    )

    got, back = through(first + b"bodyGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")

    assert (
        b"POST /a HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\nContent-Length: 4\r\nX: y\r\n\r\nbody"
    ) == got
    assert back.startswith(b"HTTP/1.1 204")


@pytest.mark.parametrize(
    "host, words",
    [
        ("evil.test", b"lets nothing out there (403 "),
        ("allowed.test", b"lets this out, but the host could not be reached"),
    ],
)
def test_a_host_that_is_down_is_not_called_forbidden(host: str, words: bytes) -> None:
    """Who reads the refusal learns whether allowing the host would help."""

    def connect(name: str, port: int) -> socket.socket:
        raise OSError(f"{name}:{port} is not there")

    proxy = Egress(Allowlist.of(["allowed.test"]), connect)
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(proxy.path)
        client.sendall(f"GET http://{host}/ HTTP/1.1\r\n\r\n".encode())
        back = b"".join(iter(lambda: client.recv(1_000), b""))
    proxy.close()

    assert words in back


def hello(name: str | None) -> bytes:
    """Return how TLS begins that asks for a host."""
    sent = ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname=name).do_handshake()
    return sent.read()


@pytest.mark.parametrize("name", ["allowed.test", "ALLOWED.test", None])
def test_tls_that_asks_for_the_host_that_is_allowed_is_carried(name: str | None) -> None:
    """Byte for byte, also where it comes in pieces, or names no host."""
    got, back = through(b"CONNECT allowed.test:443 HTTP/1.1\r\n\r\n", more=hello(name), said=b"")

    assert (hello(name)[:5], back) == (got[:5], b"HTTP/1.1 200 Connection established\r\n\r\n")
    assert len(got) == 5 + int.from_bytes(got[3:5])


@pytest.mark.parametrize("name, size", [("evil.test", None), ("allowed.test.evil.test", None), ("allowed.test", -9)])
@pytest.mark.parametrize("makes", ["whole", "nonsense", "one byte"])
def test_tls_for_another_host_is_not(name: str, size: int | None, makes: str) -> None:
    """One that stands behind the same address, and what is cut so that nobody can tell."""
    begins = {"whole": hello(name)[:size], "nonsense": b"\x16\x03\x01\xff\xff" + b"x" * 99, "one byte": b"\x16"}
    got, back = through(b"CONNECT allowed.test:443 HTTP/1.1\r\n\r\n", more=begins[makes], said=b"")

    assert (b"", b"HTTP/1.1 200 Connection established\r\n\r\n") == (got, back)


def test_a_tunnel_in_which_the_server_speaks_first_is_carried() -> None:
    """As with ssh and mail."""
    got, back = through(b"CONNECT allowed.test:443 HTTP/1.1\r\n\r\nhello", said=b"welcome")

    assert (b"hello", b"HTTP/1.1 200 Connection established\r\n\r\nwelcome") == (got, back)


@given(st.binary(max_size=300))
def test_no_record_breaks_its_reader(data: bytes) -> None:
    """Whatever stands there is a name, no name, or nothing that can be read."""
    name = server_name(data)
    assert name is None or isinstance(name, str)
    assert host_name(server_name(hello("a.test")) or "") == "a.test"


def test_a_proxy_ends_with_its_owner() -> None:
    """Nothing listens, and nothing is left on disk, once nobody has the fence."""
    proxy = Egress(Allowlist.of(["allowed.test"]))
    folder = Path(proxy.path).parent
    assert 0o700 == folder.stat().st_mode & 0o777

    del proxy
    gc.collect()

    assert not folder.exists()


def test_without_bubblewrap_there_is_no_way_out(workspace: Path) -> None:
    """Landlock's fence has no network of its own, so it has none at all."""
    policy = SandboxPolicy(workspace, network=("allowed.test",), landlock_alone=True)

    with pytest.raises(Refusal, match="only bubblewrap"):
        open_fence(policy, binary="no-such-bwrap")
