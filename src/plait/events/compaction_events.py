"""What is told of a history that is made shorter, and of requests that do not fit.

Floor: 1. Owns: these events; never: when one happens.
"""

from __future__ import annotations

from plait.core.values import dataclass
from plait.events.named_event import NamedEvent


@dataclass(frozen=True, slots=True, eq=False)
class Compaction(NamedEvent):
    """Old history was replaced by a summary."""

    type = "compaction"
    summary: str
    compacted_turns: int
    """Messages that the summary stands for."""
    tokens_before: int | None = None
    """Of the next request, as far as it was known or estimated; None in a log that does not say."""
    tokens_after: int | None = None
    """Of the next request, with the summary in it."""
    summary_length: int = 0
    """Characters of the summary."""
    compaction_ratio: float | None = None
    """What is left of the request: `tokens_after` by `tokens_before`."""


@dataclass(frozen=True, slots=True, eq=False)
class CompactionSkipped(NamedEvent):
    """Old history stays as it is, although making a summary of it was tried."""

    type = "compaction_skipped"
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class CompactionRetry(NamedEvent):
    """The conversation did not fit the request for its summary: only what is to go is sent now."""

    type = "compaction_retry"
    keep: int
    """Messages that stay as they are, and are not sent."""


@dataclass(frozen=True, slots=True, eq=False)
class CompactionPreparationSkipped(NamedEvent):
    """No model wrote a summary, so that a list of what went takes its place."""

    type = "compaction_preparation_skipped"
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class ContextOverflowRetry(NamedEvent):
    """A request did not fit the model; history was made shorter, and it is made again."""

    type = "context_overflow_retry"
    retries: int
    """How often in a row."""


@dataclass(frozen=True, slots=True, eq=False)
class ContextOverflowAbort(NamedEvent):
    """A request does not fit the model, and history cannot be made shorter any more."""

    type = "context_overflow_abort"
    retries: int
    """How often it was."""


CompactionEvent = (
    Compaction
    | CompactionSkipped
    | CompactionRetry
    | CompactionPreparationSkipped
    | ContextOverflowRetry
    | ContextOverflowAbort
)
