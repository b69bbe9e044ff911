"""An HTTP response as data, and the plan by which it reaches a socket.

Floor: testing. Owns: status line, headers, body framing, the operations a connection can carry out; never: sockets.

A response is planned before anything is sent, so a fault is a pure change of a response or of its plan.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from http import HTTPStatus
from typing import Literal, TypeAlias

from plait.core.values import dataclass

Framing = Literal["length", "chunked", "close", "none"]
"""How the end of a body is told; `none` sends the pieces alone, without even a status line."""


@dataclass(frozen=True, slots=True)
class Send:
    """Write these bytes and flush them."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Repeat:
    """Write `data` so many times; a body of any size costs no memory."""

    data: bytes
    times: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Send nothing for so long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Until:
    """Send nothing until somebody sets the event."""

    event: threading.Event


@dataclass(frozen=True, slots=True)
class Hang:
    """Send nothing until the client goes away or the server closes."""


@dataclass(frozen=True, slots=True)
class Fin:
    """End the connection in good order (FIN)."""


@dataclass(frozen=True, slots=True)
class HalfFin:
    """End only our side and go on listening until the client goes away."""


@dataclass(frozen=True, slots=True)
class Rst:
    """End the connection at once (RST); bytes that are under way are lost."""


Op: TypeAlias = Send | Repeat | Pause | Until | Hang | Fin | HalfFin | Rst


def reason_of(status: int) -> str:
    """Return the phrase that goes with a status, `Unknown` for one that nobody registered."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


@dataclass(frozen=True, slots=True)
class Response:
    """What the server means to say; `pieces` are the body, each flushed on its own."""

    pieces: tuple[bytes, ...]
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 200
    framing: Framing = "length"
    gap_s: float = 0.0
    """Pause between pieces."""
    delay_s: float = 0.0
    """Pause before the status line."""
    declared_length: int | None = None
    """A Content-Length to send in place of the true one."""

    @property
    def body(self) -> bytes:
        """The whole body, without its framing."""
        return b"".join(self.pieces)

    def head(self) -> bytes:
        """The status line and headers, with the framing's own header."""
        if self.framing == "none":
            return b""
        lines = [f"HTTP/1.1 {self.status} {reason_of(self.status)}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if self.framing == "length":
            length = sum(map(len, self.pieces)) if self.declared_length is None else self.declared_length
            lines.append(f"Content-Length: {length}")
        if self.framing == "chunked":
            lines.append("Transfer-Encoding: chunked")
        if self.framing == "close":
            lines.append("Connection: close")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def frame(self, piece: bytes) -> bytes:
        """Wrap one piece of the body as the framing wants it."""
        return b"%x\r\n%b\r\n" % (len(piece), piece) if self.framing == "chunked" else piece

    def last(self) -> bytes:
        """What ends the body."""
        return b"0\r\n\r\n" if self.framing == "chunked" else b""

    def frames(self) -> Iterator[bytes]:
        """The body as it travels, piece by piece; empty pieces are left out, for one would end a chunked body."""
        for piece in self.pieces:
            if piece:
                yield self.frame(piece)
        if self.framing == "chunked":
            yield self.last()

    def plan(self) -> Iterable[Op]:
        """Say how the response is sent when nothing is broken."""
        if not self.gap_s and self.framing == "length":
            yield Send(self.head() + b"".join(self.frames()))
            return
        yield Send(self.head())
        for frame in self.frames():
            if self.gap_s:
                yield Pause(self.gap_s)
            yield Send(frame)
        if self.framing in ("close", "none"):
            yield Fin()
