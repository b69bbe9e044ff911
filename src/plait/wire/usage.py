"""Token counts in every shape that servers report them.

Floor: 1. Owns: finding and relating the numbers; never: their price.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Final

from plait.core.usage import Usage

_DIGITS: Final = re.compile(r"[0-9]{1,15}")
_COUNT_MAX: Final = 10**15
"""More tokens than that were never in one answer: a number that says so says nothing."""
_COST_MAX: Final = 10**9
_COST_CHARS_MAX: Final = 40
_DETAILS: Final = ("prompt_tokens_details", "input_tokens_details")
_OUTPUT_DETAILS: Final = ("completion_tokens_details", "output_tokens_details")
_INPUT: Final = ("prompt_tokens", "input_tokens")
_OUTPUT: Final = ("completion_tokens", "output_tokens")
_READ: Final = (
    "cache_read_input_tokens",
    "cache_read_tokens",
    "cached_tokens",
    "prompt_cache_hit_tokens",
    "num_cached_tokens",
)
_READ_DETAILS: Final = ("cached_tokens", "cache_read_tokens", "cache_read_input_tokens")
_WRITE: Final = ("cache_creation_input_tokens", "cache_write_tokens")
_WRITE_DETAILS: Final = (
    "cache_write_tokens",
    "cache_creation_input_tokens",
    "cache_creation_tokens",
    "cache_write_input_tokens",
)


def read_usage(value: object, *, excludes_cached: bool = False) -> Usage | None:
    """Return the usage in a server's object, None when it reports nothing.

    `input` counts cached and written tokens in, whatever the server does.

    Args:
        excludes_cached: the wire's own input count leaves cached and written tokens out (Anthropic).
    """
    if not isinstance(value, Mapping):
        return None
    details, output_details = _sub(value, _DETAILS), _sub(value, _OUTPUT_DETAILS)
    read = _first(details, _READ_DETAILS[:1])
    if read is None:
        read = _or(_first(value, _READ), _first(details, _READ_DETAILS))
    write = _or(_first(value, _WRITE), _first(details, _WRITE_DETAILS))
    if write is None:
        write = _or(_sum(value.get("cache_creation")), _sum(details.get("cache_creation")))
    usage = Usage(
        input=_first(value, _INPUT),
        output=_first(value, _OUTPUT),
        cache_read=read,
        cache_write=write,
        reasoning=_first(output_details, ("reasoning_tokens",)),
        cost=_money(value.get("cost")),
    )
    if usage == Usage.UNAVAILABLE:
        return None
    return _with_whole_input(usage, excludes_cached, _first(value, ("total_tokens",)))


def latest(old: Usage | None, new: Usage | None) -> Usage | None:
    """Return the counts of a stream so far: a later report replaces an earlier one, field by field."""
    if old is None or new is None:
        return new or old
    return replace(
        new,
        input=_or(new.input, old.input),
        output=_or(new.output, old.output),
        cache_read=_or(new.cache_read, old.cache_read),
        cache_write=_or(new.cache_write, old.cache_write),
        reasoning=_or(new.reasoning, old.reasoning),
        cost=new.cost if new.cost is not None else old.cost,
    )


def _with_whole_input(usage: Usage, excludes_cached: bool, total: int | None) -> Usage:
    cached = (usage.cache_read or 0) + (usage.cache_write or 0)
    if usage.input is None or not cached:
        return usage
    whole = usage.input + cached
    # More cached than sent is impossible, so such an input count leaves the cached tokens out; the sum tells as well.
    is_partial = excludes_cached or cached > usage.input or total == whole + (usage.output or 0)
    return replace(usage, input=whole) if is_partial else usage


def _sub(value: Mapping[str, object], names: tuple[str, ...]) -> Mapping[str, object]:
    for name in names:
        inner = value.get(name)
        if inner and isinstance(inner, Mapping):
            return inner
    return {}


def _first(value: Mapping[str, object], names: tuple[str, ...]) -> int | None:
    for name in names:
        found = value.get(name)
        if found is not None and (count := _count(found)) is not None:
            return count
    return None


def _count(value: object) -> int | None:
    if type(value) is int:  # nearly every one, and no bool
        return value if 0 <= value < _COUNT_MAX else None
    if (isinstance(value, float) and value.is_integer()) or (isinstance(value, str) and _DIGITS.fullmatch(value)):
        return _count(int(value))
    return None


def _or(first: int | None, second: int | None) -> int | None:
    return second if first is None else first


def _sum(value: object) -> int | None:
    if not value or not isinstance(value, Mapping):
        return None
    counts = [count for item in value.values() if (count := _count(item)) is not None]
    return sum(counts) if counts else None


def _money(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        # A whole number too long to be written down is a ValueError.
        text = str(value)
        money = Decimal(text)
    except (InvalidOperation, ValueError):
        return None
    # What is written with a large exponent is short here and endless where it is written out.
    is_plain = len(text) <= _COST_CHARS_MAX and money.is_finite() and (not money or money.adjusted() > -_COST_CHARS_MAX)
    return money if is_plain and 0 <= money < _COST_MAX else None
