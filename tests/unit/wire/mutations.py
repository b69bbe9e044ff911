"""Bodies that no server should send: recorded ones, broken at random."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from plait.wire.profile import WireName
from tests.unit.wire.cases import CASES, bodies, stream_cases

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


HEADERS = (
    "retry-after retry-after-ms x-ms-retry-after-ms x-ratelimit-reset x-ratelimit-reset-requests"
    " x-ratelimit-remaining-requests anthropic-ratelimit-tokens-reset date content-type"
).split()
WAITS = (
    "1|0|-1|1.5|250|6m0s|1h2m3.5s|12ms|1d|soon||nan|inf|1e9|9999999999|1764500000|1764500000000|10^9"
    "|Wed, 21 Oct 2026 07:28:20 GMT|Wed, 99 Oct 99999 07:28:20 GMT|2026-10-21T07:28:20Z|0001-01-01T00:00:00+23:59"
).split("|")


def broken_body(dice: random.Random, wire: WireName) -> bytes:
    """Return a recorded body after one to four random changes to its bytes or its documents."""
    return _broken(dice, list(bodies(wire)))


def broken_error(dice: random.Random) -> bytes:
    """Return the body of a recorded error after one to four random changes, now and then that of a stream."""
    if dice.random() < 0.2:
        return broken_body(dice, dice.choice(("chat", "responses", "anthropic")))[: dice.choice([40, 400, 4_000])]
    return _broken(dice, error_bodies())


def broken_header(dice: random.Random) -> tuple[str, str]:
    """Return a header that may say how long to wait, and what it should not say."""
    value = (
        _with_flipped_byte(dice, dice.choice(WAITS).encode()) if dice.random() < 0.5 else dice.choice(WAITS).encode()
    )
    return dice.choice(HEADERS), (value * dice.choice([1, 1, 1, 40])).decode("latin-1")


def broken_response(dice: random.Random) -> bytes:
    """Return an HTTP answer, framed and packed in one of the usual ways, after up to four random changes."""
    body = dice.choice(stream_cases(dice.choice(("chat", "responses", "anthropic")))).body[: dice.choice([300, 4_000])]
    headers = [b"Content-Type: text/event-stream"]
    if dice.random() < 0.3:
        body = gzip.compress(body, mtime=0)
        headers.append(b"Content-Encoding: gzip")
    framing = dice.choice(("length", "chunked", "close"))
    if framing == "length":
        headers.append(b"Content-Length: %d" % len(body))
    if framing == "chunked":
        headers.append(b"Transfer-Encoding: chunked")
        size = dice.randint(1, 200)
        pieces = [body[at : at + size] for at in range(0, len(body), size)]
        body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    response = b"HTTP/1.1 200 OK\r\n" + b"\r\n".join(headers) + b"\r\n\r\n" + body
    for _ in range(dice.randrange(5)):
        response = dice.choice(_BYTE_CHANGES)(dice, response)
    return response


@cache
def error_bodies() -> list[bytes]:
    """Return the bodies of all recorded errors."""
    files = (CASES / "http_errors.jsonl", Path(__file__).with_name("more_errors.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
    return [str(line["body"]).encode() for line in lines]


def _broken(dice: random.Random, bodies: list[bytes]) -> bytes:
    body = dice.choice(bodies)
    for _ in range(dice.randint(1, 4)):
        body = dice.choice(_CHANGES)(dice, body) if dice.random() < 0.9 else body + dice.choice(bodies)
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
    head, data, text = blocks[at].rpartition(b"data:")  # an error's body is a document without a field
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


_BYTE_CHANGES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    _with_flipped_byte,
    _with_token,
    _without_slice,
    _with_repeated_slice,
    _cut,
)
_CHANGES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    *_BYTE_CHANGES,
    _with_shuffled_events,
    *[_with_other_value] * 6,
)
