"""Watches the cache of one conversation while it goes on: proof of every answer, and where requests part.

Floor: 4. Owns: the moment at which each thing is asked and told; never: a judgement (`proof`, `ledger`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from plait.core.errors import CacheProofError
from plait.core.events import Committed, Event, Notice
from plait.core.exchange import Reply
from plait.core.facts import Fact
from plait.engine.cache.ledger import MISSES, TOLD, CacheLedger, CacheRequest, Departure, Note
from plait.engine.cache.proof import CacheProof, CacheTerms, Judged, ProofRules, Verdict, judge, rules_of
from plait.engine.request_form import FormWatch
from plait.kernel.ports import Model
from plait.models.trail import Footprint, Place, Trail

_HINT: Final = (
    "go on without proof (strict_cache_proof=False, --no-strict-cache-proof), say from which size on prompts are "
    "cached (min_cacheable_tokens), or choose an endpoint that reports cached tokens"
)
_BLAMED: Final = frozenset({"cache_proof_missing", "cache_written"})
"""Verdicts that leave open whose fault it is."""


class CacheWatch:
    """Told of every answer before it is recorded, and of every fact once it is safe.

    Args:
        publish: tells the observers of the conversation.
    """

    def __init__(self, publish: Callable[[Event], None]) -> None:
        self.proof = CacheProof()
        self.rules = ProofRules()
        self._publish = publish
        self._ledger = CacheLedger()
        self._forms = FormWatch()
        self._before: Footprint | None = None
        self._is_resumed = False
        self._origin = ""
        self._verdict: Verdict | None = None

    def remember(self, facts: Iterable[Fact], times_ms: Iterable[int]) -> None:
        """Take the facts of an earlier process in, with their times: the cache may be warm or cold, but is not new."""
        facts = tuple(facts)
        self._forms.remember(facts)
        self._ledger.absorb(facts, times_ms)
        ledger = self._ledger
        self.restore(ledger.answers, ledger.answered_ms, ledger.proved_ms)
        self._origin = ledger.origin
        self._is_resumed = ledger.is_begun
        if ledger.is_begun and ledger.sections:
            self._before = Footprint(ledger.sections)

    def restore(self, answers: int, answered_ms: int | None = None, proved_ms: int | None = None) -> None:
        """Begin after so many answers, of which the last came then; None where that is not known."""
        self.proof = CacheProof(answers=answers, answered_ms=answered_ms, proved_ms=proved_ms)

    @property
    def proved_ms(self) -> int | None:
        """When tokens were last read from the cache or written to it, in whatever mode."""
        return self._ledger.proved_ms

    def begin(self, model: Model, terms: CacheTerms) -> None:
        """Prepare for a turn with this model."""
        profile = getattr(model, "profile", None)
        is_optional = getattr(model, "usage_is_optional", False)
        self.rules = rules_of(terms, profile, usage_is_optional=is_optional)
        self._ledger.min_tokens, self._ledger.ttl_s = self.rules.min_tokens, self.rules.ttl_s

    def opened(self, channel: object) -> None:
        """Have a new line compare its first request with the last one of the line before it."""
        trail = _trail_of(channel)
        if trail is not None:
            trail.before = self._before

    def closing(self, channel: object) -> None:
        """Keep what a line has sent, in digests, for the next one."""
        trail = _trail_of(channel)
        if trail is not None:
            self._before = trail.footprint()

    def weigh(self, reply: Reply, channel: object, now_ms: int) -> tuple[Reply, tuple[Fact, ...]]:
        """Judge the answer to a step; return it, with what ends the turn, and the facts that stand before it."""
        if self._origin and reply.message.origin and reply.message.origin != self._origin:
            # Another endpoint has proved nothing yet.
            self.proof = CacheProof(told_unmeasurable=self.proof.told_unmeasurable)
        self._origin = reply.message.origin or self._origin
        judged: Judged = judge(self.proof, self.rules, reply.usage, now_ms)
        self.proof, self._verdict = judged.proof, judged.verdict
        if judged.objection:
            reply = replace(reply, halt=CacheProofError(judged.objection, hint=_HINT))
        note = self._note(_trail_of(channel))
        self._is_resumed = False
        facts = self._forms.note(channel)
        return reply, facts if note is None else (*facts, note.observation())

    def take(self, event: Event) -> None:
        """Take a fact that is safe; tell what the cache did where the fact is an answer."""
        if not isinstance(event, Committed) or type(event.entry.fact) not in TOLD:
            return
        request = self._ledger.take(event.entry.fact, event.entry.at_ms)
        if request is not None and request.purpose == "step":
            verdict, self._verdict = self._verdict, None
            self._tell(verdict, request)

    def _note(self, trail: Trail | None) -> Note | None:
        """Return what has to be recorded of the request that was just answered, None for an ordinary one."""
        if trail is None:
            return None
        departure = self._departure(trail.place)
        has_same_head = bool(self._ledger.sections) and (departure is None or departure.part == "message")
        if has_same_head:
            return None if departure is None else Note(departure)
        return Note(departure, trail.sections, self.rules.min_tokens, self.rules.ttl_s)

    def _departure(self, place: Place | None) -> Departure | None:
        if place is None:
            # The digests of an earlier process are gone; what it replaced stands in its facts.
            return self._ledger.replaced if self._is_resumed else None
        if place.part == "message" and place.index is not None:
            return Departure("message", place.index, self._ledger.why(place.index))
        if self._is_resumed:
            return Departure(place.part, None, "resumed")
        return Departure(place.part, None, "model_changed" if place.part == "model" else "terms_changed")

    def _tell(self, verdict: Verdict | None, request: CacheRequest) -> None:
        if verdict is None and request.blame not in MISSES:
            return
        departure = request.departure
        told: dict[str, Any] = {
            "blame": request.blame if request.blame in MISSES else None,
            "place": None if departure is None else departure.place,
            "why": None if departure is None else departure.why,
        }
        if verdict is not None:
            more = told if verdict.type in _BLAMED else {}
            self._publish(Notice(verdict.type, {**verdict.data, **more}))
        else:
            usage = request.usage
            numbers = {"cached": usage.cache_read_tokens, "expected": request.expected, "prompt": usage.input_tokens}
            self._publish(Notice("cache_miss", {**numbers, **told}))


def _trail_of(channel: object) -> Trail | None:
    trail = getattr(getattr(channel, "line", None), "trail", None)
    return trail if isinstance(trail, Trail) else None
