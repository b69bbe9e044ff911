"""What the loop may ask of the world: six effects, a closed set, with their answers.

Floor: 1. Owns: the requests, their answers and the two exceptions that may enter the loop; never: how one is met.

A new capability is a tool, an injected message, a rule or a hook. A seventh effect is a design decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from plait.core.exchange import Purpose, View
from plait.core.facts import Fact
from plait.core.messages import Message, ToolCall, ToolResult
from plait.core.usage import Usage
from plait.core.values import dataclass


@dataclass(frozen=True, slots=True)
class Record:
    """Append facts; their order is final, when they become durable is the driver's business. No answer."""

    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Boundary:
    """Between steps (`step`), or before the turn would end (`final`): what now? Answer: `Plan`."""

    step: int
    phase: Literal["step", "final"]
    shrunk: bool = False
    """The last answer was to make history shorter, which was tried; the host is asked once more."""


@dataclass(frozen=True, slots=True)
class Think:
    """One attempt of one model request. Answer: `Reply`, or `ProviderFailed` is thrown in."""

    view: View
    purpose: Purpose = "step"
    attempt: int = 1
    output_max: int | None = None
    """Tokens that the answer may have, where that is fewer than others may."""
    timeout_s: float | None = None
    """Seconds after which the attempt has failed; None: when the transport says so."""
    fault: str = ""
    """Why it would be refused as too large, where that is known: it fails so, and nothing is sent."""


@dataclass(frozen=True, slots=True)
class Approve:
    """May this call run? Answer: `Allow`, `Deny` or `Ask`."""

    call: ToolCall
    granted: bool = False
    """Somebody has said yes already: only what the host adds to it is wanted, its intent."""


@dataclass(frozen=True, slots=True)
class Act:
    """Start these calls; with `resolve`, find out what became of calls that an earlier process started. No answer.

    What a call was started with, its intent included, stands in the state's open round.
    """

    calls: tuple[ToolCall, ...]
    resolve: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """Sleep until one or more started calls have finished, or the deadline. Answer: their outcomes, or `()`."""

    timeout_s: float | None = None


Effect = Record | Boundary | Think | Approve | Act | Wait


@dataclass(frozen=True, slots=True)
class Allow:
    """The call may run, as it stands here: `call` carries other arguments when somebody changed them."""

    call: ToolCall
    intent: Mapping[str, object] | None = None
    """What recovery will need, recorded before the effect."""


@dataclass(frozen=True, slots=True)
class Deny:
    """The call may not run; the model is told why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ask:
    """Somebody has to be asked, and the answer may come to another process."""

    request: str
    question: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """End the turn: `reason` as in `End`, `detail` the sentence for people."""

    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Compact:
    """Replace old history by a summary."""

    why: str = "threshold"
    bounds: tuple[int, int] | None = None
    """What goes, where that has been decided already."""


@dataclass(frozen=True, slots=True)
class Replace:
    """Put other messages in the place of history from `start` to `end`."""

    start: int
    end: int
    messages: tuple[Message, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What the host wants done at a boundary; obeyed in the order of the fields."""

    stop: Stop | None = None
    compact: Compact | None = None
    replace: Replace | None = None
    inject: tuple[Message, ...] = ()
    final_reply: str | None = None
    """Take this as the model's answer."""


NOTHING = Plan()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one started call ended; `deferred` means that its result comes later, under `ref`."""

    call_id: str
    status: Literal["ok", "error", "denied", "cancelled", "unknown", "deferred"]
    result: ToolResult | None
    ref: str | None = None

    @classmethod
    def of(cls, result: ToolResult) -> Outcome:
        """Wrap a result."""
        return cls(result.call_id, result.status, result)


@dataclass(frozen=True, slots=True)
class End:
    """How the turn ended.

    `reason`: completed, max_steps, limit, loop_guard, truncated, content_filter, approval_required, waiting,
    interrupted, timeout, error, or what a `Stop` named.
    """

    reason: str
    reply: str | None = None
    error: BaseException | None = None
    detail: str = ""


class Interrupted(Exception):
    """Stop now and leave a valid history: thrown into the loop at the pending effect.

    `outcomes` is what is known of the calls that ran, `partial` what the model had said, `usage` what it had used.
    """

    def __init__(
        self,
        reason: str,
        partial: Message | None = None,
        outcomes: tuple[Outcome, ...] = (),
        usage: Usage | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.partial = partial
        self.outcomes = outcomes
        self.usage = usage
