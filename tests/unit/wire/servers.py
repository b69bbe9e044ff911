"""Answers as servers by the book send them: in one document, and streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from plait.core.messages import Message
from plait.wire.profile import WireName

USAGE: Mapping[WireName, Mapping[str, Any]] = {
    "chat": {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 5}},
    "responses": {"input_tokens": 9, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 5}},
    "anthropic": {
        "input_tokens": 4,
        "output_tokens": 4,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 0,
    },
}


def whole(message: Message, wire: WireName) -> bytes:
    """The message as the one document of a server that does not stream."""
    return json.dumps(_WHOLE[wire](message)).encode()


def streamed(message: Message, wire: WireName, size: int) -> bytes:
    """The message as a stream, its texts in pieces of `size` characters."""
    return b"".join(_STREAMED[wire](message, size))


def _chunks(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def _event(document: Mapping[str, Any], *, named: bool = False) -> bytes:
    name = f"event: {document['type']}\n" if named else ""
    return f"{name}data: {json.dumps(document)}\n\n".encode()


def _chat_calls(message: Message) -> list[dict[str, Any]]:
    return [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.raw}}
        for call in message.tool_calls
    ]


def _whole_chat(message: Message) -> dict[str, Any]:
    body: dict[str, Any] = {"role": "assistant", "content": message.content or None}
    if message.reasoning:
        body["reasoning_content"] = message.reasoning
    if message.tool_calls:
        body["tool_calls"] = _chat_calls(message)
    finish = "tool_calls" if message.tool_calls else "stop"
    return {"choices": [{"index": 0, "message": body, "finish_reason": finish}], "usage": USAGE["chat"]}


def _streamed_chat(message: Message, size: int) -> Iterator[bytes]:
    def chunk(finish: str | None = None, **delta: Any) -> bytes:
        return _event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None})

    yield chunk(role="assistant", content="")
    yield from (chunk(reasoning_content=piece) for piece in _chunks(message.reasoning, size))
    yield from (chunk(content=piece) for piece in _chunks(message.content, size))
    for index, call in enumerate(_chat_calls(message)):
        arguments = call["function"]["arguments"]
        yield chunk(tool_calls=[{**call, "index": index, "function": {**call["function"], "arguments": ""}}])
        for piece in _chunks(arguments, size):
            yield chunk(tool_calls=[{"index": index, "function": {"arguments": piece}}])
    yield chunk(finish="tool_calls" if message.tool_calls else "stop")
    yield _event({"choices": [], "usage": USAGE["chat"]})
    yield b"data: [DONE]\n\n"


def _items(message: Message) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if message.reasoning:
        items.append(
            {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": message.reasoning}]}
        )
    if message.content:
        content = [{"type": "output_text", "text": message.content}]
        items.append({"type": "message", "id": "msg", "role": "assistant", "content": content})
    for call in message.tool_calls:
        names = {"id": f"fc_{call.id}", "call_id": call.id, "name": call.name}
        items.append({"type": "function_call", **names, "arguments": call.raw})
    return items


def _whole_responses(message: Message) -> dict[str, Any]:
    return {"object": "response", "status": "completed", "output": _items(message), "usage": USAGE["responses"]}


def _streamed_responses(message: Message, size: int) -> Iterator[bytes]:
    kinds = {
        "reasoning": ("response.reasoning_summary_text.delta", message.reasoning, {"summary": []}),
        "message": ("response.output_text.delta", message.content, {"content": []}),
    }
    yield _event({"type": "response.created", "response": {"status": "in_progress", "usage": None}}, named=True)
    for place, item in enumerate(_items(message)):
        call = ("response.function_call_arguments.delta", item.get("arguments", ""), {"arguments": ""})
        event, text, empty = kinds.get(item["type"], call)
        yield _event(
            {"type": "response.output_item.added", "output_index": place, "item": {**item, **empty}}, named=True
        )
        for piece in _chunks(text, size):
            yield _event({"type": event, "output_index": place, "item_id": item["id"], "delta": piece}, named=True)
        yield _event({"type": "response.output_item.done", "output_index": place, "item": item}, named=True)
    yield _event({"type": "response.completed", "response": _whole_responses(message)}, named=True)


def _blocks(message: Message) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if message.reasoning:
        blocks.append({"type": "thinking", "thinking": message.reasoning, "signature": "c2ln"})
    if message.content:
        blocks.append({"type": "text", "text": message.content})
    for call in message.tool_calls:
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments})
    return blocks


def _whole_anthropic(message: Message) -> dict[str, Any]:
    stop = "tool_use" if message.tool_calls else "end_turn"
    body = {"type": "message", "role": "assistant", "content": _blocks(message), "stop_reason": stop}
    return {**body, "usage": USAGE["anthropic"]}


def _streamed_anthropic(message: Message, size: int) -> Iterator[bytes]:
    start = {**_whole_anthropic(message), "content": [], "stop_reason": None}
    yield _event(
        {"type": "message_start", "message": {**start, "usage": {**USAGE["anthropic"], "output_tokens": 1}}}, named=True
    )
    calls = iter(message.tool_calls)
    for index, block in enumerate(_blocks(message)):
        empty: dict[str, Any] = {"text": "", "thinking": "", "signature": "", "input": {}}
        begun = {**block, **{name: empty[name] for name in block if name in empty}}
        yield _event({"type": "content_block_start", "index": index, "content_block": begun}, named=True)
        kind, name = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}.get(
            block["type"], ("input_json_delta", "partial_json")
        )
        text = next(calls).raw if block["type"] == "tool_use" else block[name]
        deltas = [{"type": kind, name: piece} for piece in _chunks(text, size)]
        if block["type"] == "thinking":
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        for delta in deltas:
            yield _event({"type": "content_block_delta", "index": index, "delta": delta}, named=True)
        yield _event({"type": "content_block_stop", "index": index}, named=True)
    stop = {"stop_reason": _whole_anthropic(message)["stop_reason"]}
    yield _event({"type": "message_delta", "delta": stop, "usage": {"output_tokens": 4}}, named=True)
    yield _event({"type": "message_stop"}, named=True)


_WHOLE = {"chat": _whole_chat, "responses": _whole_responses, "anthropic": _whole_anthropic}
_STREAMED = {"chat": _streamed_chat, "responses": _streamed_responses, "anthropic": _streamed_anthropic}
