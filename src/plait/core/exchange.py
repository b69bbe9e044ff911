"""What passes between the loop and a model: a view of the history out, a reply or a failure back.

Floor: 0. Owns: the shapes both sides agree on; never: a wire, or a decision to try again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from plait.core.errors import ErrorClass
from plait.core.messages import Message, StopReason
from plait.core.usage import Usage
from plait.core.values import dataclass

TOOLS_LOADED: Final = "tools_loaded"
"""Member of a result's data that says which tools it has loaded."""
RECEIPT_VERSION: Final = 1
TOOLS_MARK: Final = "tools"
"""Plait's own mark of messages that load tools and say nothing else."""

Purpose = Literal["step", "compaction", "repair", "side_query"]

TRANSIENT: frozenset[ErrorClass] = frozenset({"rate_limit", "overloaded", "unavailable", "timeout", "protocol"})
"""Classes of failure after which the same request may succeed."""


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: Mapping[str, object]
    """JSON Schema of the arguments; not sent where `custom_format` is given."""
    custom_format: Mapping[str, object] | None = None
    """Grammar of a tool that takes free text."""
    deferred: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """The first `length` messages of a history, without a copy; the same `epoch` means: nothing sent has changed.

    `extra` are messages that this request ends with and that are not part of the history.
    """

    epoch: int
    history: Sequence[Message]
    length: int
    extra: tuple[Message, ...] = ()

    @property
    def messages(self) -> list[Message]:
        """A copy of everything the view shows."""
        return [*self.history[: self.length], *self.extra]


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer: it exists only when the stream said that it is whole."""

    message: Message
    stop: StopReason
    usage: Usage = Usage.UNAVAILABLE
    raw_stop: str | None = None
    """The provider's own word for why it stopped."""
    details: Mapping[str, object] | None = None
    """What identifies the response: id, model, provider, as they were reported."""
    sent: str = ""
    """Digest of the request that this answers, cache markers left out; empty where the model does not tell."""
    halt: Exception | None = None
    """Ends the turn once the answer is recorded: it is paid for, and nothing may follow it."""


class ProviderFailed(Exception):
    """One attempt of one model request failed; the loop decides what follows.

    `partial` is what had arrived; `tokens` the (requested, limit) that an overflow named, where it named them;
    `phase` one of connect, headers, stream, decode.
    """

    def __init__(
        self,
        kind: ErrorClass,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        retry_after_s: float | None = None,
        retryable: bool | None = None,
        tokens: tuple[int | None, int | None] | None = None,
        partial: Message | None = None,
        usage: Usage | None = None,
        phase: str = "",
        detail: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(message)
        self.kind: ErrorClass = kind
        self.message = message
        self.status = status
        self.code = code
        self.retry_after_s = retry_after_s
        self.retryable = kind in TRANSIENT if retryable is None else retryable
        self.tokens = tokens
        self.partial = partial
        self.usage = usage
        self.phase = phase
        self.detail = detail
        """A narrower word than the class, such as `incomplete_stream` or `not_event_stream`."""
        self.hint = hint
        self.bounds: tuple[int, int] | None = None
        """Of an overflow that is played back: which messages gave way to a summary then."""
        self.gave_up = ""
        """Why the request is not made again though it might succeed, in words; empty where it would not."""

    def __str__(self) -> str:
        return f"{self.message}; {self.gave_up}" if self.gave_up else self.message


def loaded_receipt(names: Sequence[str], surface: str = "", run: str = "") -> dict[str, object]:
    """Return data of a result that say which tools it has loaded, for which surface and run."""
    return {TOOLS_LOADED: {"version": RECEIPT_VERSION, "surface": surface, "run": run, "names": list(names)}}
