"""A server that breaks in every way we know, against a model in both colours: each way has its one answer.

Those that cost no waiting run always, all of them under the marker `prove`.
"""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from plait.core.exchange import ProviderFailed, Reply
from plait.models.chat_model import chat_model
from plait.models.transport import Timeouts
from plait.testing import Raw, ScriptServer, faults
from plait.testing.faults import Step
from tests.unit.models.talking import TALKS

TEXT = "The quick brown fox jumps over the lazy dog, and then it comes back."
LIMITS = Timeouts(connect_s=2, first_byte_s=0.3, idle_s=0.3, total_s=3)
OK = ("ok", "")
CLOSED = ("unavailable", "closed")
CUT = ("protocol", "incomplete_stream")
NO_STREAM = ("protocol", "not_event_stream")
SSE = {"Content-Type": "text/event-stream"}
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Script:
    """One way to break, and what must come of it."""

    name: str
    step: Step
    expected: tuple[str, str]
    is_quick: bool = True


def event(content: str) -> bytes:
    """One event with a finish, its content as JSON text."""
    return b'data: {"choices":[{"index":0,"delta":{"content":%s},"finish_reason":"stop"}]}\n\n' % content.encode()


def at_every_phase() -> Iterator[Script]:
    """Connections that break or fall silent, at each place of a response."""
    for place in ("before_headers", "mid_headers"):
        for way in (faults.Reset, faults.Cut, faults.HalfClose):
            yield Script(f"{way.__name__} {place}", way(place), CLOSED)
        yield Script(f"Stall {place}", faults.Stall(place), ("timeout", "first_byte"), False)
    for place in ("after_headers", "mid_event", "after_event"):
        for way in (faults.Reset, faults.Cut, faults.HalfClose):
            yield Script(f"{way.__name__} {place}", way(place), CUT)
        detail = "first_byte" if place == "after_headers" else "idle"
        yield Script(f"Stall {place}", faults.Stall(place), ("timeout", detail), False)
    for way in (faults.Reset, faults.Cut, faults.HalfClose):
        yield Script(f"{way.__name__} before_done", way("before_done"), OK)
        yield Script(f"{way.__name__} before_end", way("before_end"), OK)
    yield Script("Stall before_done", faults.Stall("before_done"), OK, False)
    yield Script("Stall before_end", faults.Stall("before_end"), OK, False)
    yield Script("Stall that goes on", faults.Stall("mid_event", for_s=0.1), OK)
    yield Script("Stall too often", faults.Stall("after_headers", for_s=0.6), ("timeout", "first_byte"), False)


def statuses() -> Iterator[Script]:
    """Every status that providers send, with nothing but the status to go by."""
    kinds = {
        "bad_request": (400, 405, 406, 422),
        "auth": (401, 403),
        "quota": (402,),
        "model_not_found": (404,),
        "timeout": (408, 504, 524),
        "request_too_large": (413,),
        "rate_limit": (429,),
        "unavailable": (409, 500, 502, 503, 520, 522),
        "overloaded": (498, 529),
    }
    for kind, numbers in kinds.items():
        for status in numbers:
            yield Script(f"status {status}", faults.Status(status), (kind, ""))
    for status in (301, 302, 303, 307, 308):
        for where in ("/elsewhere", "http://169.254.169.254/latest", "https://login.example/"):
            step = faults.Status(status, headers={"Location": where})
            yield Script(f"status {status} to {where}", step, ("protocol", "redirect"), status == 302)
    for wait in ("2", "1.5", "Wed, 21 Oct 2015 07:28:00 GMT", "-3", "1000000000", "soon", ""):
        yield Script(f"wait {wait!r}", faults.Status(429, headers={"Retry-After": wait}), ("rate_limit", ""))
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    yield Script("status 529 with words", faults.Status(529, overloaded), ("overloaded", ""))
    yield Script("status 502 page", faults.Html(502), ("unavailable", ""))
    yield Script("status 200 error", Raw(b'{"error":{"message":"no","code":503}}'), ("unavailable", ""))


def contents() -> Iterator[Script]:
    """Bodies that arrive and are not what was asked for, or are, in an odd form."""
    yield Script("page", faults.Html(), NO_STREAM)
    yield Script("empty", faults.Empty(), CUT)
    yield Script("no content", faults.Empty(204), CUT)
    yield Script("plain text", Raw(b"it works!"), NO_STREAM)
    yield Script("other json", Raw(b'{"status":"up"}'), NO_STREAM)
    yield Script("no done", faults.NoDone(answer=TEXT), OK)
    yield Script("no finish", faults.NoFinish(answer=TEXT), OK)
    yield Script("done twice", Raw(event('"a"') + DONE + DONE, SSE), OK)
    yield Script("after done", Raw(event('"a"') + DONE + event('"b"'), SSE), OK)
    for after in (0, 1, 2):
        yield Script(f"error after {after}", faults.StreamError(after=after), ("unavailable", ""))
    yield Script("error and done", faults.StreamError(after=2, done=True), ("unavailable", ""))
    for name, kind in (("text/plain", "plain"), ("application/json", "json"), ("", "none")):
        yield Script(f"type {kind}", faults.WrongType(name), OK)
    yield Script("CRLF", faults.LineEnds("\r\n"), OK)
    yield Script("CR", faults.LineEnds("\r"), OK)
    yield Script("comments", faults.KeepAlives(), OK)
    yield Script("comments that outlast a limit", faults.KeepAlives(count=12, gap_s=0.05), OK, False)
    yield Script("gzip", faults.Gzip(), OK)
    yield Script("damaged gzip", faults.Gzip("corrupt"), ("protocol", "encoding"))
    yield Script("half of a gzip", faults.Gzip("truncated"), CUT)
    bomb = gzip.compress(b"data: " + b" " * 20_000_000, 1, mtime=0)
    yield Script("gzip bomb", Raw(bomb, {**SSE, "Content-Encoding": "gzip"}), CUT)
    yield Script("brotli", Raw(b"\x0b\x02\x80", {**SSE, "Content-Encoding": "br"}), ("protocol", "encoding"))
    yield Script("BOM", Raw(b"\xef\xbb\xbf" + event('"a"') + DONE, SSE), OK)
    yield Script("NUL", Raw(event('"a\\u0000b"') + DONE, SSE), OK)
    yield Script("half a character", Raw(event('"\\ud83d"') + DONE, SSE), OK)
    yield Script("not UTF-8", Raw(event('"a"').replace(b'"a"', b'"\xff"') + DONE, SSE), OK)
    yield Script("NaN", Raw(event('"a"').replace(b'"index":0', b'"index":NaN') + DONE, SSE), OK)
    yield Script(
        "deep", Raw(b"data: " + b"[" * 100_000 + b"\n\n" + event('"a"') + DONE, SSE), ("protocol", "garbled_event")
    )
    yield Script("half an event", Raw(b'data: {"choices":[{"ind', SSE), CUT)
    yield Script("an event that is no JSON", Raw(b"data: oops\n\n" + event('"a"') + DONE, SSE), OK)


def deliveries() -> Iterator[Script]:
    """The right body, badly delivered."""
    for size in (1, 2, 3, 7, 100):
        yield Script(f"pieces of {size}", faults.Split(size), OK)
    for seed in range(5):
        yield Script(f"pieces by {seed}", faults.Split(seed=seed), OK)
    yield Script("one byte now and then", faults.Slow(gap_s=0.02), ("timeout", "first_byte"), False)
    yield Script("longer than said", faults.WrongLength(by=-10), OK)
    yield Script("shorter than said", faults.WrongLength(by=10), OK)
    yield Script("bad chunk", faults.BadChunk(), CUT)
    yield Script("early hints", faults.EarlyHints(), OK)
    yield Script("refused", faults.Refuse(for_s=0.5), ("unavailable", "refused"), False)
    yield Script("another protocol", Raw(b"SSH-2.0-OpenSSH_9.2\r\n", framed=False), ("protocol", "not_http"))
    yield Script("HTTP/2", Raw(b"HTTP/2 200\r\n\r\n", framed=False), ("protocol", "not_http"))
    bad_length = b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"
    yield Script("a length in words", Raw(bad_length, framed=False), ("protocol", "not_http"))
    endless = b"HTTP/1.1 200 OK\r\n" + b"X-Padding: " + b"x" * 200_000
    yield Script("headers without end", Raw(endless, framed=False), ("protocol", "not_http"))
    old = b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + event('"a"') + DONE
    yield Script("HTTP/1.0", Raw(old, framed=False), OK)
    yield Script("a line of 1 GB", faults.LongLine(), CUT, False)


SCRIPTS = [*at_every_phase(), *statuses(), *contents(), *deliveries()]


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_every_quick_fault_has_its_class(colour: str) -> None:
    """A server that breaks differently each time is told rightly each time."""
    quick = [script for script in SCRIPTS if script.is_quick]
    with ScriptServer([script.step for script in quick]) as server:
        model = chat_model("any", server.url, timeouts=LIMITS)
        actual = {script.name: named(TALKS[colour](model, 1)[0]) for script in quick}
    assert {script.name: script.expected for script in quick} == actual


@pytest.mark.prove
@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_every_fault_has_its_class(script: Script, colour: str) -> None:
    """Every fault, stalls and a line of a gigabyte among them, ends in the class that its script names."""
    assert script.expected == outcome_of(script.step, colour)


@pytest.mark.prove
@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("way", [faults.Cut, faults.Reset, faults.HalfClose])
def test_a_stream_that_ends_at_any_byte_is_never_taken_for_an_answer(
    way: type[faults.Cut] | type[faults.Reset] | type[faults.HalfClose], colour: str
) -> None:
    """Wherever the body ends before it is whole, the outcome is a failure; from where it is whole, the answer."""
    steps: list[Step] = [way(at, answer="Short.") for at in range(0, 1_100, 3)]
    outcomes = [outcome_of(step, colour) for step in steps]
    assert {CUT, OK} == set(outcomes)
    assert 2 == len([outcome for outcome, _ in itertools.groupby(outcomes)])


def test_the_campaign_is_as_large_as_it_says() -> None:
    """There are at least sixty scripts, and each has a name of its own."""
    assert len(SCRIPTS) >= 60
    assert len(SCRIPTS) == len({script.name for script in SCRIPTS})


def outcome_of(step: Step, colour: str) -> tuple[str, str]:
    """Ask once and return how it ended."""
    with ScriptServer([step], allow_unused=True) as server:
        return named(TALKS[colour](chat_model("any", server.url, timeouts=LIMITS), 1)[0])


def named(outcome: Reply | ProviderFailed) -> tuple[str, str]:
    """Return `ok`, or a failure's class and detail."""
    return (outcome.kind, outcome.detail) if isinstance(outcome, ProviderFailed) else OK
