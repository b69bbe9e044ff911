"""The event stream parser gives the same events wherever a read ends, and keeps memory bounded."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from plait.wire.decode import pieces_of
from plait.wire.sse import Event, SseParser

LINES = st.sampled_from(
    b'data: {"a":1}|data:{}|data: [1,|data: 2]|data: [DONE]|data:|data|: ping|:|event: x|event:y|id: 7|retry: 10|'
    b'error: {}|||noise|data:  two blanks|  data: x|data: {|"b": 1}|[DONE]'.split(b"|")
)
ENDS = st.sampled_from([b"\n", b"\n", b"\r\n", b"\r"])
STREAMS = st.lists(st.tuples(LINES, ENDS).map(b"".join), max_size=12).map(b"".join)


def events_of(*reads: bytes, size_bytes_max: int = 1000) -> list[Event]:
    parser = SseParser(size_bytes_max=size_bytes_max)
    return [event for read in reads for event in parser.feed(read)] + parser.finish()


def singly(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


@given(STREAMS, st.lists(st.integers(0, 200), max_size=6), st.sampled_from([b"", b"\xef\xbb\xbf"]))
def test_reads_do_not_matter(stream: bytes, cuts: list[int], bom: bytes) -> None:
    """Any split of any stream gives the events of the whole."""
    stream = bom + stream
    pieces = list(pieces_of(stream, cuts))
    whole = events_of(stream)
    assert whole == events_of(*pieces)
    assert whole == events_of(*singly(stream))


@given(STREAMS)
def test_line_ends_do_not_matter(stream: bytes) -> None:
    """A stream with CRLF, CR or LF has the same events."""
    plain = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert events_of(plain) == events_of(plain.replace(b"\n", b"\r\n")) == events_of(plain.replace(b"\n", b"\r"))


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=4))
def test_no_bytes_are_an_error(data: bytes, cuts: list[int]) -> None:
    """Bytes of any kind give the same events for any split, and never an exception."""
    assert events_of(data) == events_of(*pieces_of(data, cuts)) == events_of(*singly(data))


@pytest.mark.parametrize(
    "stream, expected",
    [
        (b"data: a\n\n", [(b"", b"a")]),
        (b"data:a\n\n", [(b"", b"a")]),
        (b"data:  a\n\n", [(b"", b" a")]),
        (b"event: e\ndata: a\n\n", [(b"e", b"a")]),
        (b"data: a\nevent: e\n\n", [(b"e", b"a")]),
        (b"data: a\ndata: b\n\n", [(b"", b"a\nb")]),
        (b'data: {"a":\ndata: 1}\n\n', [(b"", b'{"a":\n1}')]),
        (b'data: {"a":1}\ndata: {"b":2}\n', [(b"", b'{"a":1}'), (b"", b'{"b":2}')]),
        (b"event: a\ndata: {}\nevent: b\ndata: {}\n", [(b"a", b"{}"), (b"b", b"{}")]),
        (b": c\n\n: d\ndata: a\n\n", [(b"", b"a")]),
        (b"data:\n\ndata\n\nevent: ping\n\n", []),
        (b"\xef\xbb\xbfdata: a\n\n", [(b"", b"a")]),
        (b"\n\n\ndata: a\n\n\n\n", [(b"", b"a")]),
        (b"error: {}\n\n", [(b"error", b"{}")]),
        (b"id: 1\nretry: 5\ndata: a\n\n", [(b"", b"a")]),
        (b'data: {\n "a": 1,\n "data": 2\n}\n\ndata: b\n\n', [(b"", b'{\n "a": 1,\n "data": 2\n}'), (b"", b"b")]),
        (b'data: {"a":1}\nnoise\n\n', [(b"", b'{"a":1}')]),
        (b'  data: {"a":1}\n\n', [(b"", b'{"a":1}')]),
        (b"data: a\n\n[DONE]\n", [(b"", b"a"), (b"", b"[DONE]")]),
    ],
)
def test_fields_and_events(stream: bytes, expected: list[Event]) -> None:
    """Fields become events by the standard, with the liberties that real servers need."""
    assert expected == events_of(stream)


def test_end_of_stream_closes_the_last_event() -> None:
    """An event without its empty line, or even without its line end, still counts at the end."""
    assert [(b"", b"a")] == events_of(b"data: a\n")
    assert [(b"", b"a")] == events_of(b"data: a")


def test_done_is_seen_before_its_empty_line() -> None:
    """The end marker is an event as soon as its line is whole: the socket may never be closed."""
    assert [(b"", b"[DONE]")] == SseParser().feed(b"data: [DONE]\n")


@pytest.mark.parametrize("whole", [True, False])
def test_line_beyond_the_limit_ends_the_stream(whole: bool) -> None:
    """A line larger than the limit is told by a flag; events before it count, nothing after it does."""
    stream = b"data: a\n\ndata: " + b"x" * 2000 + b"\n\ndata: b\n\n"
    parser = SseParser(size_bytes_max=1000)
    events = [event for read in ([stream] if whole else singly(stream)) for event in parser.feed(read)]
    assert [(b"", b"a")] == events + parser.finish()
    assert parser.too_large


def test_event_beyond_the_limit_ends_the_stream() -> None:
    """An event whose lines together are larger than the limit is told by the same flag."""
    parser = SseParser(size_bytes_max=1000)
    assert [] == parser.feed(b"data: [" + b",\ndata: ".join([b"x" * 100] * 20) + b"\n\n") + parser.finish()
    assert parser.too_large


def test_endless_line_is_not_kept() -> None:
    """A line that never ends stops being collected at the limit."""
    parser = SseParser(size_bytes_max=1000)
    for _ in range(1000):
        parser.feed(b"x" * 100)
    assert parser.too_large
    assert len(parser._tail) <= 1100


def test_stream_is_told_from_other_text() -> None:
    """Text without a single known field is no event stream."""
    noise, stream = SseParser(), SseParser()
    noise.feed(b"Bad gateway\nplease try later\n\n")
    stream.feed(b": ping\n\n")
    assert (False, True) == (noise.is_stream, stream.is_stream)
