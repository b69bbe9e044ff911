"""Requests on the anthropic wire carry the conversation, its thoughts and its cache markers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from plait.core.exchange import ToolSchema, View
from plait.core.messages import Image, Message, Opaque, Reasoning, Text, ToolCall, ToolResult, assistant, user
from plait.wire.anthropic.encode import (
    AnthropicEncoder,
    count_tail,
    encode_message,
    head,
    tail,
    thinking_budget,
)
from plait.wire.anthropic.history import decode_messages
from plait.wire.codec import codec
from plait.wire.prefix import MARKER, MARKS_MAX, Prefix
from plait.wire.profile import Effort, RequestParams, WireProfile
from tests.unit.wire.conversations import FEWER, ORIGIN, histories, without_thoughts

PROFILE = WireProfile(wire="anthropic", origin=ORIGIN, reasoning_echo="always")
TOOL = ToolSchema("read_file", "Reads.", {"type": "object"})


def encoded(message: Message, profile: WireProfile = PROFILE) -> Any:
    return json.loads(encode_message(message, profile).data or b"null")


def tail_members(params: RequestParams, profile: WireProfile = PROFILE, *, has_tools: bool = True) -> Any:
    return json.loads(b'{"messages":[' + tail(params, profile, has_tools=has_tools))


@FEWER
@given(histories())
def test_history_survives(history: list[Message]) -> None:
    """Encoding a conversation and reading it back gives the same messages, but for unsigned thoughts."""
    items = [item for message in history if (item := encoded(message)) is not None]
    assert [without_thoughts(message) for message in history] == [
        with_compact_calls(message) for message in decode_messages(items, origin=ORIGIN)
    ]


def with_compact_calls(message: Message) -> Message:
    """Arguments come back from an object, so without the blanks that Python's own dump puts in."""
    parts = (
        replace(part, raw=json.dumps(part.arguments)) if isinstance(part, ToolCall) else part for part in message.parts
    )
    return replace(message, parts=tuple(parts))


@FEWER
@given(histories())
def test_encoding_depends_on_the_message_alone(history: list[Message]) -> None:
    """A message has the same bytes wherever it stands and whoever encodes it."""
    encode = AnthropicEncoder(PROFILE)
    assert [encode_message(message, PROFILE) for message in history] == [encode(message) for message in history]


def test_results_of_a_step_are_one_user_message() -> None:
    """A tool message is one user message with a block a result, in order, and says which failed."""
    results = (ToolResult("a", "1"), ToolResult("b", "no", is_error=True), ToolResult("c", ""))
    assert {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": "1"},
            {"type": "tool_result", "tool_use_id": "b", "content": "no", "is_error": True},
            {"type": "tool_result", "tool_use_id": "c", "content": "(no output)"},
        ],
    } == encoded(Message("tool", results))


def test_input_of_a_call_is_the_providers_text() -> None:
    """The input is spliced in as it came: no number changes; what is no object is shown as text."""
    data = encode_message(assistant("", [ToolCall("a", "f", '{"n": 1.10, "m":9223372036854775808}')]), PROFILE).data
    assert b'"input":{"n": 1.10, "m":9223372036854775808}' in data
    broken = encoded(assistant("", [ToolCall("a", "f", '{"n":')]))
    assert {"invalid_arguments": '{"n":'} == broken["content"][0]["input"]


def test_signed_thoughts_go_back_in_their_place() -> None:
    """Thoughts with a signature, hidden ones and server tools go back to their endpoint in the order they came."""
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    parts = (
        Reasoning("hm", {"signature": "c2ln"}),
        Reasoning("", {"data": "ZW5j"}),
        Text("a"),
        Opaque("anthropic", search),
        Reasoning("unsigned"),
        ToolCall("t", "f"),
    )
    message = Message("assistant", parts, ORIGIN)
    types = ["thinking", "redacted_thinking", "text", "server_tool_use", "tool_use"]
    assert types == [block["type"] for block in encoded(message)["content"]]
    there = replace(PROFILE, origin="there")
    assert ["text", "tool_use"] == [block["type"] for block in encoded(message, there)["content"]]


@pytest.mark.parametrize(
    "message", [assistant(" "), Message("assistant", (Reasoning("x", {"signature": "s"}),), ORIGIN)]
)
def test_message_that_says_nothing_is_left_out(message: Message) -> None:
    """Blank text, or thoughts alone, are not sent."""
    assert None is encoded(message)


def test_foreign_ids_fit_and_still_pair() -> None:
    """Ids with dots and colons become ones this wire takes, the same for a call and its result."""
    call = encoded(assistant("", [ToolCall("functions.read:0", "f")]))["content"][0]["id"]
    assert call == encoded(Message("tool", (ToolResult("functions.read:0", "x"),)))["content"][0]["tool_use_id"]
    assert call.replace("_", "").isalnum()


def test_images_everywhere() -> None:
    """Pictures stand after the text of a user message, and inside the result they belong to."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    link = {"type": "image", "source": {"type": "url", "url": "https://example.org/"}}
    message = user("look", [Image("aGk="), Image.from_url("https://example.org/")])
    assert [{"type": "text", "text": "look"}, image, link] == encoded(message)["content"]
    result = Message("tool", (ToolResult("a", "x", images=(Image("aGk="),)),))
    assert [{"type": "text", "text": "x"}, image] == encoded(result)["content"][0]["content"]
    assert "left out" in encoded(user("", [Image("aGk=")]), replace(PROFILE, images=False))["content"][0]["text"]


def test_head_marks_the_stable_part() -> None:
    """The last tool and the system prompt carry a marker; parameters follow the messages."""
    body = json.loads(head("m", [TOOL, TOOL], "s", PROFILE) + tail(RequestParams(), PROFILE, has_tools=True))
    cache = {"cache_control": {"type": "ephemeral"}}
    tool = {"name": "read_file", "description": "Reads.", "input_schema": {"type": "object"}}
    assert [tool, {**tool, **cache}] == body["tools"]
    assert [{"type": "text", "text": "s", **cache}] == body["system"]
    assert ["model", "tools", "system", "messages", "max_tokens", "stream"] == list(body)
    assert {"model", "messages"} == set(json.loads(head("m", [], "", PROFILE) + count_tail()))


@FEWER
@given(histories())
def test_request_holds_at_most_four_markers(history: list[Message]) -> None:
    """Markers of the head and the moving ones together are at most four, and each is in a block that takes one."""
    prefix = Prefix(
        head("m", [TOOL], "s", PROFILE), AnthropicEncoder(PROFILE), marks_max=MARKS_MAX - codec("anthropic").head_marks
    )
    prefix.extend(View(0, history, len(history) // 2))
    sent = prefix.request(b"]}", prefix.tail_marks())
    prefix.extend(View(0, history, len(history)))
    after = prefix.request(b"]}", prefix.tail_marks(sent))
    assert after.body.count(MARKER) <= MARKS_MAX
    assert after.body.replace(MARKER, b"").startswith(sent.body.replace(MARKER, b"").removesuffix(b"]}"))
    for message in json.loads(after.body)["messages"]:
        assert all("thinking" not in block["type"] for block in message["content"] if "cache_control" in block)


@pytest.mark.parametrize(
    "effort, limit, expected",
    [("high", 8000, 6976), ("high", 1500, None), (None, 8000, None), ("low", 8000, 1024), ("medium", 8000, 4096)],
)
def test_thinking_budget(effort: Effort | None, limit: int, expected: int | None) -> None:
    """The budget leaves room for an answer, or there is no thinking; with it no temperature is sent."""
    assert expected == thinking_budget(effort, limit)
    members = tail_members(RequestParams(reasoning=effort, max_output_tokens=limit, temperature=0.2))
    assert (None if expected else 0.2) == members.get("temperature")


def test_a_model_that_decides_itself_how_much_it_thinks() -> None:
    """Where thinking is adaptive an effort is sent and no budget, beside a schema, and never a temperature."""
    adaptive = replace(PROFILE, thinking="adaptive")
    params = RequestParams(reasoning="low", temperature=0.2, response_schema={"type": "object"}, tool_choice="required")
    members = tail_members(params, adaptive)

    assert {"type": "adaptive"} == members["thinking"]
    assert ("low", {"type": "object"}) == (
        members["output_config"]["effort"],
        members["output_config"]["format"]["schema"],
    )
    assert [] == [name for name in ("temperature", "tool_choice") if name in members]
    assert [] == [name for name in ("thinking", "output_config") if name in tail_members(RequestParams(), adaptive)]


def test_a_model_that_always_thinks_takes_no_order() -> None:
    """Where thinking cannot be switched off a forced call is left to the model, and nothing else changes."""
    always = replace(PROFILE, thinking="always")

    for choice, expected in (("required", None), ("f", None), ("auto", {"type": "auto"})):
        assert expected == tail_members(RequestParams(tool_choice=choice), always).get("tool_choice")
    assert {"type": "adaptive"} == tail_members(RequestParams(reasoning="high"), always)["thinking"]


@pytest.mark.parametrize(
    "choice, expected",
    [("auto", {"type": "auto"}), ("required", {"type": "any"}), ("f", {"type": "tool", "name": "f"}), ("none", None)],
)
def test_tool_choice(choice: str, expected: object) -> None:
    """Choices are spelled as this wire does; `none` is not sent, because it would cost the cache."""
    assert expected == tail_members(RequestParams(tool_choice=choice)).get("tool_choice")


def test_one_call_at_a_time() -> None:
    """An endpoint without parallel calls is told so."""
    members = tail_members(RequestParams(), replace(PROFILE, parallel_tool_calls=False))
    assert {"type": "auto", "disable_parallel_tool_use": True} == members["tool_choice"]


def test_schema_for_the_answer() -> None:
    """A schema for the answer is an output format."""
    members = tail_members(RequestParams(response_schema={"type": "object"}))
    assert {"format": {"type": "json_schema", "schema": {"type": "object"}}} == members["output_config"]
