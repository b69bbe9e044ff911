"""The one way out of a fence that has some hosts allowed: a proxy of plait's own, on a socket bound into it.

Floor: 2. Owns: the proxy's protocol and its threads; never: the list (`allowlist`).

It speaks `CONNECT` and plain HTTP requests. It looks a name up itself and connects to the address that it has checked,
so that a name whose address changes in between leads nowhere else. It ends with the fence's owner: what still runs
inside then has no way out.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Final
from urllib.parse import urlsplit

from plait.hands.fence.allowlist import Allowlist, is_public

Connect = Callable[[str, int], socket.socket]
"""Opens a connection to a host that is on the list; raises `OSError`."""

_HEAD_BYTES_MAX: Final = 32 * 1024
_HEAD_S: Final = 10.0
_CONNECT_S: Final = 15.0
_IDLE_S: Final = 300.0
_AT_A_TIME: Final = 64
_PIECE_BYTES: Final = 64 * 1024
_ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"


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


class _Refused(Exception):
    """The answer to a request that goes nowhere: a status line's number and reason."""


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
                    peer, first, answer = self._opened(client)
                except _Refused as refused:
                    client.sendall(_answer(str(refused)))
                    return
                stack.enter_context(peer)
                client.sendall(answer)
                peer.sendall(first)
                _relay(client, peer)

    def _opened(self, client: socket.socket) -> tuple[socket.socket, bytes, bytes]:
        """Return the connection that a request asks for, what is sent there first, and what the client gets first."""
        head, rest = _read_head(client)
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise _Refused("400 Bad Request")
        method, target, version = words
        if method == "CONNECT":
            host, _, port = target.rpartition(":")
            return self._reach(host, port), rest, _ESTABLISHED
        try:
            url = urlsplit(target)
            host, port = url.hostname or "", str(url.port or 80)
        except ValueError:
            raise _Refused("400 Bad Request") from None
        if url.scheme != "http" or url.username is not None:
            raise _Refused("400 Bad Request")
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        dropped = ("host:", "connection:", "proxy-", "keep-alive:")
        kept = [line for line in lines[1:] if line and not line.lower().startswith(dropped)]
        place = host if port == "80" else f"{host}:{port}"
        asked = [f"{method} {path} {version}", f"Host: {place}", "Connection: close", *kept, "", ""]
        return self._reach(host, port), "\r\n".join(asked).encode("latin-1") + rest, b""

    def _reach(self, host: str, port: str) -> socket.socket:
        if not port.isdecimal() or not self._allowed.allows(host, int(port)):
            raise _Refused("403 Forbidden")
        try:
            return self._connect(host, int(port))
        except PermissionError:
            raise _Refused("403 Forbidden") from None
        except OSError:
            raise _Refused("502 Bad Gateway") from None


def _read_head(client: socket.socket) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = client.recv(_PIECE_BYTES)
        if not piece or len(data) > _HEAD_BYTES_MAX:
            raise _Refused("400 Bad Request")
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def _answer(status: str) -> bytes:
    text = f"plait: the sandbox lets nothing out there ({status})\n".encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n".encode() + text


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
