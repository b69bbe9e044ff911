"""Opaque identifiers that happen to sort by time.

Floor: 0. Owns: how an id looks; never: what sorts by it (nothing may).
"""

from __future__ import annotations

import os
import re
import time
from typing import Final

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_SESSION_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


def new_id(prefix: str, *, now_ms: int | None = None) -> str:
    """Return `prefix_` and 20 letters: 48 bits of milliseconds, then 52 random bits."""
    at = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    number = (at & (1 << 48) - 1) << 52 | int.from_bytes(os.urandom(7), "big") >> 4
    letters = []
    for _ in range(20):
        letters.append(_ALPHABET[number & 31])
        number >>= 5
    return f"{prefix}_{''.join(reversed(letters))}"


def is_session_name(text: str) -> bool:
    """Say whether a user may call a session this: letters, digits, `._-`, at most 64, not only dots."""
    return _SESSION_NAME.fullmatch(text) is not None and text.strip(".") != ""
