"""Somebody else's exception in words.

Floor: 0. Owns: that there are words, whatever the exception does; never: advice, or where it was raised.
"""

from __future__ import annotations

from plait.core.strict_json import text_of


def words_of(error: BaseException) -> str:
    """Return the class of an exception and what it says; its `__str__` may be broken as well."""
    return f"{type(error).__name__}: {text_of(error)}"
