"""Bodies that no server should send: recorded ones, broken at random."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from plait.wire.profile import WireName
from tests.unit.wire.cases import stream_cases

TOKENS = (
    b'\n|\r|\r\n|\n\n|data: |data:|event: error\n|error: |: |[DONE]|data: [DONE]\n\n|{|}|[|]|"|\\|\\ud83d|null|<html>|'
    b"\x1f\x8b|\xef\xbb\xbf|\xff|\x00|data: {}\n\n|data: []\n\n|data: 1\n\n|0|-1|1e999|NaN"
).split(b"|")
VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2**63 - 1,
    1.5,
    "",
    "x",
    "\ud83d",
    [],
    {},
    [None],
    {"x": None},
    ["x"],
    [{}],
)


def broken_body(dice: random.Random, wire: WireName) -> bytes:
    """Return a recorded body after one to four random changes to its bytes or its documents."""
    cases = stream_cases(wire)
    body = dice.choice(cases).body
    for _ in range(dice.randint(1, 4)):
        body = dice.choice(_CHANGES)(dice, body) if dice.random() < 0.9 else body + dice.choice(cases).body
    return body


def _with_flipped_byte(dice: random.Random, body: bytes) -> bytes:
    at = dice.randrange(len(body) + 1)
    return body[:at] + bytes([dice.randrange(256)]) + body[at + 1 :]


def _with_token(dice: random.Random, body: bytes) -> bytes:
    at = dice.randrange(len(body) + 1)
    return body[:at] + dice.choice(TOKENS) + body[at + dice.randrange(3) :]


def _without_slice(dice: random.Random, body: bytes) -> bytes:
    start, end = sorted(dice.randrange(len(body) + 1) for _ in range(2))
    return body[:start] + body[end:]


def _with_repeated_slice(dice: random.Random, body: bytes) -> bytes:
    start, end = sorted(dice.randrange(len(body) + 1) for _ in range(2))
    return body[:end] + body[start:]


def _cut(dice: random.Random, body: bytes) -> bytes:
    return body[: dice.randrange(len(body) + 1)]


def _with_shuffled_events(dice: random.Random, body: bytes) -> bytes:
    blocks = body.split(b"\n\n")
    dice.shuffle(blocks)
    return b"\n\n".join(blocks)


def _with_other_value(dice: random.Random, body: bytes) -> bytes:
    """Replace one value anywhere in one document by one of another kind."""
    blocks = body.split(b"\n\n")
    at = dice.randrange(len(blocks))
    head, data, text = blocks[at].rpartition(b"data:")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return body
    blocks[at] = head + data + json.dumps(_changed(dice, document)).encode()
    return b"\n\n".join(blocks)


def _changed(dice: random.Random, value: Any) -> Any:
    if not isinstance(value, (dict, list)) or not value or dice.random() < 0.1:
        return dice.choice(VALUES)
    if isinstance(value, list):
        at = dice.randrange(len(value))
        return [_changed(dice, item) if index == at else item for index, item in enumerate(value)]
    key = dice.choice(list(value))
    return {name: _changed(dice, item) if name == key else item for name, item in value.items()}


_CHANGES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    _with_flipped_byte,
    _with_token,
    _without_slice,
    _with_repeated_slice,
    _cut,
    _with_shuffled_events,
    *[_with_other_value] * 6,
)
