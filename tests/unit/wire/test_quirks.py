"""What servers do that no standard says: each habit is a case, its right assembly beside it."""

from __future__ import annotations

import gzip
import json
from typing import Any

import orjson
import pytest

from plait.wire.decode import decode_body, decoder_for, describe_answer
from plait.wire.profile import DecodeOptions, ThinkMode, WireName, WireProfile
from tests.unit.wire.bodies import DONE, block, call, calls, chunk, event, response, typed, usage

ARGUMENTS = '{"a":1}'
ONE = [("c", "f", ARGUMENTS)]
STOP, CALLED = chunk("stop") + DONE, chunk("tool_calls") + DONE


def told(body: bytes, wire: WireName = "chat", think: ThinkMode = "off") -> dict[str, Any]:
    """What is printed of a body; it depends neither on where reads end nor on the parser."""
    profile = WireProfile(wire=wire, think=think)
    got = describe_answer(decode_body(body, profile), with_replay=True)
    assert got == describe_answer(decode_body(body, profile, cuts=range(1, len(body))), with_replay=True)
    numbers = iter(range(1, 100))
    decoder = decoder_for(profile, DecodeOptions(loads=orjson.loads, new_id=lambda: f"call_{next(numbers)}"))
    decoder.feed(body)
    assert got == describe_answer(decoder.answer(), with_replay=True)
    return got


def calls_in(got: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(item["id"], item["name"], item["arguments"]) for item in got["tool_calls"]]


@pytest.mark.parametrize(
    "body, expected",
    [
        (
            calls(call(0, "c", "f", '{"a"'))
            + calls(call(0, None, None, '{"a":'))
            + calls(call(0, arguments='{"a":1}')),
            ONE,
        ),
        (calls(call(0, "c", "f", "")) + calls(call(0, "c", "f", '{"a"')) + calls(call(0, "c", "f", '{"a":1}')), ONE),
        (
            calls(call("0", "c", "f"))
            + calls(call("1", "d", "g", "{"))
            + calls(call("0", arguments=ARGUMENTS), call("1", arguments="}")),
            [*ONE, ("d", "g", "{}")],
        ),
        (
            calls(call(0, "c", "f", '{"a"')) + calls(call(0, arguments=":1}")) + calls(call(0, "c", "f", '{ "a": 1 }')),
            ONE,
        ),
        (chunk(tool_calls=[call(0, "c", "f", ARGUMENTS)], function_call={"name": "f", "arguments": ARGUMENTS}), ONE),
        (calls(call(0, "c", "f", ARGUMENTS)) + chunk(function_call={"name": "f", "arguments": ARGUMENTS}), ONE),
        (calls(call(0, None, "f", "{")) + calls(call(0, "c", None, '"a":1}')), ONE),
        (calls(call(0, "c", None, "{")) + calls(call(0, None, "f", '"a":1}')), ONE),
        (calls({"index": 0, "id": "c", "function": None}) + calls(call(0, None, "f", ARGUMENTS)), ONE),
        (calls({**call(0, "c", "f", '{"a"'), "index": None}) + calls({**call(0, arguments=":1}"), "index": None}), ONE),
        (calls(call(0, "c", "f", ARGUMENTS), call(1, "c", "g", "{}")), [*ONE, ("c-2", "g", "{}")]),
        (
            calls(call(0, "c", "f"))
            + calls(call(0, arguments=ARGUMENTS))
            + calls(call(0, "c", "f", ""), finish="tool_calls"),
            ONE,
        ),
        (calls(call(0, "c", "f", {"a": 1})), ONE),
        (calls(call(0, "c", "f", json.dumps(ARGUMENTS))), [("c", "f", json.dumps(ARGUMENTS))]),
        (calls(call(0, "c", "f", '{"a":1}{"a":2}')), [("c", "f", '{"a":1}{"a":2}')]),
    ],
)
def test_calls(body: bytes, expected: list[tuple[str, str, str]]) -> None:
    """Arguments that grow, come twice or as an object, indexes as text, and both fields for calls: one call each."""
    got = told(body + CALLED)
    assert (expected, "tool_calls", None) == (calls_in(got), got["finish_reason"], got["error"])


@pytest.mark.parametrize(
    "arguments, valid",
    [
        ('{"s":"x\\ud83d"}', True),
        ('{"s":1,"s":2}', True),
        ('{"s":NaN}', False),
        ('"{}"', False),
        ("[]", False),
        ('{"s":1} ', True),
        ('{"s":1', False),
    ],
)
def test_which_calls_may_run(arguments: str, valid: bool) -> None:
    """Arguments are kept byte for byte; only those that are one JSON object are valid."""
    got = told(calls(call(0, "c", "f", arguments)) + CALLED)
    assert [(arguments, valid)] == [(item["arguments"], item["valid"]) for item in got["tool_calls"]]


def test_whole_message_beside_what_was_streamed() -> None:
    """A last message with everything, and messages in place of differences, add only what is new."""
    repeated = {"role": "assistant", "content": None, "tool_calls": [call(None, "c", "f", ARGUMENTS)]}
    whole = event({"choices": [{"index": 0, "message": repeated, "finish_reason": "tool_calls"}]})
    assert ONE == calls_in(told(calls(call(0, "c", "f", ARGUMENTS)) + whole))

    def message(text: str) -> bytes:
        return event({"choices": [{"index": 0, "message": {"content": text}, "finish_reason": None}]})

    assert "hello" == told(message("he") + message("llo") + STOP)["content"]
    assert "hello" == told(message("he") + message("hello") + STOP)["content"]
    assert "hello" == told(chunk(content="hel") + chunk(content="lo") + message("hello") + STOP)["content"]


@pytest.mark.parametrize(
    "raw, finish, kind",
    [
        ("content_filter: PROHIBITED_CONTENT", "content_filter", None),
        ("function_call_filter: MALFORMED_FUNCTION_CALL", "error", "protocol"),
        ("UNEXPECTED_TOOL_CALL", "error", "unavailable"),
        ("MISSING_THOUGHT_SIGNATURE", "error", "invalid_history"),
        ("content-filter", "content_filter", None),
        ("ERROR_TOXIC", "content_filter", None),
        ("FINISH_REASON_MAX_TOKENS", "length", None),
        ("toolUse", "stop", None),
        ("insufficient_system_resource", "error", "overloaded"),
        ("abort", "error", "unavailable"),
        ("whatever", "stop", None),
    ],
)
def test_words_for_the_end(raw: str, finish: str, kind: str | None) -> None:
    """The word is kept as it came; what it means does not depend on its spelling."""
    got = told(chunk(content="x") + chunk(raw) + DONE)
    assert (raw, finish, kind) == (got["raw_finish_reason"], got["finish_reason"], (got["error"] or {}).get("kind"))


def test_null_as_a_word_is_no_end() -> None:
    """A server that writes null as text has not said why the answer ended."""
    got = told(chunk("null", content="x"))
    assert ("incomplete_stream", None) == (got["error"]["kind"], got["raw_finish_reason"])


@pytest.mark.parametrize(
    "deltas, reasoning, content, refusal",
    [
        ([{"content": None, "refusal": ""}, {"refusal": "I can"}, {"refusal": "not."}], "", "", "I cannot."),
        ([{"content": [{"type": "refusal", "refusal": "no"}]}], "", "", "no"),
        ([{"reasoning_text": "hm", "reasoning_opaque": "QQ=="}, {"content": "x"}], "hm", "x", None),
        ([{"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, "x"]}], "hm", "x", None),
        (
            [{"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}, {"content": "x"}],
            "hm",
            "x",
            None,
        ),
    ],
)
def test_texts(deltas: list[dict[str, Any]], reasoning: str, content: str, refusal: str | None) -> None:
    """Refusals, thoughts and answers are told apart, whatever field or part they come in."""
    got = told(b"".join(chunk(**delta) for delta in deltas) + STOP)
    assert (reasoning, content, refusal) == (got["reasoning"], got["content"], got["refusal"])


def test_thought_without_its_signature_is_not_sent_back() -> None:
    """Of blocks that were cut before their signature only the words are left."""
    blocks = [{"type": "thinking", "thinking": "hm", "signature": None}]
    body = chunk(reasoning_content="hm", thinking_blocks=blocks) + chunk(content="x")
    assert {"reasoning_content": "hm"} == told(body + STOP)["replay"]


def test_sealed_thought_is_kept_beside_its_text() -> None:
    """What only the endpoint can read is echoed with the text that belongs to it."""
    body = chunk(reasoning_text="h") + chunk(reasoning_text="m", reasoning_opaque="QQ==") + chunk(content="x") + STOP
    assert {"reasoning_text": "hm", "reasoning_opaque": "QQ=="} == told(body)["replay"]


def test_thought_that_a_field_announces() -> None:
    """Text that is marked as a thought is one, without its tags, and the message's own signature is kept."""
    marked = {"google": {"thought": True}}
    signed = {"google": {"thought_signature": "S"}}
    body = chunk(role="assistant", content="<thought>plan", extra_content=marked) + chunk(
        content=" A", extra_content=marked
    )
    got = told(body + chunk(content="</thought>Hi") + chunk("stop", content="", extra_content=signed) + DONE)
    assert ("plan A", "Hi", {"extra_content": signed}) == (got["reasoning"], got["content"], got["replay"])


@pytest.mark.parametrize(
    "opened, closed",
    [
        ("<thought>", "</thought>"),
        ("<reasoning>", "</reasoning>"),
        ("<seed:think>", "</seed:think>"),
        ("[THINK]", "[/THINK]"),
        ("◁think▷", "◁/think▷"),
        ("<|START_THINKING|>", "<|END_THINKING|>"),
        ("<|begin_of_thought|>", "<|end_of_thought|>"),
        ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
        ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
    ],
)
def test_think_tags(opened: str, closed: str) -> None:
    """A think block is found in the tags of every model family, cut anywhere, but only where it is looked for."""
    for cut in range(1, len(closed)):
        body = chunk(content=opened[:cut]) + chunk(content=f"{opened[cut:]}pl<an{closed[:cut]}")
        body += chunk(content=f"{closed[cut:]}\n\nHi {opened}") + STOP
        got = told(body, think="inline")
        assert ("pl<an", f"Hi {opened}") == (got["reasoning"], got["content"])
    whole = f"{opened}plan{closed}Hi"
    assert ("", whole) == (told(chunk(content=whole) + STOP)["reasoning"], told(chunk(content=whole) + STOP)["content"])


@pytest.mark.parametrize(
    "counts, expected",
    [
        (
            {"prompt_tokens": 500, "completion_tokens": 10, "total_tokens": 810, "cache_read_input_tokens": 300},
            (800, 10, 300, None),
        ),
        (
            {"prompt_tokens": 500, "completion_tokens": 10, "total_tokens": 510, "cache_read_input_tokens": 300},
            (500, 10, 300, None),
        ),
        ({"prompt_tokens": 500, "completion_tokens": 10, "num_cached_tokens": 64}, (500, 10, 64, None)),
        (
            {
                "prompt_tokens": 500,
                "completion_tokens": 10,
                "prompt_tokens_details": {"cached_tokens": 0, "cache_creation": {"ephemeral_5m_input_tokens": 300}},
            },
            (500, 10, 0, 300),
        ),
        ({"input_tokens": 5, "output_tokens": 1}, (5, 1, None, None)),
        ({"prompt_tokens": None, "completion_tokens": None}, None),
    ],
)
def test_usage(counts: dict[str, Any], expected: object) -> None:
    """Tokens are counted in, whatever they are called and whether or not the cached ones are part of the sum."""
    got = told(chunk(content="x") + chunk("stop") + usage(**counts) + DONE)["usage"]
    assert expected == (got and tuple(got.values()))


def test_usage_in_a_field_of_its_own() -> None:
    """One provider reports tokens, and failures, in an object of its own."""
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "x_groq": {"usage": {"prompt_tokens": 5}}}
    assert 5 == told(chunk(content="x") + event(end) + DONE)["usage"]["input"]
    failed = {"choices": [], "x_groq": {"error": "over capacity"}}
    got = told(chunk(content="x") + event(failed) + DONE)
    assert ("x", "over capacity", True) == (got["content"], got["error"]["message"], got["error"]["retryable"])


FINISHED = {"choices": [{"index": 0, "delta": {"content": "b"}, "finish_reason": "stop"}]}
BEGUN = {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}]}


@pytest.mark.parametrize(
    "body",
    [
        json.dumps([BEGUN, FINISHED]).encode(),
        (json.dumps(BEGUN) + json.dumps(FINISHED)).encode(),
        (json.dumps(BEGUN, indent=1) + "\n" + json.dumps(FINISHED, indent=1)).encode(),
        (json.dumps(BEGUN) + "\n" + json.dumps(FINISHED) + "\n[DONE]\n").encode(),
        (json.dumps(BEGUN) + "\n\ndata: " + json.dumps(FINISHED) + "\n\ndata: [DONE]").encode(),
        event(BEGUN) + b"data: " + json.dumps(FINISHED).replace(", ", ",\ndata: ").encode() + b"\n\n",
        (event(BEGUN) + event(FINISHED)).replace(b"\n", b"\r"),
        b"\xef\xbb\xbf" + event(BEGUN) + event(FINISHED),
        b"data: " + json.dumps(BEGUN).encode() + json.dumps(FINISHED).encode() + b"\n\n",
        b"data: " + json.dumps(BEGUN).encode() + b"data: " + json.dumps(FINISHED).encode() + b"data: [DONE]\n\n",
        b"data: " + json.dumps(BEGUN, indent=1).encode() + b"\n\n" + event(FINISHED),
        gzip.compress(event(BEGUN)) + gzip.compress(event(FINISHED)),
        gzip.compress(event(BEGUN) + event(FINISHED)) + b"\x00" * 9,
        event("{}", "ping")
        + event("alive", "heartbeat")
        + event({"type": "ping"})
        + event(BEGUN)
        + event("null")
        + event(FINISHED),
        b"retry: 100\n\n" + event(BEGUN) + b"id: 7\n\n" + event(FINISHED),
        event(BEGUN) + b'data: {"choices":[{"index":0,"delta":{"content":"b"}}]}\n\n[DONE]\n',
        event(BEGUN) + b'data: {"choices":[{"index":0,"delta":{"content":"b"}}]}\n\ndata: "[DONE]"\n\n',
    ],
    ids=range(17),
)
def test_framing(body: bytes) -> None:
    """Documents in a list, in a row, spread over lines, packed in parts, and with noise between them are all read."""
    got = told(body)
    assert ("ab", "stop", None) == (got["content"], got["finish_reason"], got["error"])


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(BEGUN).encode() + b'\n{"choices":[{"index":0,"del',
        json.dumps(BEGUN).encode() + json.dumps(BEGUN).encode(),
        gzip.compress(event(BEGUN)) + gzip.compress(event(FINISHED))[:-20],
    ],
    ids=range(3),
)
def test_framing_that_was_cut(body: bytes) -> None:
    """A row of documents without an end, or packed parts of which the last is cut, is no whole answer."""
    assert "incomplete_stream" == told(body)["error"]["kind"]


def test_number_that_nobody_can_read() -> None:
    """An integer of thousands of digits spoils neither the stream around it nor, in arguments, a tool."""
    digits = "9" * 6_000
    beside = f'data: {{"choices":[{{"index":0,"delta":{{"content":"a"}}}}],"x":{digits}}}\n\n'.encode()
    assert ("a", None) == (told(beside + STOP)["content"], told(beside + STOP)["error"])
    function = f'{{"name":"f","arguments":{{"a":{digits}}}}}'
    inside = f'data: {{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"id":"c","function":{function}}}]}}}}]}}\n\n'
    assert [False] == [item["valid"] for item in told(inside.encode() + CALLED)["tool_calls"]]


@pytest.mark.parametrize(
    "document, kind, code",
    [
        ({"error": "boom"}, "unavailable", None),
        ({"error": "model 'x' not found"}, "model_not_found", None),
        ({"object": "error", "message": "no such thing", "type": "NotFoundError", "code": 404}, "model_not_found", 404),
        ({"statusCode": 429, "error": "Too Many Requests", "message": "slow"}, "rate_limit", 429),
        ({"choices": None, "base_resp": {"status_code": 1039, "status_msg": "token limit"}}, "rate_limit", 1039),
        ([{"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}], "unavailable", 503),
        ({"success": False, "code": 429, "message": "busy"}, "rate_limit", 429),
        ({"code": "1302", "msg": "busy", "success": False}, "rate_limit", "1302"),
        ({"code": "Throttling.RateQuota", "message": "slow", "request_id": "x"}, "rate_limit", "Throttling.RateQuota"),
        ({"code": "Arrearage", "message": "Access denied"}, "quota", "Arrearage"),
        (
            {"choices": None, "error": {"message": "x", "code": "rate_limit_exceeded"}},
            "rate_limit",
            "rate_limit_exceeded",
        ),
        ({"error": {"message": "slow", "type": None, "param": None, "code": "429"}}, "rate_limit", "429"),
        ({"status": 503, "title": "Service Unavailable", "detail": "worker busy"}, "unavailable", 503),
        (
            {"error": {"code": "server_error", "message": "gone"}, "choices": [{"finish_reason": "error"}]},
            "unavailable",
            "server_error",
        ),
        (
            {"error": {"code": 502, "message": "up", "metadata": {"raw": '{"error":{"type":"overloaded_error"}}'}}},
            "overloaded",
            502,
        ),
        ({"error": {"message": "no", "code": "content_filter", "status": 400}}, "bad_request", "content_filter"),
        ({"error": {"code": 502, "metadata": {"error_type": "provider_overloaded"}}}, "overloaded", 502),
    ],
)
@pytest.mark.parametrize("wire", ["chat", "responses", "anthropic"])
def test_failures_inside_an_answer(wire: WireName, document: object, kind: str, code: object) -> None:
    """A failure is told by its class and the provider's code, in whatever form it comes, on every wire."""
    got = told(event(document), wire)
    assert (kind, code, "error") == (got["error"]["kind"], got["error"]["code"], got["finish_reason"])


def test_failure_inside_a_choice() -> None:
    """A failure may stand beside the finish of a choice."""
    choice = {"index": 0, "delta": {}, "finish_reason": "error", "error": {"code": 502, "message": "x"}}
    got = told(chunk(content="a") + event({"choices": [choice]}))
    assert ("a", "error", "unavailable", 502) == (
        got["content"],
        got["raw_finish_reason"],
        got["error"]["kind"],
        got["error"]["code"],
    )


STARTED = typed("message_start", message={"id": "m", "content": [], "usage": {"input_tokens": 10, "output_tokens": 1}})
WRITTEN = block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "x"})


def ended(reason: str, **counts: int) -> bytes:
    delta = typed("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": 9, **counts})
    return delta + typed("message_stop")


@pytest.mark.parametrize(
    "body, expected",
    [
        (
            block(0, {"type": "redacted_thinking", "data": "RR=="})
            + WRITTEN.replace(b'"index": 0', b'"index": 1')
            + ended("end_turn"),
            {"content": "x", "replay": {"redacted_thinking": {"data": "RR=="}}},
        ),
        (
            block(
                0,
                {"type": "text", "text": ""},
                {"type": "text_delta", "text": "x"},
                {"type": "citations_delta", "citation": {"url": "u"}},
            )
            + ended("pause_turn"),
            {"replay": {"content": [{"type": "text", "text": "x", "citations": [{"url": "u"}]}]}},
        ),
        (WRITTEN + ended("stop_sequence"), {"finish_reason": "stop", "raw_finish_reason": "stop_sequence"}),
        (WRITTEN + typed("message_stop"), {"finish_reason": "stop", "raw_finish_reason": None}),
        (
            WRITTEN + ended("end_turn", input_tokens=50, cache_read_input_tokens=40),
            {"usage": {"input": 90, "output": 9, "cached": 40, "cache_write": None}},
        ),
        (
            WRITTEN + typed("error", error={"type": "api_error", "message": "m"}),
            {"content": "x", "finish_reason": "error"},
        ),
    ],
    ids=range(6),
)
def test_anthropic(body: bytes, expected: dict[str, Any]) -> None:
    """Hidden thoughts, citations, late counts and missing reasons of Messages streams."""
    got = told(STARTED + body, "anthropic")
    assert expected == {name: got.get(name) for name in expected}


@pytest.mark.parametrize(
    "start, deltas, expected",
    [
        ({"input": {}}, [], "{}"),
        ({"input": {"a": 1}}, [], ARGUMENTS),
        ({"input": {"a": 1}}, ['{"a"', ":1}"], ARGUMENTS),
        ({}, ["", '{"a"', "", ":1}"], ARGUMENTS),
        ({"input": {}}, ['{"a"'], '{"a"'),
    ],
)
def test_anthropic_input(start: dict[str, Any], deltas: list[str], expected: str) -> None:
    """The input of a call is its fragments, or the object that its block began with."""
    pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in deltas]
    body = STARTED + block(0, {"type": "tool_use", "id": "t", "name": "f", **start}, *pieces) + ended("end_turn")
    got = told(body, "anthropic")
    assert ([("t", "f", expected)], "tool_calls") == (calls_in(got), got["finish_reason"])


MESSAGE = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]}
CALL = {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": ARGUMENTS}


@pytest.mark.parametrize(
    "body, expected",
    [
        (response("response.completed", "completed", MESSAGE, CALL), ("x", "tool_calls", "completed", None)),
        (response("response.done", "completed", MESSAGE), ("x", "stop", "completed", None)),
        (response("response.done", "failed", MESSAGE), ("x", "error", "failed", "unavailable")),
        (
            response("response.completed", "incomplete", MESSAGE, incomplete_details={"reason": "max_output_tokens"}),
            ("x", "length", "max_output_tokens", None),
        ),
        (
            response("response.failed", "failed", error={"code": "context_length_exceeded", "message": "m"}),
            ("", "error", "failed", "context_overflow"),
        ),
        (
            typed("response.output_item.done", output_index=0, item={"type": "web_search_call", "id": "w"})
            + response("response.completed", "completed", {"type": "web_search_call", "id": "w"}, MESSAGE),
            ("x", "stop", "completed", None),
        ),
        (
            event({"type": "keepalive"}, "keepalive") + response("response.completed", "completed", MESSAGE),
            ("x", "stop", "completed", None),
        ),
    ],
    ids=range(7),
)
def test_responses(body: bytes, expected: tuple[object, ...]) -> None:
    """The response in the last event says what there is and how it ended, whatever the event is called."""
    got = told(body, "responses")
    kind = (got["error"] or {}).get("kind")
    assert expected == (got["content"], got["finish_reason"], got["raw_finish_reason"], kind)
