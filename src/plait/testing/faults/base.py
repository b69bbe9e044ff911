"""What every fault is built from: the places of a response, and the seam between answer and socket.

Floor: testing. Owns: `Fault`, `Serving`, cutting a response at a place; never: a particular fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from plait.testing.dialects import Dialect
from plait.testing.response import Op, Response, Send
from plait.testing.steps import Answer

Phase: TypeAlias = Literal[
    "before_headers", "mid_headers", "after_headers", "mid_event", "after_event", "before_done", "before_end"
]
At: TypeAlias = Phase | int
"""Where in the response; a number means after so many bytes of the body as it travels.

`mid_event` and `after_event` mean the middle event, `before_done` leaves the last event out, `before_end` sends every
event but not what ends the body.
"""

_TEXT: Final = "The quick brown fox jumps over the lazy dog, and then it comes back."


@dataclass(frozen=True, slots=True)
class Serving:
    """What a fault may use: the API shape, and the response to any other step."""

    dialect: Dialect
    render: Callable[[Step], Response]


@dataclass(frozen=True, slots=True)
class Fault:
    """The base of all faults; on its own it changes nothing."""

    answer: Step = field(default=_TEXT, kw_only=True)
    """What the server would have said."""

    def respond(self, serving: Serving) -> Response:
        """Return the response, changed where this fault changes it."""
        return serving.render(self.answer)

    def plan(self, response: Response) -> Iterable[Op]:
        """Return what the connection does, changed where this fault changes it."""
        return self.answer.plan(response) if isinstance(self.answer, Fault) else response.plan()


Step: TypeAlias = Answer | Fault
"""One entry of a script for a server."""

_PLACES: Final = get_args(Phase)


@dataclass(frozen=True, slots=True)
class BreakingOff(Fault):
    """A fault that sends the response up to a place; the base of those that differ in what comes then.

    Raises:
        ValueError: there is no such place.
    """

    at: At = "mid_event"

    def __post_init__(self) -> None:
        if not isinstance(self.at, int) and self.at not in _PLACES:
            raise ValueError(f"no place in a response is called {self.at!r}; known: {', '.join(_PLACES)}")


def until(response: Response, at: At) -> Iterable[Op]:
    """Plan the response up to a place in it."""
    head = response.head()
    if at == "before_headers":
        return
    if at == "mid_headers":
        yield Send(head[: len(head) // 2])
        return
    yield Send(head)
    yield from (Send(frame) for frame in _upto(list(response.frames()), _offset(response, at)))


def _offset(response: Response, at: At) -> int:
    pieces = [len(response.frame(piece)) for piece in response.pieces if piece]
    if isinstance(at, int):
        return at
    middle = len(pieces) // 2
    places: dict[Phase, int] = {
        "after_headers": 0,
        "mid_event": sum(pieces[:middle]) + (pieces[middle] // 2 if pieces else 0),
        "after_event": sum(pieces[: middle + 1]),
        "before_done": sum(pieces[:-1]),
        "before_end": sum(pieces) - (response.framing != "chunked"),
    }
    return places[at]


def _upto(frames: list[bytes], size_bytes: int) -> Iterable[bytes]:
    for frame in frames:
        if size_bytes <= 0:
            return
        yield frame[:size_bytes]
        size_bytes -= len(frame)
