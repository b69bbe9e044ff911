"""What a turn comes to, for the one who asked.

Floor: 4. Owns: how an end reads as a status, a text and an error; never: how it came about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Final, Generic, Literal, cast

from plait.core.errors import InvalidOutput, LimitReached, ModelProtocolError, PlaitError
from plait.core.exchange import ProviderFailed
from plait.core.messages import Message
from plait.core.usage import Usage
from plait.core.values import dataclass
from plait.engine.limits import COST_UNKNOWN
from plait.kernel.effects import End

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=str)
else:
    from typing import TypeVar

    T = TypeVar("T")
"""What an answer is: text, unless an output type was asked for."""

INVALID_OUTPUT: Final = "invalid_output"
"""Why a turn ended whose answer did not fit the output type."""
Status = Literal["completed", "waiting", "interrupted", "limit", "error"]

_STATUS: Final[Mapping[str, Status]] = {
    "completed": "completed",
    "approval_required": "waiting",
    "waiting": "waiting",
    "interrupted": "interrupted",
    "cancelled": "interrupted",
    "superseded": "interrupted",
    "shutdown": "interrupted",
    "timeout": "interrupted",
    "max_steps": "limit",
    "limit": "limit",
    COST_UNKNOWN: "limit",
    "loop_guard": "limit",
    "truncated": "limit",
    "plan_denied": "limit",
    "stopped": "limit",
    "policy_stop": "limit",
}


@dataclass(frozen=True, slots=True)
class RunResult(Generic[T]):
    """The outcome of one run; `str()` of it is the text."""

    text: str
    """The answer, or a sentence that says why there is none."""
    status: Status
    reason: str
    """The end's own word: completed, max_steps, loop_guard, error, …"""
    error: PlaitError | None
    usage: Usage
    messages: Sequence[Message] = field(repr=False)
    """The whole conversation, this turn included."""
    steps: int
    """Model answers of this turn."""
    _value: T | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.text

    @property
    def output(self) -> T:
        """The answer as the type that was asked for; the text where none was.

        Raises:
            PlaitError: the run did not come to an answer; it is the one in `error`, where that holds one.
        """
        return output_of(self.status, self.error, self._value)

    def raise_for_status(self) -> RunResult[T]:
        """Return the result, or raise its error."""
        if self.error is not None:
            raise self.error
        return self


_RAISE: Final = "raise the limit, or make the task smaller"
_HINTS: Final = {
    COST_UNKNOWN: "say what the model costs in prices.json, or leave out the limit of money",
    "loop_guard": "see what stands in the model's way, then put the task differently or choose another model",
}
"""Advice for ends that a higher limit would not change."""


def output_of(status: Status, error: PlaitError | None, value: T | None) -> T:
    """Return the value of a completed turn; raise the error of any other."""
    if error is not None:
        raise error
    if status != "completed":
        raise PlaitError(f"there is no output: the turn ended as {status!r}", hint="look at its status first")
    return cast("T", value)


def status_of(reason: str) -> Status:
    """Return the status that a turn's end is told as; an unknown reason is an error."""
    return _STATUS.get(reason, "error")


def error_of(end: End, *, model: str, endpoint: str) -> PlaitError | None:
    """Return the error of an end that has one. An exception that is a bug, not an outcome, is raised."""
    cause = end.error
    if isinstance(cause, ProviderFailed):
        from plait.models.errors import to_error  # most turns end well

        return to_error(cause, model=model, endpoint=endpoint)
    if isinstance(cause, PlaitError):
        return cause
    if cause is not None:
        raise cause
    if end.reason == INVALID_OUTPUT:
        return InvalidOutput(end.detail, text=end.reply or "")
    if end.reason == "timeout":
        return LimitReached("the time for this turn is over", limit="timeout", hint="allow more time, or ask for less")
    status = status_of(end.reason)
    if status == "limit":
        return LimitReached(end.detail or end.reason, limit=end.reason, hint=_HINTS.get(end.reason, _RAISE))
    if status == "error":
        return ModelProtocolError(end.detail or f"the turn ended with {end.reason!r}")
    return None


def text_of(end: End, error: PlaitError | None) -> str:
    """Return the answer, or the sentence that stands for it."""
    if end.reply is not None:
        return end.reply
    if end.reason == "plan_denied":
        return end.detail
    if status_of(end.reason) == "limit":
        return f"Stopped: {end.detail or end.reason}"
    if error is not None:
        return f"Failed: {error.message}"
    return "" if end.reason == "completed" else f"Stopped: {end.detail or end.reason.replace('_', ' ')}"
