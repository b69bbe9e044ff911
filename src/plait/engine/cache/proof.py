"""Whether an endpoint's prompt cache proves itself: one small value, moved on by the numbers of each answer.

Floor: 4. Owns: what follows from an answer's numbers, in every mode; never: a clock, an event, whose fault a miss is.

`judge(proof, rules, usage, now_ms)` is the whole machine: nothing else changes a `CacheProof`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Final, Literal

from plait.core.errors import ConfigError
from plait.core.usage import Usage
from plait.core.values import dataclass
from plait.models.profiles import EndpointProfile

ProofMode = bool | Literal["every", "auto"]
"""True: the first answer has to prove something, later misses are told. "every": so has every later one. "auto": like
True where the endpoint is known to report what it cached, else one notice when it does not. False: nothing is asked."""
Strictness = Literal["off", "lenient", "first", "every"]
Status = Literal["ok", "missing", "unmeasurable"]

TTL_S: Final = 3_600.0
"""How long a cache is believed to hold a prompt, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class CacheTerms:
    """What is asked of a cache, and what the user knows of it."""

    mode: ProofMode = False
    min_cacheable_tokens: int | None = None
    """Shorter prompts are never cached; None is: as the endpoint's profile says."""
    ttl_s: float = TTL_S
    """Seconds after which a cache may have forgotten a prompt."""
    reports_prompt_tokens: bool = True
    """False for an endpoint whose token counts mean nothing."""

    def __post_init__(self) -> None:
        if self.mode not in (True, False, "every", "auto"):
            raise ConfigError(
                f"strict_cache_proof={self.mode!r} means nothing", hint="it is True, 'every', 'auto' or False"
            )


@dataclass(frozen=True, slots=True)
class ProofRules:
    """Terms together with what is known of the endpoint."""

    strictness: Strictness = "off"
    min_tokens: int = 0
    ttl_s: float = TTL_S
    can_measure: bool = True
    usage_is_optional: bool = False
    """A first answer without any numbers is let pass: whoever stands in between may have dropped them."""


@dataclass(frozen=True, slots=True)
class CacheProof:
    """What the answers so far have proved."""

    answers: int = 0
    status: Status | None = None
    """None as long as nothing was proved or missed."""
    proved_ms: int | None = None
    """When tokens were last read from the cache or written to it; milliseconds since 1970."""
    answered_ms: int | None = None
    """When the cache was last used; None when it is not known, as after restoring a session."""
    told_unmeasurable: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """An event of this type, with this data, is what an answer's numbers come to."""

    type: str
    data: Mapping[str, object] = field(default_factory=dict)


UNMEASURABLE: Final = Verdict("cache_unmeasurable")


@dataclass(frozen=True, slots=True)
class Judged:
    """What one answer did to a proof."""

    proof: CacheProof
    verdict: Verdict | None = None
    objection: str = ""
    """Why the turn ends here, empty where it goes on."""


def rules_of(terms: CacheTerms, profile: EndpointProfile | None, *, usage_is_optional: bool = False) -> ProofRules:
    """Return the rules for an endpoint; None for one of which nothing is known."""
    floor = terms.min_cacheable_tokens
    if floor is None:
        floor = 0 if profile is None else profile.min_cacheable_tokens
    is_known = profile is not None and profile.reports_cache
    can_measure = terms.reports_prompt_tokens and (profile is None or profile.reports_input)
    return ProofRules(_strictness(terms.mode, is_known), floor, terms.ttl_s, can_measure, usage_is_optional)


def judge(proof: CacheProof, rules: ProofRules, usage: Usage, now_ms: int) -> Judged:
    """Take the numbers of one more answer in.

    Args:
        usage: what the endpoint reported; None in a field is "not reported", 0 a reported zero.
        now_ms: when the answer came.
    """
    judged = _judge(proof, rules, usage, now_ms)
    is_told = judged.verdict is None or judged.verdict is UNMEASURABLE or rules.strictness != "lenient"
    return judged if is_told else Judged(judged.proof, None, judged.objection)


def _judge(proof: CacheProof, rules: ProofRules, usage: Usage, now_ms: int) -> Judged:
    is_off = rules.strictness == "off"
    is_proved = not is_off and rules.can_measure and bool(usage.cache_read or usage.cache_write)
    after = CacheProof(
        proof.answers + 1,
        "ok" if is_proved else proof.status,
        now_ms if is_proved else proof.proved_ms,
        now_ms,
        proof.told_unmeasurable,
    )
    if is_off:
        return Judged(after)
    is_told = usage.cache_read is not None or usage.cache_write is not None
    is_blind = rules.strictness == "lenient" and not is_told and proof.status in (None, "unmeasurable")
    if not rules.can_measure or is_blind:
        return _unmeasurable(after)
    if proof.answers == 0:
        return _first(after, rules, usage, is_told)
    return _later(proof, after, rules, usage)


def _strictness(mode: ProofMode, is_known: bool) -> Strictness:
    if mode == "auto":
        return "first" if is_known else "lenient"
    if mode == "every":
        return "every"
    return "first" if mode else "off"


def _unmeasurable(after: CacheProof) -> Judged:
    verdict = None if after.told_unmeasurable else UNMEASURABLE
    return Judged(replace(after, status="unmeasurable", told_unmeasurable=True), verdict)


def _first(after: CacheProof, rules: ProofRules, usage: Usage, is_told: bool) -> Judged:
    """A reported zero is enough at first: there was nothing that could have been read."""
    if is_told or _is_short(rules, usage) or (rules.usage_is_optional and usage == Usage.UNAVAILABLE):
        return Judged(after)
    return Judged(
        replace(after, status="missing"),
        objection="the endpoint's first answer does not say how many tokens of the prompt its cache held",
    )


def _later(before: CacheProof, after: CacheProof, rules: ProofRules, usage: Usage) -> Judged:
    age_s = None
    if before.answered_ms is not None and after.answered_ms is not None:
        age_s = (after.answered_ms - before.answered_ms) / 1_000
    if not usage.cache_read and (age_s is None or age_s > rules.ttl_s):
        return Judged(after, Verdict("cache_cold", {"age": age_s, "ttl": rules.ttl_s}))
    if usage.cache_read is None and usage.cache_write is None:
        return _missing(after, rules, usage, "an answer does not say how many tokens of the prompt the cache held")
    if usage.cache_read:
        return Judged(after)
    if usage.cache_write:
        return Judged(after, Verdict("cache_written", {"cache_creation_tokens": usage.cache_write}))
    if _is_short(rules, usage):
        data = {"prompt_tokens": usage.input_tokens, "min_cacheable_tokens": rules.min_tokens}
        return Judged(after, Verdict("cache_below_minimum", data))
    return _missing(after, rules, usage, f"the cache held none of the prompt's {usage.input_tokens:,} tokens")


def _missing(after: CacheProof, rules: ProofRules, usage: Usage, objection: str) -> Judged:
    data = {"cached_tokens": usage.cache_read, "prompt_tokens": usage.input}
    is_end = rules.strictness == "every" and not _is_short(rules, usage)
    return Judged(replace(after, status="missing"), Verdict("cache_proof_missing", data), objection if is_end else "")


def _is_short(rules: ProofRules, usage: Usage) -> bool:
    """Say whether the prompt is too short to be cached."""
    return usage.input is not None and usage.input < rules.min_tokens
