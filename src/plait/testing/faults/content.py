"""Faults of the content: a response that arrives and is not what was asked for.

Floor: testing. Owns: changed statuses, headers and bodies; never: how they are sent.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from plait.testing.faults.base import Fault, Serving
from plait.testing.response import Fin, Op, Response, reason_of


@dataclass(frozen=True, slots=True)
class Status(Fault):
    """An error answer: any status, headers and body; without a body, the API's own words for it."""

    status: int
    body: str | bytes | Mapping[str, object] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def respond(self, serving: Serving) -> Response:
        if self.body is None:
            response = serving.dialect.error(self.status, f"{reason_of(self.status)} (scripted)")
            return replace(response, headers={**response.headers, **self.headers})
        if isinstance(self.body, Mapping):
            body = json.dumps(self.body).encode("ascii")
        else:
            body = self.body if isinstance(self.body, bytes) else self.body.encode()
        return Response((body,), {"Content-Type": "application/json", **self.headers}, self.status)

    def plan(self, response: Response) -> Iterable[Op]:
        return response.plan()


@dataclass(frozen=True, slots=True)
class Html(Fault):
    """A web page where an answer was asked for: a login page, a wrong base URL."""

    status: int = 200

    def respond(self, serving: Serving) -> Response:
        page = b"<!doctype html>\n<html><head><title>Sign in</title></head><body>Please sign in.</body></html>\n"
        return Response((page,), {"Content-Type": "text/html; charset=utf-8"}, self.status)


@dataclass(frozen=True, slots=True)
class Empty(Fault):
    """A success with no body at all."""

    status: int = 200
    content_type: str = "text/event-stream"

    def respond(self, serving: Serving) -> Response:
        return Response((), {"Content-Type": self.content_type}, self.status)


@dataclass(frozen=True, slots=True)
class StreamError(Fault):
    """A 200 stream in which an error object comes after `after` events; without a stream, an error document."""

    error: Mapping[str, object] = field(
        default_factory=lambda: {"message": "the model crashed", "type": "server_error", "code": 500}
    )
    after: int = 2
    done: bool = False
    """Whether the stream is then ended as if all were well."""

    def respond(self, serving: Serving) -> Response:
        response = serving.render(self.answer)
        if response.framing != "chunked":
            body = json.dumps({"error": self.error}).encode("ascii")
            return replace(response, pieces=(body,))
        ending = response.pieces[-1:] if self.done else ()
        return replace(
            response, pieces=(*response.pieces[: self.after], serving.dialect.error_event(self.error), *ending)
        )


@dataclass(frozen=True, slots=True)
class NoDone(Fault):
    """A stream that ends without the event that says so."""

    def respond(self, serving: Serving) -> Response:
        response = serving.render(self.answer)
        return replace(response, pieces=serving.dialect.without_done(response.pieces))


@dataclass(frozen=True, slots=True)
class NoFinish(Fault):
    """A stream that ends in good order and never says why the model stopped."""

    def respond(self, serving: Serving) -> Response:
        response = serving.render(self.answer)
        return replace(response, pieces=serving.dialect.without_finish(response.pieces))


@dataclass(frozen=True, slots=True)
class WrongType(Fault):
    """The right body under the wrong Content-Type; an empty one leaves the header out."""

    content_type: str = "text/plain"

    def respond(self, serving: Serving) -> Response:
        response = serving.render(self.answer)
        headers = {name: value for name, value in response.headers.items() if name != "Content-Type"}
        return replace(
            response, headers={**headers, **({"Content-Type": self.content_type} if self.content_type else {})}
        )


@dataclass(frozen=True, slots=True)
class LineEnds(Fault):
    """A stream whose lines end in CR or CRLF."""

    ending: Literal["\r", "\r\n"] = "\r\n"

    def respond(self, serving: Serving) -> Response:
        response = serving.render(self.answer)
        ending = self.ending.encode()
        return replace(response, pieces=tuple(piece.replace(b"\n", ending) for piece in response.pieces))


@dataclass(frozen=True, slots=True)
class KeepAlives(Fault):
    """`count` comments, `gap_s` apart, before the first event."""

    count: int = 3
    gap_s: float = 0.0

    def respond(self, serving: Serving) -> Response:
        response = serving.render(self.answer)
        comments = (b": still working\n\n",) * self.count
        return replace(response, pieces=(*comments, *response.pieces), gap_s=self.gap_s or response.gap_s)


@dataclass(frozen=True, slots=True)
class WrongLength(Fault):
    """Content-Length is off by `by` bytes, and the connection closes after the body."""

    by: int = 10

    def respond(self, serving: Serving) -> Response:
        response = serving.render(self.answer)
        return replace(response, framing="length", declared_length=max(0, len(response.body) + self.by))

    def plan(self, response: Response) -> Iterable[Op]:
        return (*response.plan(), Fin())


@dataclass(frozen=True, slots=True)
class Gzip(Fault):
    """The body is compressed, in good order or damaged."""

    damage: Literal["none", "corrupt", "truncated"] = "none"

    def respond(self, serving: Serving) -> Response:
        response = serving.render(self.answer)
        packed = gzip.compress(response.body, mtime=0)
        if self.damage == "truncated":
            packed = packed[: len(packed) // 2]
        if self.damage == "corrupt":
            middle = len(packed) // 2
            packed = packed[:middle] + bytes(byte ^ 0xFF for byte in packed[middle : middle + 8]) + packed[middle + 8 :]
        return replace(response, pieces=(packed,), headers={**response.headers, "Content-Encoding": "gzip"})


@dataclass(frozen=True, slots=True)
class Split(Fault):
    """The body is cut without regard to events: every `size_bytes`, or at random places for a `seed`."""

    size_bytes: int = 1
    seed: int | None = None

    def respond(self, serving: Serving) -> Response:
        response = serving.render(self.answer)
        return replace(response, pieces=tuple(self._cut(response.body)), framing="chunked")

    def _cut(self, body: bytes) -> Iterable[bytes]:
        dice = random.Random(self.seed)
        at = 0
        while at < len(body):
            size = self.size_bytes if self.seed is None else dice.randint(1, 40)
            yield body[at : at + size]
            at += size
