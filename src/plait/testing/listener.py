"""A loopback port that can stop listening and go on later without losing its number.

Floor: testing. Owns: the sockets of the port; never: connections.
"""

from __future__ import annotations

import socket
import sys
from typing import Final

_SHARE: Final = socket.SO_REUSEADDR if sys.platform == "linux" else socket.SO_REUSEPORT
"""Lets two of our sockets have the port while at most one listens; Linux then still refuses it to others."""


class Listener:
    """Holds one port; `listen` gives a socket that accepts, closing that socket makes connecting refused.

    A second socket is bound to the port and never listens: while the port is closed the system cannot give its
    number to anybody else.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self.host = host
        self._holder = self._bound(port)
        self.port: int = self._holder.getsockname()[1]

    def listen(self) -> socket.socket:
        """Return a listening socket; the caller closes it."""
        listening = self._bound(self.port)
        listening.listen(1024)
        return listening

    def close(self) -> None:
        """Give the port back."""
        self._holder.close()

    def _bound(self, port: int) -> socket.socket:
        # With the protocol named asyncio turns Nagle's delay off, without it every event would wait for the last one.
        bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            bound.setsockopt(socket.SOL_SOCKET, _SHARE, 1)
            bound.bind((self.host, port))
            bound.setblocking(False)
        except OSError:
            bound.close()
            raise
        return bound


def unused_url(host: str = "127.0.0.1") -> str:
    """Return the URL of a port at which nobody listens; connecting is refused."""
    listener = Listener(host)
    listener.close()
    return f"http://{host}:{listener.port}/v1"
