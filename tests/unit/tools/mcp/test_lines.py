"""What a server writes, cut into lines and sifted: one bad line never costs a good one, and nothing grows."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

from hypothesis import given, strategies as st

from plait.tools.mcp.lines import Lines, TooLong, messages_in
from plait.tools.mcp.log import ServerLog
from plait.tools.mcp.sdk import load_sdk
from plait.tools.mcp.sieve import Sieve
from tests.helpers.campaigns import Campaign

MESSAGE = b'{"jsonrpc":"2.0","id":%d,"result":{"text":"%s"}}'
NOISE = (
    b"Server started",
    b"\xff\xfe\x00\x01",
    b"{",
    b'{"jsonrpc":"2.0"',
    b'{"jsonrpc":"2.0","id":{},"result":1}',
    b'{"jsonrpc":"1.0","id":1,"result":{}}',
    b"[]",
    b"null",
    b'"text"',
    b"[" * 5_000,
    b'{"a":' * 2_000,
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}',
    b'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"\\ud800"}}',
    b'{"jsonrpc":"2.0","method":5}',
    b'{"jsonrpc":"2.0","id":1e999,"result":{}}',
    b"\r",
    b"",
)


def cut(data: bytes, places: list[int]) -> Iterator[bytes]:
    """Cut bytes at some places."""
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    for begin, end in itertools.pairwise(edges):
        yield data[begin:end]


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(0, 400), max_size=6), st.integers(5, 60))
def test_lines_do_not_depend_on_how_they_come(parts: list[bytes], places: list[int], bytes_max: int) -> None:
    """Cut anywhere, the same lines come out; each is either whole or said to be too long."""
    data = b"\n".join(parts)

    def lines(pieces: Iterator[bytes]) -> list[bytes | TooLong]:
        cutter = Lines(bytes_max)
        return [line for piece in pieces for line in cutter.feed(piece)] + list(cutter.close())

    found = lines(cut(data, places))
    assert lines(iter([data])) == found
    wanted = data.split(b"\n")
    if not wanted[-1]:
        wanted.pop()
    assert [len(line) for line in wanted] == [
        line.size_bytes if isinstance(line, TooLong) else len(line) + (own.endswith(b"\r") and len(own) - len(line))
        for own, line in zip(wanted, found, strict=True)
    ]


def test_a_long_line_is_answered_by_its_id() -> None:
    """Wherever the id stands; one inside the result is no id."""
    long = "x" * 2_000
    for name in (7, "seven"):
        first = json.dumps({"jsonrpc": "2.0", "id": name, "result": long}).encode()
        last = json.dumps({"jsonrpc": "2.0", "result": long, "id": name}).encode()
        inner = json.dumps({"jsonrpc": "2.0", "result": {"text": long, "id": name}}).encode()
        found = list(Lines(1_000).feed(b"\n".join([first, last, inner, b""])))
        assert [name, name, None] == [line.id for line in found if isinstance(line, TooLong)]


def test_a_message_after_half_a_line_is_found() -> None:
    """What stands before it on its line is noise."""
    assert MESSAGE % (1, b"a") in list(messages_in(b'Loading {"id" ... ' + MESSAGE % (1, b"a")))


def test_an_answer_that_cannot_be_read_is_an_error_at_once() -> None:
    """Half a character is replaced; what is still no answer, or too deep for one, is answered by its id."""
    sieve = Sieve(ServerLog(None, "x"), load_sdk())

    for broken in (b"cut \\ud83d", b"cut \xff"):
        (read,) = sieve.messages(MESSAGE % (1, broken))
        assert (1, {"text": "cut \ufffd"}) == (read.id, read.result)
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    for name, rest, words in (
        (b"2", b'"result":null', "not what the protocol says"),
        (b'"x"', b'"error":{"code":"E","message":5}', "not what the protocol says"),
        (b"3", b'"result":' + b'{"a":' * 400 + b"1" + b"}" * 400, "too deeply"),
        (b"4", b'"result":' + deep, "too deeply"),
    ):
        (refused,) = sieve.messages(b'{"jsonrpc":"2.0","id":' + name + b"," + rest + b"}")
        assert json.loads(name) == refused.id
        assert words in refused.error.message


def test_no_noise_costs_a_message(campaign: Campaign) -> None:
    """Messages between all kinds of noise, damaged copies of themselves included, cut anywhere, all come through."""
    types: Any = load_sdk()
    for seed in campaign.seeds(fast=60, full=100_000):
        choose = random.Random(seed)
        wanted, pieces = [], []
        for number in range(choose.randrange(1, 6)):
            pieces += choose.choices(NOISE, k=choose.randrange(3))
            message = MESSAGE % (number, choose.choice([b"a", b"\\u00e9", b"\xc3\xa9" * 50]))
            if choose.random() < 0.3:
                damaged = bytearray(message)
                damaged[choose.randrange(len(damaged))] = choose.choice(b'{}",:\\\x00x')
                pieces.append(bytes(damaged).replace(b"\n", b" ")[: choose.randrange(len(damaged))])
            prefix = choose.choice([b"", b"", b"half a line ", b"[warn] "])
            pieces.append(prefix + message + choose.choice([b"", b"\r"]))
            wanted.append(number)
        data = b"\n".join([*pieces, b""])
        sieve, lines, found = Sieve(ServerLog(None, "x"), types), Lines(), []
        for piece in cut(data, [choose.randrange(len(data)) for _ in range(choose.randrange(8))]):
            for line in lines.feed(piece):
                found += [message.id for message in sieve.messages(line) if hasattr(message, "result")]
        assert (seed, wanted) == (seed, [number for number in found if number in wanted])
