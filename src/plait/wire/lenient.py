"""JSON that strict parsers refuse, read as far as it means anything.

Floor: 1. Owns: which liberties servers may take; never: what a document means.
"""

from __future__ import annotations

import json
from typing import Final

_INT_DIGITS_MAX: Final = 4_000
"""Python refuses to read much longer integers."""


def lenient_loads(text: str) -> object:
    """Return the value of a JSON text, None for what is no JSON.

    NaN, infinity, half characters and bare control characters are let through. An integer beyond 4,000 digits, which
    nobody can compute with, becomes infinity, so that a call that holds one is never taken for valid.
    """
    try:
        parsed: object = json.loads(text, strict=False, parse_int=_int)
    except (ValueError, RecursionError):
        return None
    return parsed


def _int(digits: str) -> int | float:
    return int(digits) if len(digits) <= _INT_DIGITS_MAX else float(digits)
