"""What a turn of a session came to.

Floor: 5. Owns: the shape of the answer to a caller; never: how it came about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Generic

from plait.core.errors import PlaitError
from plait.core.usage import Usage
from plait.core.values import dataclass
from plait.engine.result import Status, T, output_of


@dataclass(frozen=True, slots=True)
class SessionResult(Generic[T]):
    """The outcome of one turn. Whatever went wrong inside the turn stands here and is not raised."""

    session_id: str
    final_reply: str | None
    """This turn's answer; None when there is none."""
    usage: Mapping[str, int]
    """`{prompt, completion, total, cached, cache_write}` of the whole session."""
    messages: list[dict[str, Any]]
    """The session's own list, in the shape of chat-completions messages."""
    status: Status = "completed"
    error: PlaitError | None = None
    """Why the status is `limit` or `error`, or which deadline passed."""
    steps: int = 0
    """Model answers of this turn."""
    turn_usage: Usage = Usage.ZERO
    """Tokens and cost of this turn; what the endpoint did not report is None in it, not 0."""
    _value: T | None = field(default=None, repr=False)

    @property
    def output(self) -> T:
        """This turn's answer as the type that was asked for; the text where none was.

        Raises:
            PlaitError: the turn did not come to an answer; it is the one in `error`, where that holds one.
        """
        return output_of(self.status, self.error, self._value)

    def raise_for_status(self) -> SessionResult[T]:
        """Return the result, or raise its error."""
        if self.error is not None:
            raise self.error
        return self
