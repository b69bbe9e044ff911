"""The named events of a session, all of them: one frozen dataclass a name, read by attribute or like a mapping.

Floor: 1. Owns: which events there are; never: what one carries (its `…_events`), when it happens (`events.reducer`), or
markup (`events.render`).

`event.name`, `event["name"]` and `dict(event)` say the same. `event["fmt"]` is rendered when it is asked for and is no
part of the mapping or of its JSON. Times are ISO 8601 with milliseconds, in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, get_args

from plait.events.awareness_events import AwarenessEvent
from plait.events.cache_events import (
    CacheBelowMinimum as CacheBelowMinimum,
    CacheCold as CacheCold,
    CacheEvent,
    CacheMiss as CacheMiss,
    CacheProofMissing as CacheProofMissing,
    CacheUnmeasurable as CacheUnmeasurable,
    CacheWritten as CacheWritten,
    PrefixChanged as PrefixChanged,
)
from plait.events.compaction_events import (
    Compaction as Compaction,
    CompactionEvent,
    CompactionPreparationSkipped as CompactionPreparationSkipped,
    CompactionRetry as CompactionRetry,
    CompactionSkipped as CompactionSkipped,
    ContextOverflowAbort as ContextOverflowAbort,
    ContextOverflowRetry as ContextOverflowRetry,
)
from plait.events.hook_events import HookEvent, HookStatus as HookStatus, HookWarning as HookWarning
from plait.events.named_event import NamedEvent as NamedEvent
from plait.events.request_events import (
    AttemptReset as AttemptReset,
    ContentDelta as ContentDelta,
    ContentStreamEnd as ContentStreamEnd,
    KeyRested as KeyRested,
    ProviderPinned as ProviderPinned,
    RateLimitWait as RateLimitWait,
    ReasoningDelta as ReasoningDelta,
    ReasoningStreamEnd as ReasoningStreamEnd,
    RequestEvent,
    RetryScheduled as RetryScheduled,
    SessionUsage as SessionUsage,
    Usage as Usage,
)
from plait.events.session_events import (
    JournalRecovered as JournalRecovered,
    McpServer as McpServer,
    ResetMessages as ResetMessages,
    SessionEvent,
    SessionRestored as SessionRestored,
    SessionResumed as SessionResumed,
    StepReduced as StepReduced,
)
from plait.events.turn_events import (
    ApprovalRequired as ApprovalRequired,
    Error as Error,
    FinalAnswer as FinalAnswer,
    LoopGuard as LoopGuard,
    TokenLimit as TokenLimit,
    ToolCall as ToolCall,
    ToolResult as ToolResult,
    TurnEnd as TurnEnd,
    TurnEvent,
    TurnStart as TurnStart,
)

EventCallback = Callable[[str, NamedEvent], None]
"""Gets the event's name and the event. It is called in the thread of the turn and has to be quick; what it raises
ends the turn, with a valid history, and comes out of the call that ran it."""

AnyEvent = TurnEvent | RequestEvent | CacheEvent | CompactionEvent | SessionEvent | HookEvent | AwarenessEvent

EVENTS: Final[Mapping[str, type[NamedEvent]]] = MappingProxyType({event.type: event for event in get_args(AnyEvent)})
"""Every event that can happen, by its name."""

NOT_YET: Final = frozenset("admission assistant_checkpoint run_state terminal".split())
"""Names of events that belong to features which are not there yet: one may subscribe, nothing comes."""
