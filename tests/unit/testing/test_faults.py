"""Faults as pure changes of a response and of its plan."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable

import pytest
from hypothesis import given, strategies as st

from plait.testing import Say, faults
from plait.testing.dialects import ChatDialect
from plait.testing.faults import FAULTS, At, Fault, Phase, Serving, Step, until
from plait.testing.request import Request
from plait.testing.response import Fin, HalfFin, Hang, Op, Pause, Repeat, Response, Rst, Send
from plait.testing.steps import Raw, as_answer

CHAT = ChatDialect()
TEXT = Say("one two three four")


def serving(*, stream: bool = True) -> Serving:
    """Return what a server hands to a fault."""
    body = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": "hi"}]}
    request = Request(1, "POST", "/v1/chat/completions", {}, json.dumps(body).encode(), 1)

    def render(step: Step) -> Response:
        if isinstance(step, Fault):
            return step.respond(Serving(CHAT, render))
        answer = as_answer(step)
        assert not isinstance(answer, Raw)
        return CHAT.render(answer, request, {})

    return Serving(CHAT, render)


def ops(fault: Fault, *, stream: bool = True) -> list[Op]:
    """Return the plan of a fault."""
    return list(fault.plan(fault.respond(serving(stream=stream))))


def sent(plan: Iterable[Op]) -> bytes:
    """Return every byte that a plan sends."""
    return b"".join(op.data for op in plan if isinstance(op, Send))


def whole(*, stream: bool = True) -> Response:
    """Return the response that nothing is wrong with."""
    return serving(stream=stream).render(TEXT)


PLACES: list[Phase] = [
    "before_headers",
    "mid_headers",
    "after_headers",
    "mid_event",
    "after_event",
    "before_done",
    "before_end",
]


@given(st.sampled_from(PLACES) | st.integers(0, 3_000), st.booleans())
def test_a_cut_response_is_a_prefix_of_the_whole(at: At, stream: bool) -> None:
    """Whatever the place, what is sent up to it is what would have been sent."""
    response = whole(stream=stream)

    assert sent(response.plan()).startswith(sent(until(response, at)))


def test_later_places_send_more() -> None:
    """The places of a streamed response are in order, and none of them is the end."""
    response = whole()
    sizes = [len(sent(until(response, at))) for at in PLACES]

    assert sorted(set(sizes)) == sizes
    assert sizes[-1] < len(sent(response.plan()))


def test_before_done_leaves_only_the_last_event_out() -> None:
    """At `before_done` every event but [DONE] has come."""
    response = whole()
    partial = sent(until(response, "before_done"))

    assert b'"finish_reason":"stop"' in partial
    assert b"[DONE]" not in partial


def test_after_bytes_counts_the_body() -> None:
    """A number is a count of body bytes, headers not included."""
    response = whole()

    assert len(response.head()) + 10 == len(sent(until(response, 10)))


@pytest.mark.parametrize("kind", [faults.Reset, faults.Cut, faults.HalfClose, faults.Stall])
def test_an_unknown_place_is_refused(kind: type[faults.BreakingOff]) -> None:
    """A place that does not exist is an error when the fault is made, and tells the known ones."""
    with pytest.raises(ValueError, match=r"no place .* 'lunch'; known: before_headers"):
        kind("lunch")  # type: ignore[arg-type]


def test_faults_end_as_they_say() -> None:
    """A reset ends with RST, a cut with FIN, a half-close with our side, a stall with nothing."""
    endings = {faults.Reset: Rst(), faults.Cut: Fin(), faults.HalfClose: HalfFin(), faults.Stall: Hang()}

    assert endings == {kind: ops(kind("after_headers", answer=TEXT))[-1] for kind in endings}


def test_a_stall_with_an_end_loses_nothing() -> None:
    """After `for_s` the rest of the response follows."""
    plan = ops(faults.Stall("mid_event", for_s=0.1, answer=TEXT))

    assert Pause(0.1) in plan
    assert sent(whole().plan()) == sent(plan)


def test_a_slow_response_is_whole() -> None:
    """Dripping changes when bytes come, not which."""
    plan = ops(faults.Slow(0.01, size_bytes=7, answer=TEXT))

    assert sent(whole().plan()) == sent(plan)
    assert max(len(op.data) for op in plan if isinstance(op, Send)) == 7


@given(st.integers(1, 50), st.none() | st.integers())
def test_a_split_body_is_the_same_body(size_bytes: int, seed: int | None) -> None:
    """However a body is cut, it is the same body."""
    response = faults.Split(size_bytes, seed, answer=TEXT).respond(serving())

    assert whole().body == response.body


def test_random_splits_repeat() -> None:
    """The same seed cuts at the same places, another one elsewhere."""
    cuts = [faults.Split(seed=seed, answer=TEXT).respond(serving()).pieces for seed in (1, 1, 2)]

    assert cuts[0] == cuts[1]
    assert cuts[0] != cuts[2]


def test_gzip_is_whole_or_damaged() -> None:
    """In good order it unpacks to the body; damaged it does not."""
    good = faults.Gzip(answer=TEXT).respond(serving())

    assert whole().body == gzip.decompress(good.body)
    assert "gzip" == good.headers["Content-Encoding"]
    for fault in (faults.Gzip("truncated", answer=TEXT), faults.Gzip("corrupt", answer=TEXT)):
        with pytest.raises((EOFError, OSError, zlib.error)):
            gzip.decompress(fault.respond(serving()).body)


def test_faults_nest() -> None:
    """The answer of a fault may be a fault: a compressed stream that stalls."""
    plan = ops(faults.Stall("after_event", answer=faults.Gzip(answer=TEXT)))

    assert b"Content-Encoding: gzip" in sent(plan)
    assert Hang() == plan[-1]
    assert Hang() == ops(faults.Gzip(answer=faults.Stall(answer=TEXT)))[-1]


def test_status_speaks_the_api_or_your_own_words() -> None:
    """Without a body an error has the API's shape; text, bytes and objects are sent as they are."""
    plain = faults.Status(503, headers={"Retry-After": "2"}).respond(serving())

    assert (503, "2") == (plain.status, plain.headers["Retry-After"])
    assert "Service Unavailable (scripted)" == json.loads(plain.body)["error"]["message"]
    assert b"oops" == faults.Status(500, "oops").respond(serving()).body
    assert b"\xff" == faults.Status(500, b"\xff").respond(serving()).body
    assert {"a": 1} == json.loads(faults.Status(500, {"a": 1}).respond(serving()).body)


def test_an_error_comes_inside_a_stream() -> None:
    """An error object follows the first events, and [DONE] only if it is wanted."""
    fault = faults.StreamError({"message": "boom"}, after=2, answer=TEXT)
    body = fault.respond(serving()).body

    assert 3 == body.count(b"data: ")
    assert body.endswith(b'data: {"error":{"message":"boom"}}\n\n')
    assert faults.StreamError(done=True, answer=TEXT).respond(serving()).body.endswith(b"[DONE]\n\n")
    assert {"error": {"message": "boom"}} == json.loads(fault.respond(serving(stream=False)).body)


def test_shapes_of_content() -> None:
    """Types, line ends, comments and lengths are changed as the faults say."""
    untyped = faults.WrongType("", answer=TEXT).respond(serving())
    crlf = faults.LineEnds(answer=TEXT).respond(serving())
    alive = faults.KeepAlives(2, answer=TEXT).respond(serving())
    short = faults.WrongLength(-5, answer=TEXT).respond(serving(stream=False))

    assert "Content-Type" not in untyped.headers
    assert whole().body.replace(b"\n", b"\r\n") == crlf.body
    assert b": still working\n\n" * 2 + whole().body == alive.body
    assert f"Content-Length: {len(short.body) - 5}".encode() in short.head()


def test_a_long_line_costs_no_memory() -> None:
    """A line of a gigabyte is a plan of three operations."""
    plan = ops(faults.LongLine())
    repeat = plan[1]

    assert isinstance(repeat, Repeat)
    assert 3 == len(plan)
    assert len(repeat.data) * repeat.times >= 1 << 30


def test_every_fault_has_a_plan() -> None:
    """Each registered fault that needs no options can be planned, streamed or not."""
    for kind in FAULTS.values():
        fault = kind(429) if kind is faults.Status else kind()
        for stream in (True, False):
            assert ops(fault, stream=stream)


def test_a_fault_of_ones_own_is_a_class() -> None:
    """A program can add a fault by changing the plan."""

    class Twice(Fault):
        def plan(self, response: Response) -> Iterable[Op]:
            return (*response.plan(), *response.plan())

    assert sent(whole().plan()) * 2 == sent(ops(Twice(answer=TEXT)))
