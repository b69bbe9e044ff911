"""Requests on the chat wire carry the conversation, and nothing that an endpoint would refuse."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from plait.core.errors import ConfigError
from plait.core.exchange import ToolSchema
from plait.core.messages import Control, Image, Message, Opaque, Reasoning, Text, ToolCall, ToolResult, assistant, user
from plait.wire.chat.encode import ChatEncoder, encode_message, head, tail
from plait.wire.chat.history import decode_messages
from plait.wire.inline_calls import extract_inline_calls
from plait.wire.profile import RequestParams, WireProfile
from tests.unit.wire.conversations import FEWER, ORIGIN, assistants, histories

PLAIN = WireProfile(origin=ORIGIN)
ECHO = WireProfile(origin=ORIGIN, reasoning_echo="always")
READ = ToolSchema("read_file", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})
PATCH = ToolSchema("patch", "Patches.", {}, custom_format={"type": "grammar", "syntax": "lark"})


def encoded(message: Message, profile: WireProfile = PLAIN) -> list[dict[str, Any]]:
    return list(json.loads(b"[" + encode_message(message, profile).data + b"]"))


def request(params: RequestParams, profile: WireProfile = PLAIN, *, tools: tuple[ToolSchema, ...] = ()) -> Any:
    return json.loads(head("m", tools, "s", profile) + tail(params, profile, has_tools=bool(tools)))


@FEWER
@given(histories())
def test_history_survives(history: list[Message]) -> None:
    """Encoding a conversation and reading it back gives the same messages."""
    encode = ChatEncoder(ECHO)
    data = b",".join(filter(None, (encode(message).data for message in history)))
    assert history == decode_messages(json.loads(b"[" + data + b"]"), origin=ORIGIN)


@FEWER
@given(histories())
def test_encoding_depends_on_the_message_alone(history: list[Message]) -> None:
    """A message has the same bytes wherever it stands and whoever encodes it."""
    encode = ChatEncoder(PLAIN)
    assert [encode_message(message, PLAIN) for message in history] == [encode(message) for message in history]


def test_tool_message_becomes_one_message_a_result() -> None:
    """The results of a step follow each other in call order, an error as a word, nothing as a word."""
    results = (ToolResult("a", "1"), ToolResult("b", "no", is_error=True), ToolResult("c", " "))
    expected = [("a", "1"), ("b", "ERROR: no"), ("c", "(no output)")]
    assert expected == [(item["tool_call_id"], item["content"]) for item in encoded(Message("tool", results))]


def test_arguments_that_are_none_are_shown_as_text() -> None:
    """A call that was cut off travels as JSON: endpoints that read arguments would refuse the whole conversation."""
    (item,) = encoded(assistant("", [ToolCall("a", "f", '{"n": "wo'), ToolCall("b", "f", "[1]")]))
    told = [json.loads(call["function"]["arguments"]) for call in item["tool_calls"]]

    assert [{"invalid_arguments": '{"n": "wo'}, {"invalid_arguments": "[1]"}] == told


def test_calls_carry_the_text_of_the_provider() -> None:
    """Arguments travel as the text that came, byte for byte, beside text or null."""
    call = ToolCall("a", "f", '{"n": 9223372036854775808, "r": 1.10}')
    assert [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": call.raw}}],
        }
    ] == encoded(Message("assistant", (call,)))


@pytest.mark.parametrize(
    "message",
    [assistant(" "), Message("assistant", (Reasoning("hm"),)), user("\n"), Message("user", (Control("guard"),))],
)
def test_message_that_says_nothing_is_left_out(message: Message) -> None:
    """Blank messages, which endpoints refuse, are not sent."""
    assert b"" == encode_message(message, PLAIN).data


def test_reasoning_goes_only_where_it_is_wanted() -> None:
    """Reasoning is echoed to the endpoint that made it, in its field, if it wants it; else nowhere."""
    message = Message("assistant", (Reasoning("hm"), Text("a")), ORIGIN)
    assert "hm" == encoded(message, ECHO)[0]["reasoning_content"]
    assert "hm" == encoded(message, replace(ECHO, reasoning_field="reasoning"))[0]["reasoning"]
    assert {"role": "assistant", "content": "a"} == encoded(message)[0]
    assert {"role": "assistant", "content": "a"} == encoded(message, replace(ECHO, origin="there"))[0]
    assert "" == encoded(assistant("a", origin=ORIGIN), ECHO)[0]["reasoning_content"]


def test_opaque_records_are_echoed_in_place_of_text() -> None:
    """Signed blocks go back untouched; a block whose signature never came does not."""
    signed = {"type": "thinking", "thinking": "a", "signature": "s"}
    unsigned = {"type": "thinking", "thinking": "b"}
    message = Message("assistant", (Reasoning("ab", {"thinking_blocks": [signed, unsigned]}), Text("x")), ORIGIN)
    assert [{"role": "assistant", "content": "x", "thinking_blocks": [signed]}] == encoded(message, ECHO)


def test_extra_fields_of_calls_go_to_their_endpoint() -> None:
    """What came beside a call goes back to the same endpoint; another gets its own stand-in, or nothing."""
    message = assistant("", [ToolCall("a", "f", extra={"extra_content": {"s": 1}})], origin=ORIGIN)
    there = replace(PLAIN, origin="there")
    assert {"s": 1} == encoded(message)[0]["tool_calls"][0]["extra_content"]
    assert "extra_content" not in encoded(message, there)[0]["tool_calls"][0]
    dummy = replace(there, call_extra={"d": 2})
    assert {"d": 2} == encoded(message, dummy)[0]["tool_calls"][0]["extra_content"]


def test_ids_fit_the_endpoint_and_still_pair() -> None:
    """Where ids are nine letters and digits, a call and its result get the same new one."""
    profile = replace(PLAIN, call_ids="nine")
    call = encoded(assistant("", [ToolCall("functions.read:0", "f")]), profile)[0]["tool_calls"][0]["id"]
    assert call == encoded(Message("tool", (ToolResult("functions.read:0", "x"),)), profile)[0]["tool_call_id"]
    assert (9, True) == (len(call), call.isalnum())
    assert "abcDEF123" == encoded(assistant("", [ToolCall("abcDEF123", "f")]), profile)[0]["tool_calls"][0]["id"]


def test_images() -> None:
    """Pictures follow the text as URLs; an endpoint without sight gets a sentence in their place."""
    message = user("look", [Image("aGk=")])
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    assert [{"type": "text", "text": "look"}, url] == encoded(message)[0]["content"]
    assert (
        "look\n[an image was left out: this model takes none]"
        == encoded(message, replace(PLAIN, images=False))[0]["content"]
    )


def test_images_of_results_follow_them() -> None:
    """Pictures that tools returned come in a user message after the results."""
    items = encoded(Message("tool", (ToolResult("a", "x", images=(Image("aGk="),)), ToolResult("b", "y"))))
    assert ["tool", "tool", "user"] == [item["role"] for item in items]
    assert "image_url" == items[2]["content"][1]["type"]


def test_summary_is_a_user_message() -> None:
    """What compaction left goes out as the user's words."""
    assert [{"role": "user", "content": "so far"}] == encoded(Message("summary", (Text("so far"),)))


def test_cache_gap_is_inside_the_last_part() -> None:
    """A marker at the gap makes valid JSON, in the last part of the content."""
    profile = replace(PLAIN, cache_markers=True)
    for message in (user("a", [Image("aGk=")]), user("b"), Message("tool", (ToolResult("c", "x"),))):
        item = encode_message(message, profile)
        assert item.marker_gap is not None
        marked = item.data[: item.marker_gap] + b',"cache_control":{}' + item.data[item.marker_gap :]
        assert {} == json.loads(marked)["content"][-1]["cache_control"]
    assert None is encode_message(user("a"), PLAIN).marker_gap


def test_head_and_tail() -> None:
    """A request has the model, the tools and the messages first, and every parameter after them."""
    params = RequestParams(
        max_output_tokens=5, temperature=0.5, tool_choice="read_file", cache_key="k", extra={"top_p": 1, "seed": 7}
    )
    body = request(params, replace(PLAIN, parallel_tool_calls=False), tools=(READ,))
    expected = "model tools messages tool_choice parallel_tool_calls max_tokens temperature prompt_cache_key stream"
    assert [*expected.split(), "stream_options", "top_p", "seed"] == list(body)
    assert [{"role": "system", "content": "s"}] == body["messages"]
    assert {"type": "function", "function": {"name": "read_file"}} == body["tool_choice"]
    assert dict(READ.parameters) == body["tools"][0]["function"]["parameters"]


def test_parameters_are_sent_only_when_set() -> None:
    """A plain request holds nothing that an endpoint could refuse."""
    assert {"model", "messages"} == set(request(RequestParams(stream=False)))
    assert {"model", "messages", "stream"} == set(request(RequestParams(), replace(PLAIN, stream_usage=False)))
    profile = replace(PLAIN, max_tokens_field="max_completion_tokens", temperature=False)
    body = request(RequestParams(stream=False, max_output_tokens=5, temperature=1.0), profile)
    assert {"model", "messages", "max_completion_tokens"} == set(body)


@pytest.mark.parametrize("name", ["messages", "tools", "model"])
def test_extra_parameters_cannot_replace_the_prefix(name: str) -> None:
    """A parameter that would change what was proved about the prefix is refused by name."""
    with pytest.raises(ConfigError, match=name):
        tail(RequestParams(extra={name: 1}), PLAIN)


def test_extra_parameters_win() -> None:
    """A parameter given for an endpoint replaces the one plait would send."""
    assert 9 == request(RequestParams(max_output_tokens=5, extra={"max_tokens": 9}))["max_tokens"]


def test_free_text_tools() -> None:
    """A grammar tool is declared as one where it can be, else as a tool with one text argument; calls alike."""
    call = ToolCall("a", "patch", '*** "x"\n', custom=True)
    native = replace(PLAIN, custom_tools=True)
    declared = request(RequestParams(), native, tools=(PATCH,))["tools"][0]
    grammar = {"type": "grammar", "grammar": {"syntax": "lark"}}
    assert {"type": "custom", "custom": {"name": "patch", "description": "Patches.", "format": grammar}} == declared
    assert {"name": "patch", "input": call.raw} == encoded(assistant("", [call]), native)[0]["tool_calls"][0]["custom"]
    function = request(RequestParams(), tools=(PATCH,))["tools"][0]["function"]
    assert ["input"] == function["parameters"]["required"]
    arguments = encoded(assistant("", [call]))[0]["tool_calls"][0]["function"]["arguments"]
    assert {"input": call.raw} == json.loads(arguments)


def test_refused_keywords_are_left_out_of_schemas() -> None:
    """Keywords that an endpoint refuses disappear at every depth, but not where they are names or data."""
    schema = {
        "$schema": "x",
        "properties": {"const": {"const": "a"}, "n": {"anyOf": [{"exclusiveMinimum": 0, "default": {"$schema": 1}}]}},
    }
    profile = replace(PLAIN, schema_keywords_refused=frozenset({"$schema", "const", "exclusiveMinimum"}))
    sent = request(RequestParams(), profile, tools=(ToolSchema("t", "", schema),))["tools"][0]["function"]
    expected = {"properties": {"const": {"enum": ["a"]}, "n": {"anyOf": [{"default": {"$schema": 1}}]}}}
    assert expected == sent["parameters"]


def test_tool_in_the_endpoints_own_form_is_sent_as_it_is() -> None:
    """A tool given as the endpoint's entry is not touched."""
    entry = {"type": "custom", "name": "x", "format": {"type": "text"}}
    assert [entry] == json.loads(head("m", [entry], "", PLAIN) + b"]}")["tools"]


def test_inline_calls_round_trip() -> None:
    """Where calls are text, they and their results are text, and the tools are not declared."""
    profile = replace(PLAIN, calls="inline")
    encode = ChatEncoder(profile)
    spoken = encode(assistant('I read. {"name": "f", "arguments": {"p": 1}}', [ToolCall("a", "f", '{"p": 1}')]))
    foreign = encode(assistant("", [ToolCall("b", "g", '{"q": 2}')]))
    results = encode(Message("tool", (ToolResult("a", "x"), ToolResult("b", "y"))))
    assert 'I read. {"name": "f", "arguments": {"p": 1}}' == json.loads(spoken.data)["content"]
    assert '{"name":"g","arguments":{"q":2}}' == json.loads(foreign.data)["content"]
    assert {"role": "user", "content": "Tool results:\n[f] x\n[g] y"} == json.loads(results.data)
    assert {"model", "messages", "stream", "stream_options"} == set(request(RequestParams(), profile, tools=(READ,)))


@FEWER
@given(assistants())
def test_inline_calls_are_found_again(message: Message) -> None:
    """What a conversation without structured calls says of a call is the same call to whoever reads it."""
    words = "".join(message.content).replace("{", "(")
    said = assistant(words, message.tool_calls)
    text = str(encoded(said, replace(PLAIN, calls="inline"))[0]["content"])
    found = [(call.name, call.arguments) for call in extract_inline_calls(text)]
    assert text.startswith(words)
    assert [(call.name, call.arguments) for call in message.tool_calls] == found


@pytest.mark.parametrize(
    "text, expected",
    [
        ('<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>', [("f", '{"a":1}')]),
        (
            '```json\n[{"name": "f"}, {"function_name": "g", "parameters": {"b": 2}}]\n```',
            [("f", "{}"), ("g", '{"b":2}')],
        ),
        ('{"name": "f", "arguments": "{\\"a\\": 1}"}', [("f", '{"a":1}')]),
        ('{"name": "f", "arguments": {"s": "one\ntwo"}}', [("f", '{"s":"one\\ntwo"}')]),
        (
            '{bad {"name": "f", "arguments": {"x": "{\\"name\\": \\"g\\"}"}} tail',
            [("f", '{"x":"{\\"name\\": \\"g\\"}"}')],
        ),
        ('{"name": "f"}{"name": "f"}', [("f", "{}"), ("f", "{}")]),
        ('{"name": "f", "arguments": "words"} {"name": "f", "arguments": [1]} {"name": 7}', []),
        ('{"outer": {"name": "f", "arguments": {}}}', []),
    ],
)
def test_which_objects_in_a_text_are_calls(text: str, expected: list[tuple[str, str]]) -> None:
    """An object with a name and an object of arguments is a call, wherever it stands; one inside another is not."""
    assert expected == [(call.name, call.raw) for call in extract_inline_calls(text)]


def test_history_of_other_programs_is_read() -> None:
    """Legacy calls, parts, marks of a session and system messages are understood or kept."""
    items = [
        {"role": "system", "content": "prompt"},
        {"role": "user", "content": "so far", "compacted_summary": True, "ts": "now"},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": {"p": 1}}},
        {"role": "function", "name": "f", "content": "ERROR: no"},
        {"role": "system", "content": "x", "tools": []},
    ]
    assert [
        Message("summary", (Text("so far"),)),
        Message("assistant", (ToolCall("f", "f", '{"p":1}'),)),
        Message("tool", (ToolResult("f", "ERROR: no", is_error=True),)),
        Message("user", (Opaque("chat", items[-1]),)),
    ] == decode_messages(items)
    assert [items[-1]] == encoded(Message("user", (Opaque("chat", items[-1]),)))


def test_half_characters_are_escaped() -> None:
    """Text that UTF-8 cannot carry is sent as an escape, not refused."""
    assert rb"\ud83d" in encode_message(user("x\ud83d"), PLAIN).data
