"""What is told of the endpoint's cache: what it held, what it did not, and whose doing that was.

Floor: 1. Owns: these events; never: when one happens (`events.reducer`).
"""

from __future__ import annotations

from plait.core.values import dataclass
from plait.events.named_event import NamedEvent


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


CacheEvent = (
    CacheUnmeasurable | CacheCold | CacheWritten | CacheBelowMinimum | CacheProofMissing | CacheMiss | PrefixChanged
)
