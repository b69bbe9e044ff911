"""What is told of a turn: its beginning, its calls, what holds it up, its end.

Floor: 1. Owns: the events that every turn is made of; never: when one happens (`events.reducer`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plait.core.values import dataclass
from plait.events.named_event import NamedEvent


@dataclass(frozen=True, slots=True, eq=False)
class TurnStart(NamedEvent):
    """A turn began, or went on."""

    type = "turn_start"
    resumed: bool
    sender: str
    """Who asked when it was not the user, as `kind:name`."""


@dataclass(frozen=True, slots=True, eq=False)
class ToolCall(NamedEvent):
    """A tool is called, with the arguments that it gets."""

    type = "tool_call"
    name: str
    args: Mapping[str, object]
    """What could not be read as JSON stands as text under `arguments`."""
    call_id: str
    ts: str


@dataclass(frozen=True, slots=True, eq=False)
class ToolResult(NamedEvent):
    """A call has its result."""

    type = "tool_result"
    name: str
    result: str
    call_id: str
    status: str
    """ok, error, denied, cancelled or unknown."""
    streamed: bool = False
    """The output was shown while the tool ran."""
    files: Sequence[str] | None = None
    """Paths that the call created or changed; None for tools that touch none."""
    diff_summary: Mapping[str, object] | None = None
    """`{path, added, removed}` in lines."""
    diff: str | None = None
    """What the call changed, as a unified diff, where the tool tells it."""
    started_at: str | None = None
    """None, as the two below, for a call that never ran."""
    ended_at: str | None = None
    duration_ms: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ApprovalRequired(NamedEvent):
    """A call waits for an answer from outside."""

    type = "approval_required"
    name: str
    args: Mapping[str, object]
    call_id: str
    request: str
    question: str


@dataclass(frozen=True, slots=True, eq=False)
class TokenLimit(NamedEvent):
    """The turn used up its tokens and ends."""

    type = "token_limit"
    used: int
    """What counts: prompt tokens that no cache held, and completion tokens."""
    limit: int
    raw_total: int
    cached_total: int


@dataclass(frozen=True, slots=True, eq=False)
class LoopGuard(NamedEvent):
    """The model was told that it is getting nowhere."""

    type = "loop_guard"
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class FinalAnswer(NamedEvent):
    """The model has answered."""

    type = "final_answer"
    text: str
    """Without blanks around it."""
    streamed: bool
    """The text was shown as `content_delta`."""


@dataclass(frozen=True, slots=True, eq=False)
class Error(NamedEvent):
    """The turn failed."""

    type = "error"
    text: str
    """What happened and what to do, as one sentence each."""
    error_class: str
    error_message: str
    error_code: str | None = None
    http_status: int | None = None
    elapsed_s: float = 0.0
    """Seconds since the turn began."""
    adapter: str = "http"
    """`http` or `subprocess`: how the model was asked."""


@dataclass(frozen=True, slots=True, eq=False)
class TurnEnd(NamedEvent):
    """A turn is over; `reason` says how, `detail` is a sentence where there is more to say."""

    type = "turn_end"
    reason: str
    detail: str


TurnEvent = (
    TurnStart | ToolCall | ToolResult | ApprovalRequired | TokenLimit | LoopGuard | FinalAnswer | Error | TurnEnd
)
