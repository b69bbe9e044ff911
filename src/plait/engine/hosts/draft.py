"""The answer of a step while it comes: what was said so far, and how much of it was shown.

Floor: 4. Owns: the fragments, and taking them back; never: the answer that is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence

from plait.core.events import AttemptReset, Piece, StreamEnd
from plait.core.messages import Message, Text
from plait.engine.observers import Observers
from plait.kernel.state import State


class Draft:
    """Takes the fragments of one turn's answers and shows them to who wants them."""

    def __init__(self, state: State, observers: Observers) -> None:
        self._state = state
        self._observers = observers
        self._pieces: list[Piece] = []
        self._shown = 0

    def begin(self, attempt: int) -> None:
        """Begin anew; what was shown of an earlier attempt is taken back."""
        if self._shown:
            self._observers.publish(AttemptReset(self._state.steps + 1, attempt, self._shown))
        self._forget()

    def take(self, pieces: Sequence[Piece]) -> None:
        """Take fragments as they come."""
        self._pieces.extend(pieces)
        self._shown += len(pieces)
        if self._observers.wants_deltas:
            self._observers.publish_pieces(pieces, self._state.steps + 1)

    def end(self) -> None:
        """Let the draft go: the answer is there."""
        self._forget()
        self._observers.publish(StreamEnd(self._state.steps + 1))

    def partial(self) -> Message | None:
        """Return what the model had said so far, once."""
        text = "".join(text for kind, text in self._pieces if kind == "content")
        self._pieces.clear()
        return Message("assistant", (Text(text),)) if text else None

    def _forget(self) -> None:
        self._pieces.clear()
        self._shown = 0
