"""What a conversation's requests found in the cache, and whose fault it was: a fold of its facts.

Floor: 4. Owns: which requests there were, where each left the one before it, the blame for a miss; never: bytes.

The same fold runs while a conversation goes on and over a journal whose process is long gone. An ordinary request
leaves no trace of its own: its numbers stand on the answer. `Observation("provider_request")` tells of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import Any, Final, Literal, NamedTuple, get_args

from plait.core.facts import Fact, MessageAdded, Observation, Reset, RetryScheduled, RoundClosed, TurnEnd
from plait.core.usage import Usage
from plait.core.values import dataclass
from plait.engine.cache.proof import TTL_S

REQUEST: Final = "provider_request"
"""Type of the observation that tells of a request which does not go on from the one before it."""

Part = Literal["model", "encoding", "tools", "system", "message"]
Purpose = Literal["step", "compaction", "retry", "failed"]
Blame = Literal["first", "hit", "ours", "provider", "below_minimum", "expired", "unmeasured", "unanswered"]
PARTS: Final[Mapping[object, Part]] = {part: part for part in get_args(Part)}
MISSES: Final = frozenset({"ours", "provider", "expired"})
"""What is told as a miss: there was something to be read, and it was not."""

_BLOCK_TOKENS: Final = 1_024
"""Caches work in blocks, and may lag behind: so much of a prompt may always be missing, and where an endpoint's own
minimum is not known, nothing shorter is expected to be cached at all."""
_LAG_SHARE: Final = 8
"""One part in so many of a prompt may be missing as well."""


@dataclass(frozen=True, slots=True)
class Departure:
    """Where a request stops saying what the one before it said."""

    part: Part
    index: int | None = None
    """Which message, from 0; None where the request's head differs."""
    why: str = ""
    """What changed it: the `why` of the `Reset`, `terms_changed`, `model_changed`, `resumed`, or `unexplained`."""

    @property
    def place(self) -> str:
        """The place in words."""
        return self.part if self.index is None else f"{self.part} {self.index}"


@dataclass(frozen=True, slots=True)
class Note:
    """What is recorded of a request that is the first, or that does not go on from the one before it."""

    departure: Departure | None = None
    """None: nothing was sent before it."""
    sections: Mapping[str, str] = field(default_factory=dict)
    """Digests of the parts of its head, where they are new."""
    min_tokens: int | None = None
    ttl_s: float | None = None

    def observation(self) -> Observation:
        """Return the fact that tells this."""
        data: dict[str, object] = {}
        if self.departure is not None:
            given = {"part": self.departure.part, "index": self.departure.index, "why": self.departure.why}
            data |= {name: value for name, value in given.items() if value is not None}
        if self.sections:
            data |= {"sections": dict(self.sections), "min_tokens": self.min_tokens, "ttl_s": self.ttl_s}
        return Observation(REQUEST, data)


def read_note(fact: Observation) -> Note | None:
    """Return what an observation tells of a request, None for one that tells something else."""
    if fact.type != REQUEST:
        return None
    part, index, sections = fact.data.get("part"), fact.data.get("index"), fact.data.get("sections")
    departure = None
    if isinstance(part, str) and part in PARTS:
        departure = Departure(PARTS[part], index if isinstance(index, int) else None, str(fact.data.get("why", "")))
    if departure is None and not isinstance(sections, Mapping):
        return None
    own = {str(name): str(value) for name, value in sections.items()} if isinstance(sections, Mapping) else {}
    floor, ttl_s = fact.data.get("min_tokens"), fact.data.get("ttl_s")
    return Note(
        departure,
        own,
        floor if isinstance(floor, int) else None,
        float(ttl_s) if isinstance(ttl_s, (int, float)) else None,
    )


@dataclass(frozen=True, slots=True)
class CacheRequest:
    """One request and what its cache did."""

    number: int
    at_ms: int
    """When its answer came."""
    purpose: Purpose
    origin: str
    """`endpoint:model`, as the answer says; empty where nothing is known."""
    usage: Usage
    expected: int | None
    """Tokens that the cache could have held: those of the request before it. None where that is not known."""
    departure: Departure | None
    """Where it left the one before it; None where it extends it, or is the first."""
    blame: Blame

    @property
    def extends(self) -> bool:
        """True when it begins with all that the one before it said."""
        return self.departure is None and self.blame not in ("first", "unanswered")


class _Sent(NamedTuple):
    """The last answered step: what the next request is measured by."""

    at_ms: int
    origin: str
    tokens: int | None
    messages: int
    """How many messages of the history it held."""


class CacheLedger:
    """Folds entries into requests.

    Args:
        min_tokens, ttl_s: what a cache is believed to take and to keep, where the facts do not say.
    """

    def __init__(self, min_tokens: int = 0, ttl_s: float = TTL_S) -> None:
        self.min_tokens = min_tokens
        self.ttl_s = ttl_s
        self.sections: Mapping[str, str] = {}
        """Digests of the parts of the head of the last request that told them."""
        self.origin = ""
        """Who gave the last answer."""
        self.answers = 0
        self.answered_ms: int | None = None
        """When the last answer came."""
        self.proved_ms: int | None = None
        """When tokens were last read from the cache or written to it."""
        self._sent: _Sent | None = None
        self._count = 0
        self._length = 0
        self._resets: list[Reset] = []
        self._told: Departure | None = None
        self._is_told = False
        """An observation spoke of the request that is on its way."""
        self._is_proved = False
        """Requests are compared byte for byte, so that one of which nothing is told extends the one before it."""

    @property
    def is_begun(self) -> bool:
        """True when a request was answered."""
        return self._sent is not None

    def take_all(self, facts: Iterable[Fact], times_ms: Iterable[int]) -> list[CacheRequest]:
        """Take facts in, with the time of each; return the requests that they tell of."""
        timed = zip(facts, times_ms, strict=True)
        return [request for fact, at_ms in timed if (request := self.take(fact, at_ms)) is not None]

    def absorb(self, facts: Iterable[Fact], times_ms: Iterable[int]) -> None:
        """Take facts in without telling of their requests: thousands of them stand between a user and a resume."""
        last: tuple[MessageAdded, int, int] | None = None
        for fact, at_ms in zip(facts, times_ms, strict=True):
            if isinstance(fact, MessageAdded):
                self._length += 1
                if is_answer(fact):
                    if last is not None and last[0].message.origin != fact.message.origin:
                        self._answered(*last)
                    last = (fact, at_ms, self._length - 1)
                    self.answers += 1
                    if fact.usage is not None and (fact.usage.cache_read or fact.usage.cache_write):
                        self.proved_ms = at_ms
            elif isinstance(fact, RoundClosed):
                self._length += 1
            elif type(fact) in TOLD:
                if last is not None:
                    self._answered(*last)
                    last = None
                self.take(fact, at_ms)
        if last is not None:
            self._answered(*last)

    def take(self, fact: Fact, at_ms: int) -> CacheRequest | None:
        """Take a fact in; return the request that it tells the end of."""
        take = _TAKE.get(type(fact))
        return None if take is None else take(self, fact, at_ms)

    @property
    def replaced(self) -> Departure | None:
        """The first message of the last answered request that was replaced since, as far as facts tell."""
        if not self._resets:
            return None
        first = min(self._resets, key=lambda reset: reset.start)
        return Departure("message", first.start, first.why)

    def why(self, index: int) -> str:
        """Return what replaced a message since the last answer."""
        return next((reset.why for reset in self._resets if reset.start <= index), "unexplained")

    def _observation(self, fact: Observation, at_ms: int) -> None:
        note = read_note(fact)
        if note is None:
            return
        if note.sections:
            self.sections, self._is_proved = note.sections, True
        self.min_tokens = self.min_tokens if note.min_tokens is None else note.min_tokens
        self.ttl_s = self.ttl_s if note.ttl_s is None else note.ttl_s
        self._told, self._is_told = note.departure, True

    def _message(self, fact: MessageAdded, at_ms: int) -> CacheRequest | None:
        self._length += 1
        if not is_answer(fact):
            return None
        request = self._request("step", fact.usage or Usage.UNAVAILABLE, fact.message.origin, at_ms)
        self.answers += 1
        self._answered(fact, at_ms, self._length - 1)
        return request

    def _answered(self, fact: MessageAdded, at_ms: int, messages: int) -> None:
        """Let the next request be measured by this one, which held so many messages."""
        origin, tokens = fact.message.origin, None if fact.usage is None else fact.usage.input
        if self._sent is not None and origin != self._sent.origin and not self._is_told:
            self._is_proved = False
        self._sent = _Sent(at_ms, origin, tokens, messages)
        self._resets, self._told, self._is_told = [], None, False
        self.origin, self.answered_ms = origin, at_ms

    def _round_closed(self, fact: RoundClosed, at_ms: int) -> None:
        self._length += 1

    def _reset(self, fact: Reset, at_ms: int) -> CacheRequest | None:
        request = None if fact.usage is None else self._request("compaction", fact.usage, self.origin, at_ms)
        self._length += len(fact.messages) - (fact.end - fact.start)
        if self._sent is not None and fact.start < self._sent.messages:
            self._resets.append(fact)
        return request

    def _unanswered(self, fact: RetryScheduled | TurnEnd, at_ms: int) -> CacheRequest | None:
        if fact.usage is None:
            return None
        purpose: Purpose = "retry" if isinstance(fact, RetryScheduled) else "failed"
        return replace(self._request(purpose, fact.usage, self.origin, at_ms), blame="unanswered", departure=None)

    def _request(self, purpose: Purpose, usage: Usage, origin: str, at_ms: int) -> CacheRequest:
        self._count += 1
        if usage.cache_read or usage.cache_write:
            self.proved_ms = at_ms
        sent = self._sent
        if sent is None:
            return CacheRequest(self._count, at_ms, purpose, origin, usage, None, None, "first")
        departure = self._departure(sent, origin) if purpose == "step" else None
        known = Known(sent.tokens, (at_ms - sent.at_ms) / 1_000, self.ttl_s, self.min_tokens, departure is not None)
        return CacheRequest(self._count, at_ms, purpose, origin, usage, sent.tokens, departure, blame(usage, known))

    def _departure(self, sent: _Sent, origin: str) -> Departure | None:
        if self._is_told:
            return self._told
        if origin != sent.origin:
            return Departure("model", None, "model_changed")
        return None if self._is_proved else self.replaced


def is_answer(fact: MessageAdded) -> bool:
    """Say whether a message is a model's answer to a request: not half of one, and not a host's own."""
    return fact.message.role == "assistant" and (fact.usage is not None or bool(fact.sent))


class Known(NamedTuple):
    """What is known of a request beside its own numbers."""

    expected: int | None
    age_s: float
    """Since the answer to the request before it."""
    ttl_s: float
    min_tokens: int
    departs: bool


def blame(usage: Usage, known: Known) -> Blame:
    """Say whether the cache held what it could, and if not, who is to blame.

    What a cache could hold is the whole request before this one; a block, and a small share, may always be missing.
    """
    read, expected = usage.cache_read, known.expected
    if read is None:
        return "unmeasured"
    if read and (expected is None or read >= expected - max(_BLOCK_TOKENS, expected // _LAG_SHARE)):
        return "hit"
    floor = known.min_tokens or _BLOCK_TOKENS
    if any(tokens is not None and tokens < floor for tokens in (usage.input, expected)):
        return "below_minimum"
    if known.age_s > known.ttl_s:
        return "expired"
    return "ours" if known.departs else "provider"


_TAKE: Final[Mapping[type, Callable[[CacheLedger, Any, int], CacheRequest | None]]] = {
    Observation: CacheLedger._observation,
    MessageAdded: CacheLedger._message,
    RoundClosed: CacheLedger._round_closed,
    Reset: CacheLedger._reset,
    RetryScheduled: CacheLedger._unanswered,
    TurnEnd: CacheLedger._unanswered,
}
TOLD: Final = frozenset(_TAKE)
"""Types of the facts that say something of requests; to others a ledger does not listen."""
