"""Reading HTTP/1.1 responses: where they end, and what is refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from plait.models.http.http1 import BrokenOff, NotHttp, ResponseParser, request_head

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n"
WHOLE: list[tuple[str, bytes, bytes, bool]] = [
    ("chunks", CHUNKED, b"hello world", True),
    ("trailers", CHUNKED[:-2] + b"Expires: never\r\n\r\n", b"hello world", True),
    ("a length", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello", True),
    ("a length twice", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi", b"hi", True),
    ("no body", b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
    ("an empty body", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"", True),
    ("the end of the connection", b"HTTP/1.1 200 OK\r\n\r\nhello", b"hello", False),
    ("close", b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi", b"hi", False),
    ("HTTP/1.0", b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", b"hi", False),
    ("HTTP/1.0 that stays", b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi", b"hi", True),
    (
        "hints before it",
        b"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + CHUNKED,
        b"hello world",
        True,
    ),
    ("plain line ends", CHUNKED.replace(b"\r\n", b"\n"), b"hello world", True),
    ("both framings", CHUNKED.replace(b"OK\r\n", b"OK\r\nContent-Length: 3\r\n"), b"hello world", False),
    ("no last blank line", CHUNKED[:-2], b"hello world", False),
    ("odd headers", b"HTTP/1.1 200\r\nno colon\r\nX: a\r\n b\r\nContent-Length: 1\r\n\r\n!", b"!", True),
]
BROKEN: list[tuple[str, bytes, type[Exception]]] = [
    ("nothing", b"", BrokenOff),
    ("half a head", b"HTTP/1.1 200 OK\r\nContent-", BrokenOff),
    ("half a length", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", BrokenOff),
    ("half a chunk", CHUNKED[:60], BrokenOff),
    ("no last chunk", CHUNKED[:-5], BrokenOff),
    ("another protocol", b"SSH-2.0-OpenSSH\r\n", NotHttp),
    ("another version", b"HTTP/2 200\r\n\r\n", NotHttp),
    ("no status", b"HTTP/1.1 OK\r\n\r\n", NotHttp),
    ("a size that is no number", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", NotHttp),
    ("a signed size", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n", NotHttp),
    ("a chunk that goes on", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n", NotHttp),
    ("a packed transfer", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", NotHttp),
    ("two lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", NotHttp),
    ("a negative length", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", NotHttp),
    ("headers without end", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000, NotHttp),
    ("a size without end", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 10_000, NotHttp),
]


def read(data: bytes, cuts: list[int]) -> tuple[bytes, ResponseParser]:
    """Feed `data` in pieces that end at `cuts`, then the end of the connection."""
    parser = ResponseParser()
    body = b""
    start = 0
    for cut in [*sorted(cuts), len(data)]:
        body += parser.feed(data[start:cut])
        start = cut
    can_follow = parser.can_follow and parser.is_over
    parser.end()
    parser.can_follow = can_follow
    return body, parser


@pytest.mark.parametrize("data, expected, can_follow", [case[1:] for case in WHOLE], ids=[case[0] for case in WHOLE])
def test_a_response_ends_where_it_says(data: bytes, expected: bytes, can_follow: bool) -> None:
    """Every framing gives its body, and says whether the connection can be used again."""
    body, parser = read(data, [])
    assert expected == body
    assert parser.is_over
    assert can_follow == parser.can_follow


@pytest.mark.parametrize("data, expected", [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_doubtful_response_is_refused(data: bytes, expected: type[Exception]) -> None:
    """What is cut is told from what is no HTTP at all."""
    with pytest.raises(expected):
        read(data, [])


@given(st.sampled_from([case[1] for case in WHOLE]), st.lists(st.integers(0, 200)))
def test_the_answer_does_not_depend_on_where_reads_end(data: bytes, cuts: list[int]) -> None:
    """However the bytes are cut, head, body and the connection's fate are the same."""
    whole, parser = read(data, [])
    pieces, cut_parser = read(data, [min(cut, len(data)) for cut in cuts])
    assert (whole, parser.head, parser.can_follow) == (pieces, cut_parser.head, cut_parser.can_follow)


@given(st.binary(max_size=300), st.booleans())
def test_no_bytes_break_the_reader(data: bytes, with_head: bool) -> None:
    """Whatever comes is a response, a broken one, or none."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" if with_head else b"HTTP/1.1 "
    with suppress(NotHttp, BrokenOff):
        read(head + data, [7])


def test_bytes_after_the_end_forbid_another_request() -> None:
    """A server that says more than its response cannot be trusted with the next one."""
    parser = ResponseParser()
    parser.feed(CHUNKED)
    assert parser.can_follow
    parser.feed(b"HTTP/1.1 200 OK\r\n\r\n")
    assert not parser.can_follow


def test_a_header_that_would_split_a_request_is_refused_without_its_value() -> None:
    """A line break in a header is an error, and its text does not repeat the secret."""
    with pytest.raises(ValueError, match="Authorization") as refused:
        request_head("POST", "/v1", "host", {"Authorization": "Bearer secret\r\nX: y"}, 0)
    assert "secret" not in str(refused.value)


def test_a_request_names_its_host_and_length_once() -> None:
    """The head is complete, and a caller's own Host header does not double ours."""
    head = request_head("POST", "/v1?x=1", "models.example:8080", {"host": "other", "Accept": "*/*"}, 12)
    assert b"POST /v1?x=1 HTTP/1.1\r\nHost: models.example:8080\r\nAccept: */*\r\nContent-Length: 12\r\n\r\n" == head


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding"])
def test_no_header_says_otherwise_where_a_request_ends(name: str) -> None:
    """What frames a request is made from the request alone, whatever a configuration adds."""
    plain = request_head("POST", "/v1", "here", {"X-A": "b"}, 5)
    assert plain == request_head("POST", "/v1", "here", {name: "3", "X-A": "b"}, 5)
