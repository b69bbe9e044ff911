"""The one way out of a fence that has some hosts allowed: a proxy of plait's own, on a socket bound into it.

Floor: 2. Owns: the proxy's protocol and its threads; never: the list (`allowlist`).

It speaks `CONNECT` and plain HTTP requests. It looks a name up itself and connects to the address that it has checked,
so that a name whose address changes in between leads nowhere else, and lets nobody ask there for another host
(`asked`). It ends with the fence's owner: what still runs inside then has no way out.
"""

from __future__ import annotations

import os
import select
import shutil
import socket
import tempfile
import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Final

from plait.hands.fence.allowlist import Allowlist, host_name, is_public
from plait.hands.fence.asked import HELLO_BYTES_MAX, TLS, Asked, Unclear, hello_bytes, read_request, server_name

Connect = Callable[[str, int], socket.socket]
"""Opens a connection to a host that is on the list; raises `OSError`."""

_HEAD_BYTES_MAX: Final = 32 * 1024
_HEAD_S: Final = 10.0
_CONNECT_S: Final = 15.0
_IDLE_S: Final = 300.0
_AT_A_TIME: Final = 64
_PIECE_BYTES: Final = 64 * 1024
_GO_AHEAD: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
_WHY: Final = {
    "403": "the sandbox lets nothing out there",
    "502": "the sandbox lets this out, but the host could not be reached",
}


class Egress:
    """A proxy that runs as long as this object is there. Safe in any thread."""

    def __init__(self, allowed: Allowlist, connect: Connect | None = None) -> None:
        """Listen on a socket that only this user can reach."""
        self._folder = tempfile.mkdtemp(prefix="plait-egress-")
        self.path = os.path.join(self._folder, "socket")
        """Where it listens."""
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(self.path)
        listening.listen(_AT_A_TIME)
        server = _Server(listening, allowed, connect or connect_publicly)
        threading.Thread(target=server.serve, name="plait-egress", daemon=True).start()
        self._end = weakref.finalize(self, _end, listening, self._folder)

    def close(self) -> None:
        """Listen no longer; connections that stand go on."""
        self._end()


def connect_publicly(host: str, port: int) -> socket.socket:
    """Connect to a host by one of its public addresses; raise `OSError` where it has none that answers."""
    problem: OSError = PermissionError(f"{host} has no public address")
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        if not is_public(str(address[0])):
            continue
        peer = socket.socket(family, kind, protocol)
        try:
            peer.settimeout(_CONNECT_S)
            peer.connect(address)
        except OSError as error:
            peer.close()
            problem = error
            continue
        return peer
    raise problem


def _end(listening: socket.socket, folder: str) -> None:
    with suppress(OSError):
        listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    shutil.rmtree(folder, ignore_errors=True)


class _Server:
    """Takes connections, each in a thread of its own; it does not know the object that keeps it alive."""

    def __init__(self, listening: socket.socket, allowed: Allowlist, connect: Connect) -> None:
        self._listening = listening
        self._allowed = allowed
        self._connect = connect
        self._room = threading.BoundedSemaphore(_AT_A_TIME)

    def serve(self) -> None:
        """Take connections until the socket is closed."""
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self._room.acquire()
            threading.Thread(target=self._handle, args=(client,), name="plait-egress", daemon=True).start()

    def _handle(self, client: socket.socket) -> None:
        with ExitStack() as stack:
            stack.callback(self._room.release)
            stack.enter_context(client)
            with suppress(OSError):
                client.settimeout(_HEAD_S)
                try:
                    head, rest = _read_head(client)
                    asked = read_request(head)
                    peer = stack.enter_context(self._reach(asked.host, asked.port))
                except Unclear as refused:
                    client.sendall(_answer(str(refused)))
                    return
                if asked.is_tunnel:
                    _tunnel(client, peer, rest, asked.host)
                else:
                    _one_request(client, peer, asked, rest)

    def _reach(self, host: str, port: str) -> socket.socket:
        if not port.isdecimal() or not self._allowed.allows(host, int(port)):
            raise Unclear("403 Forbidden")
        try:
            return self._connect(host, int(port))
        except PermissionError:
            raise Unclear("403 Forbidden") from None
        except OSError:
            raise Unclear("502 Bad Gateway") from None


def _read_head(client: socket.socket) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = client.recv(_PIECE_BYTES)
        if not piece or len(data) > _HEAD_BYTES_MAX:
            raise Unclear("400 Bad Request")
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def _answer(status: str) -> bytes:
    text = f"plait: {_WHY.get(status[:3], 'the way out of the sandbox takes no such request')} ({status})\n".encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n".encode() + text


def _one_request(client: socket.socket, peer: socket.socket, asked: Asked, body: bytes) -> None:
    """Send a request with its body, and nothing behind it; carry the answer back."""
    if asked.waits_for_go_ahead and not body:
        client.sendall(_GO_AHEAD)
    peer.sendall(asked.head + body[: asked.body_bytes])
    left = asked.body_bytes - len(body)
    while left > 0 and (piece := client.recv(min(left, _PIECE_BYTES))):
        peer.sendall(piece)
        left -= len(piece)
    peer.settimeout(_IDLE_S)
    while piece := peer.recv(_PIECE_BYTES):
        client.sendall(piece)


def _tunnel(client: socket.socket, peer: socket.socket, first: bytes, host: str) -> None:
    """Carry bytes both ways; where they begin as TLS, only when it asks for the host that is allowed."""
    client.sendall(_ESTABLISHED)
    client.settimeout(_IDLE_S)
    waiting = _until_said(client, peer, first)
    while waiting[:1] == bytes([TLS]) and len(waiting) < (hello_bytes(waiting) or HELLO_BYTES_MAX):
        piece = client.recv(_PIECE_BYTES)
        if not piece or len(waiting) > HELLO_BYTES_MAX:
            return
        waiting += piece
    if waiting[:1] == bytes([TLS]):
        name = server_name(waiting[: hello_bytes(waiting)])
        if name is None or (name and host_name(name) != host_name(host)):
            return
    peer.sendall(waiting)
    _relay(client, peer)


def _until_said(client: socket.socket, peer: socket.socket, first: bytes) -> bytes:
    """Return what the client says first; until then what the server says is carried back, as some protocols want it."""
    while not first:
        ready = select.select([client, peer], [], [], _IDLE_S)[0]
        if not ready:
            raise TimeoutError
        if peer in ready:
            if not (piece := peer.recv(_PIECE_BYTES)):
                return b""
            client.sendall(piece)
        if client in ready:
            return client.recv(_PIECE_BYTES)
    return first


def _relay(one: socket.socket, other: socket.socket) -> None:
    """Carry bytes both ways until both sides have ended, or neither says anything for a long time."""
    for peer in (one, other):
        peer.settimeout(_IDLE_S)
    back = threading.Thread(target=_carry, args=(other, one), name="plait-egress", daemon=True)
    back.start()
    _carry(one, other)
    back.join()


def _carry(source: socket.socket, target: socket.socket) -> None:
    try:
        while piece := source.recv(_PIECE_BYTES):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for peer in (source, target):
            with suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
