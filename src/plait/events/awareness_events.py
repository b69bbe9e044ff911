"""What is told of the senses: which are on, and what a model was told of time, tokens and changes.

Floor: 1. Owns: the four events; never: when one happens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plait.core.values import dataclass
from plait.events.named_event import NamedEvent


@dataclass(frozen=True, slots=True, eq=False)
class AwarenessChecklist(NamedEvent):
    """A session was opened with these senses."""

    type = "awareness_checklist"
    status: Mapping[str, bool]
    """`user`, `system`, `git`, `time`, `token` and `change`, in this order."""


@dataclass(frozen=True, slots=True, eq=False)
class SessionTime(NamedEvent):
    """The model was told of time, with a question."""

    type = "session_time"
    elapsed_seconds: float
    """Since the session began."""
    last_tool_ms: int | None
    """How long the last call ran; None where none has."""
    since_previous_message_seconds: float | None
    """None at the first question."""


@dataclass(frozen=True, slots=True, eq=False)
class GroundMoved(NamedEvent):
    """The model was told, with a question, what others have changed since its last turn."""

    type = "ground_moved"
    git_changed: bool
    """The branch or its commit is another one."""
    files: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class TokenBudget(NamedEvent):
    """The model was told, with a result, how many tokens of its conversation are used."""

    type = "token_budget"
    used: int
    """Tokens of the last request, as the endpoint counted them."""
    budget: int
    remaining: int
    """Below 0 where more is used than there was meant to be."""
    below_reminder_threshold: bool


AwarenessEvent = AwarenessChecklist | SessionTime | GroundMoved | TokenBudget
