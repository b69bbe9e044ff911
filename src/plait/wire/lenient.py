"""JSON that strict parsers refuse, read as far as it means anything.

Floor: 1. Owns: which liberties servers may take; never: what a document means.
"""

from __future__ import annotations

import json
import re
from typing import Final

_INT_DIGITS_MAX: Final = 4_000
"""Python refuses to read much longer integers."""
_GLUE: Final = re.compile(r"\s*(?:data:\s*(?:\[DONE\]\s*)?)?")


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


def lenient_documents(text: str) -> list[object] | None:
    """Return the values of JSON objects glued together, with or without the word that begins a line of data.

    Returns: None where anything else stands among them, or there are not at least two.
    """
    documents: list[object] = []
    at = 0
    while at < len(text):
        try:
            document, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return None
        documents.append(document)
        glue = _GLUE.match(text, end)
        at = end if glue is None else glue.end()
    return documents if len(documents) > 1 else None


def _int(digits: str) -> int | float:
    return int(digits) if len(digits) <= _INT_DIGITS_MAX else float(digits)


_DECODER: Final = json.JSONDecoder(strict=False, parse_int=_int)
