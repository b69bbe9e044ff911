"""Faults of the connection: the right response that does not arrive as it should.

Floor: testing. Owns: plans that break off, wait or drip; never: what the response says.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from plait.testing.dialects import server_error
from plait.testing.faults.base import BreakingOff, Fault, Serving, until
from plait.testing.response import Fin, HalfFin, Hang, Op, Pause, Repeat, Response, Rst, Send, Until

_SETTLE_S: Final = 0.02
"""How long a client gets to read what was sent before the connection is reset under it."""
_FILLER: Final = b"x" * 65_536


@dataclass(frozen=True, slots=True)
class Refuse(Fault):
    """Nobody listens: from the moment this is the next step, for `for_s` seconds, connecting is refused.

    Kept connections are closed too. In a script that is a function it resets the connection instead.
    """

    for_s: float = 0.3

    def respond(self, serving: Serving) -> Response:
        return server_error(503, "this connection is about to be reset")

    def plan(self, response: Response) -> Iterable[Op]:
        return (Rst(),)


@dataclass(frozen=True, slots=True)
class Reset(BreakingOff):
    """The connection is reset (RST) at a place of the response."""

    def plan(self, response: Response) -> Iterable[Op]:
        return (*until(response, self.at), Pause(_SETTLE_S), Rst())


@dataclass(frozen=True, slots=True)
class Cut(BreakingOff):
    """The connection is closed in good order (FIN) at a place of the response."""

    def plan(self, response: Response) -> Iterable[Op]:
        return (*until(response, self.at), Fin())


@dataclass(frozen=True, slots=True)
class HalfClose(BreakingOff):
    """The server ends its own side at a place of the response and goes on listening."""

    def plan(self, response: Response) -> Iterable[Op]:
        return (*until(response, self.at), HalfFin())


@dataclass(frozen=True, slots=True)
class Stall(BreakingOff):
    """Nothing more comes after a place of the response; with `for_s` the rest follows after that time."""

    for_s: float | None = None

    def plan(self, response: Response) -> Iterable[Op]:
        sent = tuple(until(response, self.at))
        if self.for_s is None:
            return (*sent, Hang())
        return (*sent, Pause(self.for_s), Send(_rest(response, sent)))


@dataclass(frozen=True, slots=True)
class Hold(BreakingOff):
    """Nothing more comes after a place of the response until the test sets `gate`; then the rest follows.

    For tests that must do something while a request is under way. Not for script files.
    """

    gate: threading.Event = field(default_factory=threading.Event)

    def plan(self, response: Response) -> Iterable[Op]:
        sent = tuple(until(response, self.at))
        return (*sent, Until(self.gate), Send(_rest(response, sent)))


@dataclass(frozen=True, slots=True)
class Slow(Fault):
    """The whole response, status line included, drips: `size_bytes` at a time, `gap_s` apart."""

    gap_s: float = 0.05
    size_bytes: int = 1

    def plan(self, response: Response) -> Iterable[Op]:
        whole = response.head() + b"".join(response.frames())
        for at in range(0, len(whole), self.size_bytes):
            yield Send(whole[at : at + self.size_bytes])
            yield Pause(self.gap_s)


@dataclass(frozen=True, slots=True)
class BadChunk(Fault):
    """After the middle event the size of a chunk is no number."""

    def plan(self, response: Response) -> Iterable[Op]:
        return (*until(response, "after_event"), Send(b"zz\r\nnot a chunk\r\n"), Hang())


@dataclass(frozen=True, slots=True)
class LongLine(Fault):
    """A stream whose only event is one line of `size_bytes` that never ends."""

    size_bytes: int = 1 << 30

    def respond(self, serving: Serving) -> Response:
        return Response((), {"Content-Type": "text/event-stream"}, framing="close")

    def plan(self, response: Response) -> Iterable[Op]:
        opening = b'data: {"choices":[{"index":0,"delta":{"content":"'
        times = -(-self.size_bytes // len(_FILLER))
        return (Send(response.head() + opening), Repeat(_FILLER, times), Fin())


@dataclass(frozen=True, slots=True)
class EarlyHints(Fault):
    """An informational response (103) comes before the real one."""

    def plan(self, response: Response) -> Iterable[Op]:
        hint = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"
        return (Send(hint), *response.plan())


def _rest(response: Response, sent: Iterable[Op]) -> bytes:
    whole = response.head() + b"".join(response.frames())
    return whole[sum(len(op.data) for op in sent if isinstance(op, Send)) :]
