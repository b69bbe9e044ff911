"""Inside a fence with a way out: takes connections on loopback and hands them to the proxy's socket.

Floor: 2. Owns: that one process; never: a module of plait (`confine` starts it), or a decision: the proxy makes them.
"""

from __future__ import annotations

import os
import select
import signal
import socket
from contextlib import suppress

_PIECE_BYTES = 64 * 1024


def start(port: int, path: str) -> None:
    """Listen on loopback, and leave a process behind that forwards what comes there to the socket at `path`."""
    listening = socket.create_server(("127.0.0.1", port), backlog=64)
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        listening.close()
        return
    if os.fork():
        os._exit(0)  # whoever forwards is nobody's child, so that the command does not wait for it
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a peer that has gone is no reason to go, too
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    try:
        _serve(listening, path)
    finally:
        os._exit(1)


def _serve(listening: socket.socket, path: str) -> None:
    """Carry bytes between pairs of sockets, a piece at a time."""
    other: dict[socket.socket, socket.socket] = {}
    while True:
        for ready in select.select([listening, *other], [], [])[0]:
            if ready is listening:
                _accept(listening, path, other)
            elif ready in other:
                _carry(ready, other)


def _accept(listening: socket.socket, path: str, other: dict[socket.socket, socket.socket]) -> None:
    client, _ = listening.accept()
    peer = socket.socket(socket.AF_UNIX)
    try:
        peer.connect(path)
    except OSError:
        client.close()
        peer.close()
        return
    other[client], other[peer] = peer, client


def _carry(source: socket.socket, other: dict[socket.socket, socket.socket]) -> None:
    target = other[source]
    try:
        piece = source.recv(_PIECE_BYTES)
        target.sendall(piece)
    except OSError:
        piece = b""
        other.pop(target, None)
    if piece:
        return
    del other[source]
    if target in other:
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)
        return
    source.close()
    target.close()
