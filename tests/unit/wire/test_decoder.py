"""A body that is no answer is never taken for one, and whatever arrived is kept."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from plait.core.exchange import ProviderFailed, Reply
from plait.core.messages import Message, Reasoning, Text, ToolCall
from plait.wire.body import BodyReader
from plait.wire.decode import decode_body, decoder_for, describe_answer, pieces_of
from plait.wire.decoder import Decoder
from plait.wire.profile import DecodeOptions, WireName, WireProfile, standard_loads

WIRES: tuple[WireName, ...] = ("chat", "responses", "anthropic")
FINISH = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"


def chunk(**delta: object) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n"


def fed(*reads: bytes, wire: WireName = "chat", options: DecodeOptions | None = None) -> Decoder:
    decoder = decoder_for(WireProfile(wire=wire, origin="here"), options)
    for read in reads:
        decoder.feed(read)
    return decoder


def described(body: bytes, wire: WireName = "chat", **profile: Any) -> dict[str, Any]:
    """The answer in a body; it must not depend on where reads end."""
    whole = describe_answer(decode_body(body, WireProfile(wire=wire, **profile)))
    singly = describe_answer(decode_body(body, WireProfile(wire=wire, **profile), cuts=range(1, len(body))))
    assert whole == singly
    return whole


def kind_of(body: bytes, wire: WireName = "chat") -> object:
    error = described(body, wire)["error"]
    return error and (error["kind"], error["retryable"], described(body, wire)["finish_reason"])


INCOMPLETE = ("incomplete_stream", True, None)
NO_STREAM = ("not_event_stream", False, None)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "body, expected",
    [
        (b"", INCOMPLETE),
        (b"\n\n", INCOMPLETE),
        (b": ping\n\n: ping\n\n", INCOMPLETE),
        (DONE, INCOMPLETE),
        (b'{"id": "x", "cho', INCOMPLETE),
        (b"<!doctype html><p>sign in</p>", NO_STREAM),
        (b"\xef\xbb\xbf \n<html>", NO_STREAM),
        (b"upstream said no", NO_STREAM),
        (b'{"status": "ok"}', NO_STREAM),
        (b"[]", NO_STREAM),
        (gzip.compress(b"<html>", mtime=0), NO_STREAM),
        (b'{"error": {"code": 401, "message": "no key"}}', ("auth", False, "error")),
        (b'{"error": {"type": "invalid_request_error", "message": "no"}}', ("bad_request", False, "error")),
        (b'{"error": "out of memory"}', ("unavailable", True, "error")),
        (b'[{"error": {"code": 429, "message": "slow"}}]', ("rate_limit", True, "error")),
        (b'{"detail": [{"msg": "field required", "loc": ["model"]}]}', ("unavailable", True, "error")),
        (b"event: error\ndata: upstream reset\n\n", ("unavailable", True, "error")),
        (b'data: {"error": {"code": 503, "message": "x"}}\n\n', ("unavailable", True, "error")),
        (b': ping\n{"error": {"code": 529, "message": "x"}}\n', ("overloaded", True, "error")),
    ],
)
def test_body_that_is_no_answer(wire: WireName, body: bytes, expected: object) -> None:
    """Empty, cut, foreign and failing bodies are failures of their kind on every wire."""
    assert expected == kind_of(body, wire)


@pytest.mark.parametrize(
    "body, expected",
    [
        (chunk(content="a"), INCOMPLETE),
        (chunk(content="a") + DONE, None),
        (chunk(content="a") + FINISH, None),
        (chunk(content="a") + FINISH + b'data: {"usage": {"prom', None),
        (chunk(content="a") + b'data: {"choices": [{"del\n\n', INCOMPLETE),
        (chunk(content="a") + b'data: {"choices": [{"del\n\n' + DONE, INCOMPLETE),
        (chunk(content="a") + b'data: {"choices": [{"del\n\n' + FINISH, ("protocol", True, "error")),
        (chunk(content="a") + b"data: ping\n\ndata: \n\n" + FINISH, None),
        (chunk(content="a") + FINISH + b"data: [DONE] \n\n" + chunk(content="b"), None),
    ],
)
def test_where_a_chat_stream_may_end(body: bytes, expected: object) -> None:
    """A stream is whole with a finish, or with its end marker after text; what was lost in the middle is an error."""
    assert expected == kind_of(body)
    assert "a" == described(body)["content"]


def test_gzip_is_told_by_its_bytes() -> None:
    """A body packed without a header is unpacked; one that is cut or damaged is as incomplete as what came of it."""
    packed = gzip.compress(chunk(content="a") + FINISH)
    damaged = bytearray(gzip.compress(b"".join(chunk(content=str(number)) for number in range(200)) + FINISH))
    damaged[len(damaged) // 2] ^= 0xFF
    assert ("a", None) == (described(packed)["content"], described(packed)["error"])
    assert INCOMPLETE == kind_of(gzip.compress(chunk(content="a"))[:-9])
    assert "protocol" == described(bytes(damaged))["error"]["class"]


def test_damage_after_the_end_does_not_count() -> None:
    """What follows the end of an answer is not read, in one read or in many."""
    whole = gzip.compress(chunk(content="a") + FINISH + DONE, mtime=0)
    assert None is described(whole[:-1] + b"x")["error"]
    assert None is described(whole + gzip.compress(b"x" * 99, mtime=0)[:-9] + b"damaged")["error"]


def test_mark_of_the_encoding_in_any_read() -> None:
    """A byte order mark before a cut document is no part of it, wherever it is cut itself."""
    assert INCOMPLETE == kind_of(b'\xef\xbb\xbf\n {"choices":[{"message":{"content":"x"},"fini')


@pytest.mark.parametrize("body", [b": " + b"x" * 20_000, b"\n" * 20_000, b"<html>" + b"x" * 20_000])
def test_small_body_that_unpacks_to_a_huge_one_is_refused(body: bytes) -> None:
    """A body is read up to a bound, however small it was packed and whatever it is."""
    reader = BodyReader(size_bytes_max=10_000)
    reader.feed(gzip.compress(body))
    assert ("the body is larger than any answer", []) == (reader.problem, reader.finish())


def test_document_without_end_is_not_kept() -> None:
    """A JSON document that never ends stops being collected at a bound, and is an incomplete answer."""
    decoder = decoder_for(WireProfile())
    while not decoder.done:
        decoder.feed(b'{"x":"' + b"x" * 5_000_000)
    with pytest.raises(ProviderFailed, match="larger than any answer"):
        decoder.finish()


def test_one_document_a_line_is_understood() -> None:
    """A server that sends bare documents, one a line, is read like one that sends events."""
    body = b"\n".join(line[6:] for line in (chunk(content="a") + chunk(content="b") + FINISH).split(b"\n\n") if line)
    assert ("ab", "stop") == (described(body)["content"], described(body)["finish_reason"])


def test_deflate_and_unknown_packing() -> None:
    """A packing that only a header tells of is undone, or named."""
    import zlib

    body = zlib.compress(chunk(content="a") + FINISH)
    assert "a" == decode_body(body, WireProfile(), headers={"Content-Encoding": "deflate"}).content
    strange = decode_body(b"\x0b\x80", WireProfile(), headers={"content-encoding": "br"})
    assert strange.failure is not None
    assert "'br'" in strange.failure.message


def test_reader_need_not_wait_for_the_socket() -> None:
    """`done` says that nothing more can count; `is_settled` that a broken connection would lose nothing."""
    decoder = fed(chunk(content="a"))
    assert (False, False) == (decoder.done, decoder.is_settled)
    decoder.feed(FINISH)
    assert (False, True) == (decoder.done, decoder.is_settled)
    decoder.feed(b"data: [DONE]\n")
    assert decoder.done
    assert [] == decoder.feed(chunk(content="b"))
    assert fed(b"<html>" + b"x" * 1000).done


def test_reply_holds_the_message() -> None:
    """A whole answer becomes a message with thoughts, text and calls, marked with the endpoint that made it."""
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}
    reply = fed(chunk(reasoning_content="hm"), chunk(content="a"), chunk(tool_calls=[call]), FINISH).finish()
    expected = Message("assistant", (Reasoning("hm"), Text("a"), ToolCall("c", "f", "{}")), "here")
    assert ("tool_calls", "stop", expected) == (reply.stop, reply.raw_stop, reply.message)


def test_failure_holds_what_arrived() -> None:
    """A cut stream is raised with the message so far and the usage; a failure before anything has none."""
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":1}}\n\n'
    with pytest.raises(ProviderFailed) as caught:
        fed(chunk(content="a"), usage).finish()
    failed = caught.value
    assert ("protocol", "incomplete_stream", True, "stream") == (
        failed.kind,
        failed.detail,
        failed.retryable,
        failed.phase,
    )
    assert failed.partial is not None
    assert failed.usage is not None
    assert ("a", 7) == (failed.partial.content, failed.usage.input)
    with pytest.raises(ProviderFailed) as caught:
        fed(b'{"error":{"code":"insufficient_quota","message":"no"}}').finish()
    assert ("quota", "insufficient_quota", None) == (caught.value.kind, caught.value.code, caught.value.partial)


@pytest.mark.parametrize(
    "finish, output, expected", [("length", 0, "context_overflow"), ("stop", 0, "protocol"), ("stop", 3, None)]
)
def test_empty_answer(finish: str, output: int, expected: object) -> None:
    """An answer of nothing is a failure when the provider says that it wrote no token, and a reply otherwise."""
    end = {
        "choices": [{"delta": {}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 9, "completion_tokens": output},
    }
    decoder = fed(b"data: " + json.dumps(end).encode() + b"\n\n")
    assert decoder.answer().is_empty
    try:
        outcome: object = decoder.finish().message.parts and None
    except ProviderFailed as failed:
        outcome = failed.kind
    assert (expected or ()) == (outcome or ())


@pytest.mark.parametrize("loads", [standard_loads, orjson.loads])
def test_halves_of_a_character_meet(loads: Any) -> None:
    """A character sent as two escapes in two events is shown and kept whole; a half alone is kept, not invented."""
    half = b'data: {"choices":[{"delta":{"content":"x\\ud83d"}}]}\n\n'
    body = half + b'data: {"choices":[{"delta":{"content":"\\ude00y"}}]}\n\n'
    decoder = decoder_for(WireProfile(), DecodeOptions(loads=loads))
    pieces = [piece for read in pieces_of(body + FINISH, range(1, len(body))) for piece in decoder.feed(read)]
    assert [("content", "x"), ("content", "😀y")] == pieces
    assert "x😀y" == decoder.finish().message.content
    assert "x\ud83d" == fed(half + FINISH, options=DecodeOptions(loads=loads)).finish().message.content


def test_documents_that_fast_parsers_refuse_are_read() -> None:
    """NaN beside the text and damaged UTF-8 in it do not end a stream."""
    nan = b'data: {"choices":[{"delta":{"content":"a"},"logprobs":NaN}]}\n\n'
    damaged = b'data: {"choices":[{"delta":{"content":"b\xff"}}]}\n\n'
    assert "ab\ufffd" == fed(nan, damaged, FINISH, options=DecodeOptions(loads=orjson.loads)).finish().message.content


def test_object_arguments_keep_exact_integers() -> None:
    """Arguments that come as an object lose nothing to a fast parser."""
    call = b'{"function":{"name":"f","arguments":{"n":18446744073709551617,"m":9223372036854775808}}}'
    body = b'data: {"choices":[{"delta":{"tool_calls":[' + call + b"]}}]}\n\n" + FINISH
    reply = fed(body, options=DecodeOptions(loads=orjson.loads)).finish()
    assert '{"n":18446744073709551617,"m":9223372036854775808}' == reply.message.tool_calls[0].raw


def test_ids_are_unique_in_the_session() -> None:
    """An id that was used before, or is missing, becomes one that was not; the same call twice is one call."""
    calls = [
        {"index": 0, "id": "0", "function": {"name": "f", "arguments": "{}"}},
        {"index": 1, "id": "0", "function": {"name": "g", "arguments": "{}"}},
        {"index": 2, "id": "0", "function": {"name": "g", "arguments": "{}"}},
        {"index": 3, "function": {"name": "h", "arguments": "{}"}},
    ]
    options = DecodeOptions(taken_ids={"0", "0-2"}, new_id=lambda: "new")
    reply = fed(chunk(tool_calls=calls), FINISH, options=options).finish()
    assert [("0-3", "f"), ("0-4", "g"), ("new", "h")] == [(call.id, call.name) for call in reply.message.tool_calls]
    random = [fed(chunk(tool_calls=calls[3:]), FINISH).finish().message.tool_calls[0].id for _ in range(2)]
    assert random[0] != random[1]


def test_tool_names_come_back_as_they_are_here() -> None:
    """A tool that had to be renamed for the endpoint is called by its own name again."""
    calls = [{"index": 0, "id": "c", "function": {"name": "a_b_x", "arguments": "{}"}}]
    reply = fed(chunk(tool_calls=calls), FINISH, options=DecodeOptions(tool_names={"a_b_x": "a.b"})).finish()
    assert "a.b" == reply.message.tool_calls[0].name


def test_inline_calls_are_found_in_text() -> None:
    """Where calls are text, the objects in the answer are calls, and the text is kept."""
    text = 'Look: {"name": "f", "arguments": {"p": {"name": "x"}}} and [{"function_name": "g", "parameters": {}}]'
    decoder = decoder_for(WireProfile(calls="inline"))
    decoder.feed(chunk(content=text) + FINISH)
    reply = decoder.finish()
    assert (text, "tool_calls") == (reply.message.content, reply.stop)
    assert [("f", '{"p":{"name":"x"}}'), ("g", "{}")] == [(call.name, call.raw) for call in reply.message.tool_calls]


@pytest.mark.parametrize(
    "deltas, expected",
    [
        ([{"reasoning": "a"}, {"content": "b"}], ("a", "b")),
        ([{"reasoning_content": "a", "reasoning": "a", "content": "b"}], ("a", "b")),
        (
            [{"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "a"}]}]}, {"content": "b"}],
            ("a", "b"),
        ),
        ([{"content": [{"type": "thinking", "thinking": "a"}, {"type": "text", "text": "b"}]}], ("a", "b")),
        ([{"reasoning_details": [{"type": "reasoning.text", "text": "a", "index": 0}]}, {"content": "b"}], ("a", "b")),
    ],
)
def test_reasoning_in_every_field(deltas: Sequence[dict[str, Any]], expected: tuple[str, str]) -> None:
    """Thoughts are read from every field that servers put them in, once."""
    reply = fed(*(chunk(**delta) for delta in deltas), FINISH).finish()
    assert expected == (reply.message.reasoning, reply.message.content)


def test_reasoning_details_are_joined_by_index() -> None:
    """Pieces of one record are joined, its signature may come later, hidden records stay apart."""
    pieces = [
        [{"type": "reasoning.text", "text": "a", "index": 0, "format": "v1"}],
        [{"type": "reasoning.text", "text": "b", "index": 0}, {"type": "reasoning.encrypted", "data": "x", "index": 1}],
        [{"type": "reasoning.text", "signature": "s", "index": 0}],
    ]
    reply = fed(*(chunk(reasoning_details=piece) for piece in pieces), chunk(content="c"), FINISH).finish()
    part = reply.message.parts[0]
    assert isinstance(part, Reasoning)
    assert {
        "reasoning_details": [
            {"type": "reasoning.text", "text": "ab", "index": 0, "format": "v1", "signature": "s"},
            {"type": "reasoning.encrypted", "data": "x", "index": 1},
        ]
    } == part.opaque


@pytest.mark.parametrize(
    "raw, expected",
    [
        ("stop", "end_turn"),
        ("eos", "end_turn"),
        ("length", "length"),
        ("MAX_TOKENS", "length"),
        ("content_filter", "content_filter"),
        ("SAFETY", "content_filter"),
        ("error", "unavailable"),
        ("insufficient_system_resource", "overloaded"),
    ],
)
def test_words_for_the_end(raw: str, expected: str) -> None:
    """Providers' words for the end mean one of a few things, or that they gave up."""
    end = json.dumps({"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": raw}]}).encode()
    try:
        outcome: str = fed(b"data: " + end + b"\n\n").finish().stop
    except ProviderFailed as failed:
        outcome = failed.kind
    assert expected == outcome


def test_refusal_is_text_of_the_message() -> None:
    """A refusal is shown and stored as the model's words, and told from an answer by its stop."""
    reply = fed(chunk(refusal="I "), chunk(refusal="won't."), FINISH).finish()
    assert ("I won't.", "refusal") == (reply.message.content, reply.stop)


def test_chat_answer_of_two_choices() -> None:
    """Without calls the first choice is the answer; the texts of several are never joined."""
    choices = [
        {"index": index, "message": {"content": text}, "finish_reason": "stop"} for index, text in enumerate("AB")
    ]
    body = json.dumps({"choices": choices}).encode()
    assert "A" == described(body)["content"]


@pytest.mark.parametrize("wire", WIRES)
def test_answer_is_the_same_every_time(wire: WireName) -> None:
    """Asking for the answer twice, or for the reply after it, changes nothing."""
    decoder = fed(b'data: {"error": {"code": 429}}\n\n', wire=wire)
    assert decoder.answer() is decoder.answer()
    with pytest.raises(ProviderFailed):
        decoder.finish()


def test_reply_type() -> None:
    """A finished decoder gives a reply with the provider's identity for the response."""
    body = b'{"id":"r","model":"m","provider":"P","choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}'
    reply = fed(body).finish()
    assert isinstance(reply, Reply)
    assert {"id": "r", "model": "m", "provider": "P"} == reply.details


def test_what_is_told_of_a_foreign_body_does_not_depend_on_reads() -> None:
    """A line that ends the stream ends what is shown of it, whatever came in the same read."""
    told = described(b'a":{"content":"a"}}]}\n\n[DONE]\ndata: {"choices": [{"index')["error"]
    assert told["message"].endswith("[DONE]'")
