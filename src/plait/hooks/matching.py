"""Whom a hook is for: its matcher against every name of what happens.

Floor: 3. Owns: the language of matchers; never: the names (`names`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_WORDS: Final = re.compile(r"[A-Za-z0-9_ ,|-]+")
_BETWEEN: Final = re.compile(r"[|,]")


def matches(matcher: str, values: Iterable[str]) -> bool:
    """Say whether a matcher means one of these names.

    Nothing and `*` mean all. Words of letters, digits, `_` and `-` are exact alternatives, divided by `|` or `,`;
    anything else is a regular expression that is found somewhere in the name. One that is none means nothing.
    """
    matcher = matcher.strip()
    if matcher in ("", "*"):
        return True
    if _WORDS.fullmatch(matcher):
        words = {word.strip() for word in _BETWEEN.split(matcher)}
        return any(value in words for value in values)
    pattern = _compiled(matcher)
    return pattern is not None and any(pattern.search(value) for value in values)


def fault_of(matcher: str) -> str | None:
    """Return why a matcher means nothing at all, or None."""
    matcher = matcher.strip()
    if matcher in ("", "*") or _WORDS.fullmatch(matcher):
        return None
    try:
        re.compile(matcher)
    except (re.error, RecursionError, OverflowError) as error:
        return str(error)
    return None


@lru_cache(maxsize=256)
def _compiled(matcher: str) -> re.Pattern[str] | None:
    return None if fault_of(matcher) is not None else re.compile(matcher)
