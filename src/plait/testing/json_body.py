"""JSON and events as bytes, the same for every API shape.

Floor: testing. Owns: bytes and content types; never: what they say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from plait.testing.request import Request, raw_members

EVENT_HEADERS: Final[Mapping[str, str]] = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
}
JSON_HEADERS: Final[Mapping[str, str]] = {"Content-Type": "application/json"}
CREATED_AT_S: Final = 1_700_000_000


def dump(value: object) -> bytes:
    """Return JSON; ASCII escapes keep lone surrogates and every other text sendable."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def event(value: object) -> bytes:
    """Return an event without a name."""
    return b"data: " + dump(value) + b"\n\n"


def named_event(value: Mapping[str, object]) -> bytes:
    """Return an event whose name is the `type` of its data."""
    return f"event: {value['type']}\n".encode() + event(value)


def prompt_bytes(request: Request, *members: str, listed: str) -> bytes:
    """Return members of a request as sent, and last the list that grows, without the bracket that closes it.

    Raises:
        ValueError: the request has no such list.
    """
    found = raw_members(request.body)
    items = found.get(listed, b"")
    if not items.startswith(b"["):
        raise ValueError(f"the request has no list of {listed}")
    # Without its closing bracket the list of one request is a prefix of the next one's.
    return b"".join(found.get(name, b"") for name in members) + items[:-1].rstrip()


def count_of(usage: Mapping[str, object], *path: str) -> int:
    """Return a number in a nested object, 0 where it is not."""
    value: object = usage
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, int) else 0
