"""Names and ids in the alphabet an endpoint takes.

Floor: 1. Owns: the mapping, always the same for the same name; never: which endpoint takes what.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal

Alphabet = Literal["any", "word", "nine"]
NAME_CHARS_MAX: Final = 64
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NINE: Final = re.compile(r"[A-Za-z0-9]{9}")
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")
_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def wire_name(name: str) -> str:
    """Return a tool's name as every endpoint takes it: letters, digits, `_-`, at most 64.

    A name that has to change ends in a digest of the original, so that two names never become one.
    """
    if _NAME.fullmatch(name):
        return name
    return f"{_OTHER.sub('_', name)[: NAME_CHARS_MAX - 9]}_{_digest(name, 8)}"


def original_names(names: Iterable[str]) -> Mapping[str, str]:
    """Return the way back from `wire_name`, for the names that change."""
    return {sent: name for name in names if (sent := wire_name(name)) != name}


def wire_id(id: str, alphabet: Alphabet) -> str:
    """Return a call's id as an endpoint takes it; the same id always becomes the same."""
    if alphabet == "any" or (alphabet == "word" and _NAME.fullmatch(id)):
        return id
    if alphabet == "nine":
        return id if _NINE.fullmatch(id) else _digest(id, 9)
    return f"{_OTHER.sub('_', id)[: NAME_CHARS_MAX - 9]}_{_digest(id, 8)}"


def _digest(text: str, length: int) -> str:
    number = int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16], "big")
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(digits)
