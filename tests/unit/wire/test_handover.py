"""A conversation that is handed from one wire to another stays valid there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from plait.core.messages import Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult, user
from plait.core.strict_json import dump
from plait.wire.answer import is_runnable, to_message
from plait.wire.anthropic import history as anthropic_history
from plait.wire.chat import history as chat_history
from plait.wire.codec import codec
from plait.wire.decode import decode_body
from plait.wire.profile import WireName, WireProfile
from plait.wire.responses import history as responses_history
from tests.unit.wire.cases import stream_cases
from tests.unit.wire.conversations import CALLS, ORIGIN, TEXTS

WIRES: tuple[WireName, ...] = ("chat", "responses", "anthropic")
ANSWERS = [
    (wire, case.name, to_message(answer, wire))
    for wire in WIRES
    for case in stream_cases(wire)
    if (answer := decode_body(case.body, case.profile)).failure is None
]
FOREIGN = Message(
    "assistant",
    (
        Reasoning("a", {"signature": "s"}),
        Reasoning("b", {"item": {"type": "reasoning", "encrypted_content": "x"}}),
        Reasoning("c", {"thinking_blocks": [{"type": "thinking", "signature": "s"}], "reasoning_opaque": "QQ=="}),
        Opaque("anthropic", {"type": "server_tool_use"}),
        Opaque("responses", {"type": "web_search_call"}),
        Text("d"),
        ToolCall("functions.f:0", "f", '{"n":'),
        ToolCall("c", "patch", "*** x", custom=True, extra={"extra_content": {"s": 1}}),
    ),
    "elsewhere",
)


def sent(history: list[Message], wire: WireName) -> list[dict[str, Any]]:
    """The messages of a request to an endpoint that made none of them, and echoes all that is its own."""
    encode = codec(wire).encoder(WireProfile(wire=wire, origin="here", reasoning_echo="always"))
    return list(json.loads(b"[" + b",".join(filter(None, (encode(message).data for message in history))) + b"]"))


def conversation(answer: Message) -> list[Message]:
    """The answer between a question and the results of its calls."""
    results = tuple(ToolResult(call.id, "ok") for call in answer.tool_calls)
    return [user("go"), answer, *([Message("tool", results)] if results else []), user("on")]


def asked_and_answered(items: list[dict[str, Any]], wire: WireName) -> tuple[list[str], list[str]]:
    """The ids of calls, and of results, in order."""
    asked, answered = [], []
    for item in items:
        if wire == "responses":
            if item["type"] in ("function_call", "custom_tool_call"):
                asked.append(item["call_id"])
            elif item["type"].endswith("_output"):
                answered.append(item["call_id"])
            continue
        if wire == "chat":
            asked += [call["id"] for call in item.get("tool_calls", ())]
            answered += [item["tool_call_id"]] if item["role"] == "tool" else []
            continue
        for block in item["content"]:
            asked += [block["id"]] if block["type"] == "tool_use" else []
            answered += [block["tool_use_id"]] if block["type"] == "tool_result" else []
    return asked, answered


def keys(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner)


OPAQUE = {"signature", "encrypted_content", "thinking_blocks", "reasoning_details", "extra_content", "reasoning_opaque"}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("answer", [item[2] for item in ANSWERS] + [FOREIGN], ids=[*(a[1] for a in ANSWERS), "foreign"])
def test_answers_of_every_wire_can_be_sent_on_every_wire(answer: Message, wire: WireName) -> None:
    """Calls and results pair, nothing is blank, and nothing that only its own endpoint understands is sent."""
    items = sent(conversation(answer), wire)
    asked, answered = asked_and_answered(items, wire)
    assert asked == answered
    assert len(answer.tool_calls) == len(set(asked))
    assert not OPAQUE & set(keys(items))
    assert "server_tool_use" not in json.dumps(items)
    if wire == "anthropic":
        assert all(block.get("text", "x").strip() for item in items for block in item["content"])
        assert all(isinstance(block.get("input", {}), dict) for item in items for block in item["content"])


HISTORIES = {"chat": chat_history, "responses": responses_history, "anthropic": anthropic_history}
SIGNED: Mapping[WireName, Sequence[Mapping[str, object] | None]] = {
    "chat": [
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "QQ==", "index": 0}]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "UQ=="}]},
        {"reasoning_opaque": "QQ=="},
        {"extra_content": {"google": {"thought_signature": "S"}}},
        None,
    ],
    "responses": [{"item": {"type": "reasoning", "summary": [], "encrypted_content": "QQ=="}}],
    "anthropic": [{"signature": "UQ=="}, {"data": "RR=="}],
}
"""What endpoints of each wire sign their thoughts with."""


@st.composite
def signed_answers(draw: st.DrawFn, wire: WireName) -> Message:
    """An answer with a signed thought and calls, also of tools that take free text, also signed ones."""
    opaque = draw(st.sampled_from(SIGNED[wire]))
    has_text = wire == "anthropic" and opaque is not None and "signature" in opaque
    blind = "" if opaque is not None and not has_text and "thinking_blocks" not in opaque else "hm"
    parts: list[Part] = [Reasoning(blind, opaque)]
    if draw(st.booleans()):
        parts.append(Text(draw(TEXTS)))
    extra = (
        {"extra_content": {"google": {"thought_signature": "T"}}} if wire == "chat" and draw(st.booleans()) else None
    )
    parts.append(replace(draw(CALLS), extra=extra))
    if wire != "anthropic":
        parts.append(ToolCall("call_free", "patch", draw(TEXTS), custom=True))
    return Message("assistant", tuple(parts), ORIGIN)


def echoed(message: Message, wire: WireName) -> list[Message]:
    """The message after it was sent back to the endpoint that made it."""
    profile = WireProfile(wire=wire, origin=message.origin, reasoning_echo="always", custom_tools=True)
    items = json.loads(b"[" + codec(wire).encoder(profile)(message).data + b"]")
    returned: list[Message] = HISTORIES[wire].decode_messages(items, origin=message.origin)
    return returned


@pytest.mark.parametrize("wire", WIRES)
@given(st.data())
def test_what_an_endpoint_signed_comes_back_to_it_exactly(wire: WireName, data: st.DataObject) -> None:
    """Thoughts, signatures, hidden records, free texts and extras of calls reach their own endpoint unchanged."""
    message = data.draw(signed_answers(wire))
    returned = echoed(message, wire)
    if wire == "anthropic":
        message, returned = compact(message), [compact(item) for item in returned]
    assert [message] == returned


def compact(message: Message) -> Message:
    """The message with its arguments as a wire has them that sends objects."""
    parts = (replace(part, raw=dump(part.arguments)) if isinstance(part, ToolCall) else part for part in message.parts)
    return replace(message, parts=tuple(parts))


@pytest.mark.parametrize("wire, answer", [(wire, answer) for wire, _, answer in ANSWERS], ids=[a[1] for a in ANSWERS])
def test_recorded_answers_come_back_to_their_endpoint_exactly(wire: WireName, answer: Message) -> None:
    """A recorded answer is echoed as it was; one without words or calls is not sent, broken arguments are wrapped."""
    if not answer.content.strip() and not answer.tool_calls:
        assert [] == echoed(answer, wire)
        return
    (returned,) = echoed(answer, wire)
    if wire == "anthropic":
        answer = replace(answer, parts=tuple(wrapped(part) for part in answer.parts))
    assert compact(answer) == compact(returned)


def wrapped(part: Part) -> Part:
    """A call whose arguments are no object, as a wire has it that takes only objects."""
    if not isinstance(part, ToolCall) or is_runnable(part):
        return part
    return replace(part, raw=dump({"invalid_arguments": part.raw}))


@pytest.mark.parametrize("wire", WIRES)
@given(st.data())
def test_handing_over_twice_changes_no_byte(wire: WireName, data: st.DataObject) -> None:
    """What an endpoint gets depends on the messages alone, not on the wires they crossed before."""
    answer = data.draw(st.sampled_from(ANSWERS))[2]
    history = conversation(answer)
    for other in WIRES:
        sent(history, other)
    assert sent(history, wire) == sent(history, wire)
