"""Requests on the Responses wire carry the whole conversation, since nothing is stored at the provider."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given

from plait.core.exchange import ToolSchema
from plait.core.messages import Image, Message, Opaque, Reasoning, Text, ToolCall, ToolResult, assistant, user
from plait.wire.profile import RequestParams, WireProfile
from plait.wire.responses.encode import ResponsesEncoder, encode_message, head, tail
from plait.wire.responses.history import decode_messages
from tests.unit.wire.conversations import FEWER, ORIGIN, histories, merged_assistants, without_thoughts

PROFILE = WireProfile(wire="responses", origin=ORIGIN, reasoning_echo="always", custom_tools=True)
TOOL = ToolSchema("read_file", "Reads.", {"type": "object"})
PATCH = ToolSchema("patch", "Patches.", {}, custom_format={"type": "grammar", "grammar": {"syntax": "lark"}})
ITEM = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "ZW5j"}


def encoded(message: Message, profile: WireProfile = PROFILE) -> list[dict[str, Any]]:
    return list(json.loads(b"[" + encode_message(message, profile).data + b"]"))


def request(params: RequestParams, profile: WireProfile = PROFILE, *, tools: tuple[ToolSchema, ...] = ()) -> Any:
    return json.loads(head("m", tools, "s", profile) + tail(params, profile, has_tools=bool(tools)))


@FEWER
@given(histories())
def test_history_survives(history: list[Message]) -> None:
    """Encoding a conversation and reading it back gives the same messages, but for thoughts without their item."""
    encode = ResponsesEncoder(PROFILE)
    data = b",".join(filter(None, (encode(message).data for message in history)))
    expected = merged_assistants([without_thoughts(message) for message in history])
    assert expected == decode_messages(json.loads(b"[" + data + b"]"), origin=ORIGIN)


def test_encrypted_reasoning_goes_back_before_what_it_led_to() -> None:
    """A reasoning item goes back untouched before its call, to its own endpoint only, and never at the end alone."""
    thought = Reasoning("hm", {"item": ITEM})
    message = Message("assistant", (thought, ToolCall("a", "f")), ORIGIN)
    assert [ITEM, "function_call"] == [encoded(message)[0], encoded(message)[1]["type"]]
    assert ["function_call"] == [item["type"] for item in encoded(message, replace(PROFILE, origin="there"))]
    assert ["function_call"] == [item["type"] for item in encoded(message, replace(PROFILE, reasoning_echo="never"))]
    assert [] == encoded(Message("assistant", (thought,), ORIGIN))
    assert ["message"] == [item["type"] for item in encoded(Message("assistant", (Text("a"), thought), ORIGIN))]


def test_calls_and_results() -> None:
    """A call and its result are items of their own, joined by the call's id; failure is told in words."""
    call = encoded(assistant("", [ToolCall("a", "f", '{"n": 1.10}')]))
    assert [{"type": "function_call", "call_id": "a", "name": "f", "arguments": '{"n": 1.10}'}] == call
    result = encoded(Message("tool", (ToolResult("a", "no", is_error=True),)))
    assert [{"type": "function_call_output", "call_id": "a", "output": "ERROR: no"}] == result


def test_free_text_calls_get_their_own_kind_of_result() -> None:
    """The input of a grammar tool goes back as the text it was, and so does the result of that call."""
    encode = ResponsesEncoder(PROFILE)
    call = encode(assistant("", [ToolCall("c", "patch", "*** x", custom=True)])).data
    result = encode(Message("tool", (ToolResult("c", "done"), ToolResult("d", "done")))).data
    assert {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** x"} == json.loads(call)
    types = [item["type"] for item in json.loads(b"[" + result + b"]")]
    assert ["custom_tool_call_output", "function_call_output"] == types
    assert {
        "type": "custom",
        "name": "patch",
        "description": "Patches.",
        "format": {"type": "grammar", "syntax": "lark"},
    } == (request(RequestParams(), tools=(PATCH,))["tools"][0])


def test_server_items_go_back_to_their_endpoint() -> None:
    """An item that only the provider understands goes back there, and nowhere else."""
    search = {"type": "web_search_call", "id": "ws", "status": "completed"}
    message = Message("assistant", (Opaque("responses", search), Text("a")), ORIGIN)
    assert search == encoded(message)[0]
    assert ["message"] == [item["type"] for item in encoded(message, replace(PROFILE, origin="there"))]


def test_images() -> None:
    """Pictures stand in the content of user messages and of results."""
    image = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aGk="}
    assert image == encoded(user("look", [Image("aGk=")]))[0]["content"][1]
    result = Message("tool", (ToolResult("a", "x", images=(Image("aGk="),)),))
    assert [{"type": "input_text", "text": "x"}, image] == encoded(result)[0]["output"]
    assert "left out" in encoded(user("", [Image("aGk=")]), replace(PROFILE, images=False))[0]["content"][0]["text"]


def test_head_and_tail() -> None:
    """Nothing is stored, encrypted reasoning is asked for, the parameters follow the input."""
    params = RequestParams(
        max_output_tokens=9, tool_choice="read_file", reasoning="low", cache_key="k", response_schema={"type": "object"}
    )
    body = request(params, replace(PROFILE, parallel_tool_calls=True), tools=(TOOL,))
    assert ["model", "tools", "instructions", "input", "store", "tool_choice", "parallel_tool_calls"] == list(body)[:7]
    assert {"type": "function", "name": "read_file"} == body["tool_choice"]
    assert ["reasoning.encrypted_content"] == body["include"]
    assert ({"effort": "low", "summary": "auto"}, 9, "k") == (
        body["reasoning"],
        body["max_output_tokens"],
        body["prompt_cache_key"],
    )
    assert {"type": "json_schema", "name": "answer", "schema": {"type": "object"}, "strict": False} == body["text"][
        "format"
    ]
    plain = request(RequestParams(stream=False), replace(PROFILE, reasoning_echo="never"))
    assert {"model", "instructions", "input", "store"} == set(plain)


def test_tool_in_chat_form_is_understood() -> None:
    """A tool that is written as chat completions have it is declared in this wire's form."""
    entry = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
    declared = json.loads(head("m", [entry], "", PROFILE) + b"]}")["tools"][0]
    assert {
        "type": "function",
        "name": "f",
        "description": "d",
        "parameters": {"type": "object"},
        "strict": False,
    } == declared
