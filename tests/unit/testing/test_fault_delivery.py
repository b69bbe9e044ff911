"""What a client's socket sees of each fault."""

from __future__ import annotations

import json
import socket
import time
from urllib.parse import urlsplit

import pytest

from plait.testing import Say, ScriptServer, faults
from plait.testing.faults import FAULTS, Fault, Phase, Step

BODY = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}).encode()
REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
TEXT = Say("one two three")


def connect(server: ScriptServer) -> socket.socket:
    """Open a connection to the server."""
    parts = urlsplit(server.url)
    return socket.create_connection((parts.hostname, parts.port), timeout=5)


def read(opened: socket.socket) -> tuple[bytes, str]:
    """Read until the connection ends; say how it ended."""
    data = b""
    try:
        while piece := opened.recv(65_536):
            data += piece
    except ConnectionResetError:
        return data, "reset"
    except TimeoutError:
        return data, "silence"
    return data, "end"


def exchange(step: Step, timeout_s: float = 5) -> tuple[bytes, str]:
    """Send one request to a server with one step; return what came and how it ended."""
    with ScriptServer([step]) as server, connect(server) as opened:
        opened.settimeout(timeout_s)
        opened.sendall(REQUEST)
        return read(opened)


@pytest.mark.parametrize("at", ["before_headers", "mid_headers", "after_headers", "mid_event", "before_done"])
def test_a_reset_reaches_the_client_at_every_phase(at: Phase) -> None:
    """What was sent before is read, then the connection is reset."""
    data, end = exchange(faults.Reset(at, answer=TEXT))

    assert "reset" == end
    assert (at == "before_headers") == (data == b"")
    assert b"[DONE]" not in data


@pytest.mark.parametrize("at", ["before_headers", "mid_headers", "after_headers", "mid_event", "before_end"])
def test_a_cut_reaches_the_client_at_every_phase(at: Phase) -> None:
    """A cut connection ends in good order, in the middle of what it said."""
    data, end = exchange(faults.Cut(at, answer=TEXT))

    assert "end" == end
    assert not data.endswith(b"0\r\n\r\n")
    assert (at == "before_end") == (b"[DONE]" in data)


@pytest.mark.parametrize("at", ["before_headers", "mid_headers", "after_headers", "mid_event"])
def test_a_stall_is_silence_at_every_phase(at: Phase) -> None:
    """Nothing more comes, and the connection stays open."""
    data, end = exchange(faults.Stall(at, answer=TEXT), timeout_s=0.1)

    assert "silence" == end
    assert b"[DONE]" not in data


def test_a_held_response_waits_for_the_test() -> None:
    """Nothing comes before the gate opens; then the whole response has come."""
    hold = faults.Hold("after_headers", answer=TEXT)
    with ScriptServer([hold]) as server, connect(server) as opened:
        opened.settimeout(0.05)
        opened.sendall(REQUEST)
        before, _ = read(opened)
        hold.gate.set()
        opened.settimeout(5)
        after = b""
        while not after.endswith(b"0\r\n\r\n"):
            after += opened.recv(65_536)

    assert before.endswith(b"\r\n\r\n")
    assert b"[DONE]" in after


def test_a_half_closed_connection_still_listens() -> None:
    """The server's side ends; the client can go on writing without a reset."""
    with ScriptServer([faults.HalfClose("after_event", answer=TEXT)]) as server, connect(server) as opened:
        opened.sendall(REQUEST)
        _, end = read(opened)
        opened.sendall(b"still here")
        time.sleep(0.02)
        opened.sendall(b"and here")

        assert ("end", 1) == (end, server.open_connections)


def test_a_slow_response_drips() -> None:
    """The response comes in pieces of the given size."""
    with ScriptServer([faults.Slow(0.002, size_bytes=40, answer=Say("hi"))]) as server, connect(server) as opened:
        opened.sendall(REQUEST)
        opened.settimeout(5)
        sizes = []
        data = b""
        while not data.endswith(b"0\r\n\r\n"):
            data += (piece := opened.recv(65_536))
            sizes.append(len(piece))

    assert len(sizes) > 5
    assert b"[DONE]" in data


def test_a_long_line_can_be_left() -> None:
    """A client that has had enough of a line of a gigabyte hangs up, and the server does not mind."""
    with ScriptServer([faults.LongLine(answer=TEXT)]) as server:
        with connect(server) as opened:
            opened.sendall(REQUEST)
            got = 0
            while got < 1 << 20:
                got += len(opened.recv(65_536))
        server.wait_for_idle()


def test_a_wrong_length_ends_early() -> None:
    """Fewer bytes come than the header promised, then the connection ends."""
    data, end = exchange(faults.WrongLength(10, answer=TEXT))
    head, _, body = data.partition(b"\r\n\r\n")

    assert "end" == end
    assert f"Content-Length: {len(body) + 10}".encode() in head


def test_a_refused_connection_is_refused() -> None:
    """While it lasts nobody listens; afterwards the same port serves the next step."""
    with ScriptServer(["one", faults.Refuse(0.1), "two"]) as server:
        address = (urlsplit(server.url).hostname, urlsplit(server.url).port)
        with connect(server) as opened:
            opened.sendall(REQUEST)
            assert b"Connection: close" in opened.recv(65_536)
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(address)
        deadline = time.monotonic() + 5
        while True:
            try:
                opened = connect(server)
                break
            except ConnectionRefusedError:
                assert time.monotonic() < deadline
                time.sleep(0.01)
        with opened:
            opened.sendall(REQUEST)
            assert b"200 OK" in opened.recv(65_536)


def test_refusing_can_come_first() -> None:
    """A script may begin with nobody listening."""
    script = [faults.Refuse(60), "never"]
    with ScriptServer(script, allow_unused=True) as server, pytest.raises(ConnectionRefusedError):
        connect(server)


def test_refuse_from_a_function_is_a_reset() -> None:
    """A function is asked when the request has come; then all that is left is a reset."""
    with ScriptServer(lambda request: faults.Refuse()) as server, connect(server) as opened:
        opened.sendall(REQUEST)

        assert (b"", "reset") == read(opened)


ENDLESS = {"refuse", "stall", "bad_chunk", "half_close", "long_line", "reset"}


@pytest.mark.parametrize("name", sorted(set(FAULTS) - ENDLESS))
def test_every_other_fault_is_a_response(name: str) -> None:
    """A fault that does not break the connection sends a status line and ends or keeps the connection."""
    step: Fault = faults.Status(429) if name == "status" else FAULTS[name]()
    if isinstance(step, faults.Slow):
        step = faults.Slow(0.0001, 100)
    data, _ = exchange(step, timeout_s=0.05)

    assert data.startswith(b"HTTP/1.1 ")
