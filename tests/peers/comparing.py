"""Two request bodies side by side, member by member."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MISSING = "(not there)"


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return where two bodies differ: a path such as `messages[].content` to what stands there, ours first."""
    found: dict[str, tuple[Any, Any]] = {}
    for path, one, other in _pairs(ours, theirs, ""):
        found.setdefault(re.sub(r"\[\d+\]", "[]", path), (one, other))
    return found


def _pairs(one: Any, other: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in dict.fromkeys([*one, *other]):
            at = f"{path}.{name}".lstrip(".")
            yield from _pairs(one.get(name, MISSING), other.get(name, MISSING), at)
    elif _is_list(one) and _is_list(other) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _pairs(left, right, f"{path}[{index}]")
    elif path.endswith(".arguments") and isinstance(one, str) and isinstance(other, str):
        if json.loads(one) != json.loads(other):
            yield path, one, other
    elif one != other or type(one) is not type(other):
        yield path, one, other


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))
