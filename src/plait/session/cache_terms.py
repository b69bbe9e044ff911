"""What a session asks of its endpoint's prompt cache, from its keywords, its spec and its keys.

Floor: 5. Owns: the keys `min_cacheable_tokens` and `cache_ttl_seconds` and what they may be; never: a proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from plait.core.errors import ConfigError
from plait.engine.cache.proof import TTL_S, CacheTerms, ProofMode
from plait.engine.cache.watch import CacheWatch
from plait.events.reducer import Warmth

if TYPE_CHECKING:
    from plait.session.kept.keeping import Kept


def check_cache_options(options: Mapping[str, object]) -> None:
    """Refuse numbers and words that mean nothing.

    Raises:
        ConfigError: with the keyword's name.
    """
    CacheTerms(cast("ProofMode", _mode(options)))
    floor, ttl_s = options.get("min_cacheable_tokens"), options.get("cache_ttl_seconds")
    if floor is not None and not (isinstance(floor, int) and not isinstance(floor, bool) and floor >= 0):
        raise ConfigError(f"min_cacheable_tokens={floor!r} is no number of tokens", hint="it is a whole number from 0")
    if ttl_s is not None and not (_is_number(ttl_s) and 0 < ttl_s < math.inf):  # type: ignore[operator]
        raise ConfigError(f"cache_ttl_seconds={ttl_s!r} is no length of time", hint="it is a number of seconds over 0")


def cache_keys(schema: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a new session: a keyword, else the spec's field, else the default."""
    floor, ttl_s = given.get("min_cacheable_tokens"), given.get("cache_ttl_seconds")
    return {
        "strict_cache_proof": _mode(given),
        "min_cacheable_tokens": int(schema.get("min_cacheable_tokens") or 0) if floor is None else floor,
        "cache_ttl_seconds": (schema.get("cache_ttl_seconds") or TTL_S) if ttl_s is None else ttl_s,
    }


def cache_terms(session: Mapping[str, Any]) -> CacheTerms:
    """Return what a session's keys ask for.

    Raises:
        ConfigError: a key was given a value that means nothing.
    """
    check_cache_options(session)
    return CacheTerms(
        cast("ProofMode", _mode(session)),
        # 0 says nothing: what is known of the endpoint counts.
        session.get("min_cacheable_tokens") or None,
        float(session.get("cache_ttl_seconds") or TTL_S),
        session.get("reports_prompt_tokens") is not False,
    )


def remember_cache(watch: CacheWatch, kept: Kept, answers: int) -> None:
    """Tell a session's watch what came before: the facts that were kept, else how many answers a dict speaks of."""
    if kept.facts:
        watch.remember(kept.facts, kept.times_ms)
    else:
        watch.restore(answers)


def warmth_of(watch: CacheWatch, values: Mapping[str, Any]) -> Callable[[], Warmth]:
    """Return what says, when somebody begins to listen, how warm a session's cache is."""
    return lambda: Warmth(float(values["cache_ttl_seconds"]), watch.proved_ms)


def _mode(options: Mapping[str, object]) -> object:
    """Return how strict to be; None is as good as nothing."""
    proof = options.get("strict_cache_proof")
    return True if proof is None else proof


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
