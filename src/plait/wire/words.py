"""Words that mean the same whatever a provider makes of their spelling.

Floor: 1. Owns: what of a code or a type counts when it is compared; never: a table of them.
"""

from __future__ import annotations


def plain_word(word: str) -> str:
    """Return a code or type without what providers disagree about: case, underscores, other signs."""
    return "".join(filter(str.isalnum, word.lower()))
