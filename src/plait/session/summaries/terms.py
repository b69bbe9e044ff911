"""What a session's keywords, its spec and its keys say of making its history shorter.

Floor: 5. Owns: the `compaction_…` keys and what they may be; never: when it is due (`compacting`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from plait.core.errors import ConfigError
from plait.core.facts import CLEAR, Fact, Observation, Reset
from plait.kernel.compact import OVERFLOWED
from plait.kernel.rules import Shrinking
from plait.kernel.threshold import TRIGGER_TOKENS

if TYPE_CHECKING:
    from plait.session.session import Session

DEFAULT_COMPACTION_TRIGGER_TOKENS: Final = TRIGGER_TOKENS
"""Tokens of a request from which history is summarised first, where the model's window does not leave less."""
DEFAULT_COMPACTION_TARGET_TOKENS: Final = 20_000
"""Tokens that a summary may have, and that what is kept beside it may have before fewer turns are kept."""
DEFAULT_COMPACTION_KEEP_LAST_TURNS: Final = 2
"""Turns that a compaction leaves as they are, unless it is told otherwise."""

POLICIES: Final = ("threshold", "every_turn", "never")
HOST: Final = "host"
"""What the key `compaction_policy` says where a host's own function decides."""
CompactionPolicy = Callable[["Session", Mapping[str, int], str], bool]
"""A host's own say: gets the session, the usage of the last answer and the phase, `mid_turn` or `turn_end`; true where
history is to be made shorter now."""
_LEAST: Final = {"trigger_tokens": 1, "target_tokens": 1, "keep_last_turns": 0, "min_chars": 0}


def check_compaction_options(options: Mapping[str, object], policies: tuple[str, ...] = POLICIES) -> None:
    """Refuse numbers and words that mean nothing.

    Raises:
        ConfigError: with the keyword's name.
    """
    for name, least in _LEAST.items():
        value = options.get(f"compaction_{name}")
        if value is not None and not (isinstance(value, int) and not isinstance(value, bool) and value >= least):
            raise ConfigError(f"compaction_{name}={value!r} is none", hint=f"it is a whole number from {least}")
    enabled, policy = options.get("compaction_enabled"), options.get("compaction_policy")
    if enabled is not None and not isinstance(enabled, bool):
        raise ConfigError(f"compaction_enabled={enabled!r} is neither True nor False", hint="it is one of them")
    if policy is not None and policy not in policies and not callable(policy):
        raise ConfigError(
            f"compaction_policy={policy!r} is unknown",
            hint=f"it is {', '.join(map(repr, POLICIES))}, or a function of session, usage and phase",
        )


def compaction_keys(schema: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a new session: a keyword, else the spec's field, else the default.

    Raises:
        ConfigError: the spec's policy is unknown.
    """
    check_compaction_options({"compaction_policy": schema.get("compaction_policy")})
    defaults = {
        "compaction_enabled": True,
        "compaction_trigger_tokens": None,
        "compaction_target_tokens": DEFAULT_COMPACTION_TARGET_TOKENS,
        "compaction_keep_last_turns": DEFAULT_COMPACTION_KEEP_LAST_TURNS,
        "compaction_policy": POLICIES[0],
        "compaction_min_chars": 0,
    }
    found = {name: _first(given.get(name), schema.get(name), default) for name, default in defaults.items()}
    return {**found, "compaction_policy": HOST if callable(found["compaction_policy"]) else found["compaction_policy"]}


def shrinking_of(session: Mapping[str, Any]) -> Shrinking:
    """Return what a session's keys ask for.

    Raises:
        ConfigError: a key was given a value that means nothing.
    """
    check_compaction_options(session, (*POLICIES, HOST))
    is_enabled = session.get("compaction_enabled") is not False
    has_threshold = is_enabled and session.get("compaction_policy", POLICIES[0]) in ("threshold", "every_turn")
    target = session.get("compaction_target_tokens") or DEFAULT_COMPACTION_TARGET_TOKENS
    keep = session.get("compaction_keep_last_turns")
    usual = Shrinking()
    return Shrinking(
        keep_last_units=usual.keep_last_units,
        tries_max=usual.tries_max if is_enabled else 0,
        keep_last_turns=DEFAULT_COMPACTION_KEEP_LAST_TURNS if keep is None else keep,
        kept_tokens_max=target,
        chars_min=session.get("compaction_min_chars") or 0,
        trigger_tokens=session.get("compaction_trigger_tokens") if has_threshold else 0,
        summary_tokens_max=target,
    )


def last_prompt_tokens(facts: Iterable[Fact]) -> int:
    """Return how large the request was, in tokens, before which history was last made shorter, or could not be."""
    found = 0
    for fact in facts:
        found = prompt_tokens_after(found, fact)
    return found


def prompt_tokens_after(found: int, fact: Fact) -> int:
    """Return that size after one more fact; 0 after a clear, and after a request that did not fit."""
    if isinstance(fact, Reset):
        if fact.why in (CLEAR, "overflow_skipped"):
            return 0
        return found if fact.sizes is None else fact.sizes[0]
    is_overflow = isinstance(fact, Observation) and fact.type == "note" and fact.data.get("event") == OVERFLOWED
    return 0 if is_overflow else found


def _first(*values: object) -> object:
    return next((value for value in values if value is not None), None)
