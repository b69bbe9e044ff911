"""The named events of a session: one frozen dataclass a name, read by attribute or like a mapping.

Floor: 1. Owns: which events there are and what each carries; never: when one happens (`events.reducer`), or markup.

`event.name`, `event["name"]` and `dict(event)` say the same. `event["fmt"]` is rendered when it is asked for and is no
part of the mapping or of its JSON. Times are ISO 8601 with milliseconds, in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, get_args

from plait.events.awareness_events import AwarenessEvent
from plait.events.compaction_events import (
    Compaction as Compaction,
    CompactionEvent,
    CompactionPreparationSkipped as CompactionPreparationSkipped,
    CompactionRetry as CompactionRetry,
    CompactionSkipped as CompactionSkipped,
    ContextOverflowAbort as ContextOverflowAbort,
    ContextOverflowRetry as ContextOverflowRetry,
)
from plait.events.hook_events import HookStatus as HookStatus, HookWarning as HookWarning
from plait.events.named_event import NamedEvent as NamedEvent

EventCallback = Callable[[str, NamedEvent], None]
"""Gets the event's name and the event. It is called in the thread of the turn and has to be quick; what it raises
ends the turn, with a valid history, and comes out of the call that ran it."""


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
class ContentDelta(NamedEvent):
    """A fragment of the answer, as it comes."""

    type = "content_delta"
    text: str
    first: bool
    """True for the first fragment of an answer."""
    no_newline: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class ReasoningDelta(NamedEvent):
    """A fragment of what the model thinks, as it comes."""

    type = "reasoning_delta"
    text: str
    first: bool
    no_newline: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class ContentStreamEnd(NamedEvent):
    """The fragments of an answer are complete, or will not go on."""

    type = "content_stream_end"
    no_newline: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class ReasoningStreamEnd(NamedEvent):
    """The fragments of the thoughts are complete; comes before any of the answer's end."""

    type = "reasoning_stream_end"
    no_newline: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class AttemptReset(NamedEvent):
    """The request is made again: the fragments that were shown do not count."""

    type = "attempt_reset"
    step: int
    attempt: int
    withdrawn: int
    """How many fragments of the step were shown."""


@dataclass(frozen=True, slots=True, eq=False)
class RetryScheduled(NamedEvent):
    """A request failed and will be made again."""

    type = "retry_scheduled"
    attempt: int
    """How many requests have failed."""
    delay_s: float
    kind: str
    message: str


@dataclass(frozen=True, slots=True, eq=False)
class RateLimitWait(NamedEvent):
    """A request waits for a limit of so many requests a minute."""

    type = "rate_limit_wait"
    delay: float
    """Seconds."""
    resume_at: str
    source: str = "client"
    """Whose limit it is: `endpoint`, `max_rpm` for our own, or `client` for a client that waits by itself."""


@dataclass(frozen=True, slots=True, eq=False)
class KeyRested(NamedEvent):
    """One of several keys was refused; keys go by their place, as in `key 2 of 3`."""

    type = "key_rested"
    key: str
    kind: str
    """rate_limit, quota or auth."""
    rests_s: float | None
    """None for a key that is put out."""
    next: str | None
    """The key that the request is made with instead, None where all of them rest."""


@dataclass(frozen=True, slots=True, eq=False)
class ProviderPinned(NamedEvent):
    """An endpoint that routes to several providers will be asked for the one that answered first."""

    type = "provider_pinned"
    provider: str


@dataclass(frozen=True, slots=True, eq=False)
class Usage(NamedEvent):
    """Tokens of one request; 0 where the endpoint reported nothing."""

    type = "usage"
    prompt: int
    completion: int
    total: int
    cached: int
    """Tokens of the prompt that a cache held."""
    cache_write: int
    """Tokens of the prompt that went into a cache."""
    cache_ttl: float = 3_600.0
    """Seconds for which a cache is believed to hold a prompt."""
    cache_expires_in: float | None = None
    """Seconds until the cache may have forgotten this conversation; None while nothing was cached."""
    is_prompt_known: bool = True
    """False where the endpoint did not say what the prompt came to."""
    purpose: str | None = None
    """`compaction` or `retry` for a request that was no step."""


@dataclass(frozen=True, slots=True, eq=False)
class SessionUsage(NamedEvent):
    """Tokens of the session so far; comes with a final answer."""

    type = "session_usage"
    prompt: int
    completion: int
    total: int
    cached: int
    cache_write: int


@dataclass(frozen=True, slots=True, eq=False)
class CacheUnmeasurable(NamedEvent):
    """The endpoint does not say what its cache held, so nothing can be proved; told once."""

    type = "cache_unmeasurable"


@dataclass(frozen=True, slots=True, eq=False)
class CacheCold(NamedEvent):
    """Nothing was read from the cache, and it was not used for longer than it lasts: nobody's fault."""

    type = "cache_cold"
    age: float | None
    """Seconds since the last answer; None where that is not known."""
    ttl: float


@dataclass(frozen=True, slots=True, eq=False)
class CacheWritten(NamedEvent):
    """Nothing was read from the cache, and the prompt was written to it anew."""

    type = "cache_written"
    cache_creation_tokens: int
    blame: str | None = None
    """As in `cache_miss`; None where nothing was to be expected."""
    place: str | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CacheBelowMinimum(NamedEvent):
    """Nothing was read from the cache, and the prompt is shorter than what is cached."""

    type = "cache_below_minimum"
    prompt_tokens: int
    min_cacheable_tokens: int


@dataclass(frozen=True, slots=True, eq=False)
class CacheProofMissing(NamedEvent):
    """An answer after the first proved nothing: the endpoint reported no tokens from its cache, or no number."""

    type = "cache_proof_missing"
    cached_tokens: int | None
    """None where the endpoint reported no number."""
    prompt_tokens: int | None
    blame: str | None = None
    """As in `cache_miss`; None where nothing was to be expected."""
    place: str | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CacheMiss(NamedEvent):
    """Less was read from the cache than the request before this one had left in it."""

    type = "cache_miss"
    cached: int
    expected: int | None
    """Tokens of the request before."""
    prompt: int
    blame: str
    """`ours`: the request did not go on from the one before. `provider`: it did. `expired`: too much time passed."""
    place: str | None = None
    """Where the request left the one before: `message 3`, `tools`, …; None where it went on from it."""
    why: str | None = None
    """What changed it; see `prefix_changed`."""


@dataclass(frozen=True, slots=True, eq=False)
class PrefixChanged(NamedEvent):
    """A request did not begin with all that the one before it said, so that no cache could hold the rest."""

    type = "prefix_changed"
    part: str
    """`model`, `encoding`, `tools`, `system` or `message`: the first that differs."""
    index: int | None
    """Which message, from 0."""
    why: str
    """What changed it: the reason of the `reset_messages`, `terms_changed`, `model_changed` or `resumed`."""


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
class StepReduced(NamedEvent):
    """A `step_reducer` put other messages in the place of a step; what was there counts as `raw`."""

    type = "step_reduced"
    raw_messages: int
    kept_messages: int
    raw_chars: int
    kept_chars: int
    final_reply: str | None
    """What ends the turn, where the reducer says so."""


@dataclass(frozen=True, slots=True, eq=False)
class ResetMessages(NamedEvent):
    """Messages `start` to `end` of the history were replaced by `count` others."""

    type = "reset_messages"
    reason: str
    start: int
    end: int
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class SessionRestored(NamedEvent):
    """A session goes on from the messages of an earlier one."""

    type = "session_restored"
    session_id: str
    messages_loaded: int


@dataclass(frozen=True, slots=True, eq=False)
class SessionResumed(NamedEvent):
    """A session that was kept goes on, or begins under the name that was given."""

    type = "session_resumed"
    session_id: str
    messages_loaded: int
    """0 when there was none of that name."""
    source_model: str | None = None
    """The model that the session was begun with, when this is its copy for another one."""
    notice: str = ""
    """What of the given spec is not used, because the session keeps its own terms."""


@dataclass(frozen=True, slots=True, eq=False)
class JournalRecovered(NamedEvent):
    """What a session holds was read back from its journal."""

    type = "journal_recovered"
    entries_replayed: int
    messages_loaded: int
    pending: int
    """Calls that were started and whose end nobody recorded: they are looked into before anything else."""
    mid_turn: bool
    """The last turn has not ended, and goes on first."""
    torn_bytes: int = 0
    """Of an unfinished write at the end, which nobody was told was safe."""


@dataclass(frozen=True, slots=True, eq=False)
class McpServer(NamedEvent):
    """Something is to be said of an MCP server."""

    type = "mcp_server"
    server: str
    state: str
    """`ready`, `late` (the turn goes on without its tools), `failed`, `changed` (its tools are others now),
    `restarted`, `refused` (some of its tools are not shown) or `skipped` (not trusted)."""
    text: str
    tools: Sequence[str] = ()
    """The tools of it that the model is shown from now on, by their names."""


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


AnyEvent = (
    TurnStart
    | ToolCall
    | ToolResult
    | ApprovalRequired
    | ContentDelta
    | ReasoningDelta
    | ContentStreamEnd
    | ReasoningStreamEnd
    | AttemptReset
    | RetryScheduled
    | RateLimitWait
    | KeyRested
    | ProviderPinned
    | Usage
    | SessionUsage
    | CacheUnmeasurable
    | CacheCold
    | CacheWritten
    | CacheBelowMinimum
    | CacheProofMissing
    | CacheMiss
    | PrefixChanged
    | TokenLimit
    | LoopGuard
    | CompactionEvent
    | StepReduced
    | ResetMessages
    | SessionRestored
    | SessionResumed
    | JournalRecovered
    | McpServer
    | HookWarning
    | HookStatus
    | AwarenessEvent
    | FinalAnswer
    | Error
    | TurnEnd
)

EVENTS: Final[Mapping[str, type[NamedEvent]]] = MappingProxyType({event.type: event for event in get_args(AnyEvent)})
"""Every event that can happen, by its name."""

NOT_YET: Final = frozenset("admission assistant_checkpoint run_state terminal".split())
"""Names of events that belong to features which are not there yet: one may subscribe, nothing comes."""
