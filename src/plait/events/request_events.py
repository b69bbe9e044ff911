"""What is told of a request to a model: its fragments, its failures and waits, what it used.

Floor: 1. Owns: these events; never: when one happens (`events.reducer`).
"""

from __future__ import annotations

from plait.core.values import dataclass
from plait.events.named_event import NamedEvent


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


RequestEvent = (
    ContentDelta
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
)
