"""The vocabulary of everything that is remembered: a conversation is a fold of these.

Floor: 0. Owns: one frozen payload a fact type; never: bytes (`core.codec`) or the fold (`kernel.state`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from plait.core.messages import Message, StopReason, ToolResult
from plait.core.usage import Usage
from plait.core.values import dataclass


@dataclass(frozen=True, slots=True)
class TurnStart:
    """A turn began, or went on after a pause."""

    resumed: bool = False
    sender: str = ""
    """Who asked, when it was not the user: `kind:name`."""


@dataclass(frozen=True, slots=True)
class MessageAdded:
    """A message joined the history; `usage`, `stop` and `sent` come with an assistant's."""

    message: Message
    usage: Usage | None = None
    stop: StopReason | None = None
    sent: str = ""
    """Digest of the request that this answers, so that a replay can tell whether it would send the same."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A call waits for an answer from outside; the turn may end and go on in another process."""

    call_id: str
    request: str
    """Id under which the answer is looked up."""
    question: str = ""


@dataclass(frozen=True, slots=True)
class Decided:
    """The answer to `Asked` came."""

    call_id: str
    allow: bool
    reason: str = ""
    arguments: str | None = None
    """Other arguments than the model's, as JSON text, when the answer changed them."""


@dataclass(frozen=True, slots=True)
class ToolStart:
    """A call is about to run; durable before its effect can be seen."""

    call_id: str
    arguments: str | None = None
    """What runs, as JSON text, when a hook or an approver changed it."""
    intent: Mapping[str, object] | None = None
    """What recovery needs to find out whether the effect happened: target, hash before, hash after."""


@dataclass(frozen=True, slots=True)
class ToolEnd:
    """A call has its one result."""

    result: ToolResult


@dataclass(frozen=True, slots=True)
class RoundClosed:
    """All calls of a message are answered: the tool message is derived from their results, in call order."""

    of: int
    """Index in the history of the assistant message whose calls these were."""


SKIPPED: Final = frozenset({"compaction_skipped", "overflow_skipped"})
"""Why there is a `Reset` that replaces nothing."""
CLEAR: Final = "clear"
"""Why a `Reset` empties a history whose usage is counted anew from there."""
SIDE_QUERY: Final = "side_query"
"""What a note tells of a question beside the conversation."""
UNCOMPACT: Final = "uncompact"
"""Why a `Reset` puts back what a summary stood for."""


@dataclass(frozen=True, slots=True)
class Reset:
    """History from `start` to `end` was replaced: compaction, step reduction, clear, a host's edit."""

    start: int
    end: int
    messages: tuple[Message, ...]
    why: str
    usage: Usage | None = None
    """What making the replacement cost, when a model made it."""
    sizes: tuple[int, int] | None = field(default=None, compare=False)
    """Of a summary: tokens of the next request before it and after, as far as they were known or estimated then."""

    @property
    def is_skipped(self) -> bool:
        """True when nothing is replaced: a summary was paid for, and was of no use."""
        return self.why in SKIPPED


@dataclass(frozen=True, slots=True)
class RetryScheduled:
    """A model request failed and is tried again after `delay_ms`."""

    attempt: int
    delay_ms: int
    kind: str
    message: str = ""
    usage: Usage | None = None
    purpose: str = ""
    """`compaction` where it asked for a summary, empty for a step."""


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """The turn is over; `reason` as in `kernel.effects.End`."""

    reason: str
    detail: str = ""
    usage: Usage | None = None
    """What the request had used that failed, or was interrupted, and so ended the turn."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Recorded for people and reports, ignored by the fold."""

    type: str
    """One of `OBSERVATIONS`, or an application's own that begins with `x_`."""
    data: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A log that holds a type it cannot read is lost, so the mistake must not get that far.
        if not is_observation(self.type):
            raise ValueError(f"no observation has the type {self.type!r}; one of your own begins with 'x_'")


Fact = (
    TurnStart
    | MessageAdded
    | Asked
    | Decided
    | ToolStart
    | ToolEnd
    | RoundClosed
    | Reset
    | RetryScheduled
    | TurnEnd
    | Observation
)

SIDE_CALL: Final = "side_call"
"""A program has a tool called beside the conversation; see `core.side_calls`."""

TOKEN_BUDGET: Final = "token_budget"
"""Where the data of a result says what it told of tokens: `{used, budget, remaining, below_reminder_threshold}`."""

SENSED: Final = "sensed"
"""What a model is told beside a question: `{session_time, ground_moved}`, recorded just before the question."""

TOOLS_CHOSEN: Final = "tools_chosen"
"""Tools were taken away from a session, or added: `{removed, added}`, all of them since it began."""

OBSERVATIONS: Final = frozenset(
    {
        "session_start",
        "session_end",
        "prompt",
        "checkpoint",
        "provider_request",
        "provider_response",
        "request_form",
        "rewound",
        SIDE_CALL,
        TOOLS_CHOSEN,
        SENSED,
        "provider_pinned",
        "recovered",
        "background",
        "note",
    }
)
"""Types that `Observation` may have; an application's own begin with `x_`."""


def is_observation(type: str) -> bool:
    """Say whether a fact of this type is an observation."""
    return type in OBSERVATIONS or type.startswith("x_")


@dataclass(frozen=True, slots=True)
class Entry:
    """A fact with its place in the log: what a log holds and a subscriber gets."""

    seq: int
    """Counts from 1 within a conversation."""
    at_ms: int
    """Wall time in milliseconds since 1970, UTC."""
    run_id: str
    fact: Fact
