"""How much one answer may hold: text, events and tool calls.

Floor: 1. Owns: the bounds and the sentences about them; never: a wire's rules.

The longest answers of today's models are some 128,000 tokens: half a million characters in as many events. A server
that never stops, by mistake or to do harm, should be stopped before memory is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plait.core.events import Piece
from plait.wire.sse import Event

TEXT_CHARS_MAX: Final = 8 * 1024 * 1024
"""Words, thoughts, arguments and a provider's own records of one answer."""
EVENTS_MAX: Final = 1_000_000
"""Events of one stream: each leaves something behind, however small it is."""
CALLS_MAX: Final = 1_024
"""Tool calls of one answer."""


class Bounds:
    """Counts what one answer brings, read by read."""

    __slots__ = ("_chars", "_events")

    def __init__(self) -> None:
        self._events = 0
        self._chars = 0

    def problem_with(self, events: Sequence[Event], pieces: Sequence[Piece], calls: int) -> str:
        """Take the events of one read, the pieces they showed and the calls so far; return what is too much, or "".

        Events that show nothing count by their size: they bring what is kept for the provider.
        """
        self._events += len(events)
        self._chars += sum([len(text) for _, text in pieces or events])
        if calls > CALLS_MAX:
            return f"the answer has more than {CALLS_MAX:,} tool calls"
        if self._chars > TEXT_CHARS_MAX:
            return f"the answer is longer than {TEXT_CHARS_MAX:,} characters"
        return f"the answer has more than {EVENTS_MAX:,} events" if self._events > EVENTS_MAX else ""
