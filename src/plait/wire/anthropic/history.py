"""Reading a conversation that is written as Anthropic messages.

Floor: 1. Owns: the way back from `encode`; never: a request.

`decode_messages(encoded) == messages` but for what this wire has no place for: plait's own marks, a result's exact
status and its data, the origin of a message, thoughts without a signature, arguments that are no JSON object, the
citations of a text, and the role `summary`, which comes back as `user`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from plait.core.messages import Image, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult
from plait.wire.calls import text_of_arguments


def decode_messages(items: Iterable[Mapping[str, object]], *, origin: str = "") -> list[Message]:
    """Return the conversation in Anthropic messages; results and words of one user message become two messages.

    Args:
        origin: the endpoint that is said to have made the assistant messages.

    Raises:
        ValueError: a message has a role that no conversation has.
    """
    messages: list[Message] = []
    for item in items:
        role, blocks = item.get("role"), _blocks(item.get("content"))
        if role == "assistant":
            messages.append(Message("assistant", tuple(map(_spoken, blocks)), origin))
        elif role == "user":
            results = tuple(_result(block) for block in blocks if block.get("type") == "tool_result")
            words = tuple(part for block in blocks if block.get("type") != "tool_result" for part in _said(block))
            messages += [Message("tool", results)] if results else []
            messages += [Message("user", words)] if words else []
        else:
            raise ValueError(f"no message of a conversation has the role {role!r}")
    return messages


def _blocks(content: object) -> list[Mapping[str, object]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, Sequence) else []


def _spoken(block: Mapping[str, object]) -> Part:
    kind = block.get("type")
    if kind == "text":
        return Text(str(block.get("text", "")))
    if kind == "thinking":
        return Reasoning(str(block.get("thinking", "")), {"signature": block.get("signature", "")})
    if kind == "redacted_thinking":
        return Reasoning("", {"data": block.get("data")})
    if kind == "tool_use":
        raw, _ = text_of_arguments(block.get("input"))
        return ToolCall(str(block.get("id", "")), str(block.get("name", "")), raw or "{}")
    return Opaque("anthropic", {key: value for key, value in block.items() if key != "cache_control"})


def _said(block: Mapping[str, object]) -> Iterator[Text | Image]:
    text, source = block.get("text"), block.get("source")
    if isinstance(text, str):
        yield Text(text)
    elif isinstance(source, Mapping) and source.get("type") == "url":
        yield Image.from_url(str(source.get("url", "")))
    elif isinstance(source, Mapping):
        yield Image(str(source.get("data", "")), str(source.get("media_type", "image/png")))


def _result(block: Mapping[str, object]) -> ToolResult:
    parts = [part for inner in _blocks(block.get("content")) for part in _said(inner)]
    text = "".join(part.text for part in parts if isinstance(part, Text))
    images = tuple(part for part in parts if isinstance(part, Image))
    return ToolResult(str(block.get("tool_use_id", "")), text, is_error=block.get("is_error") is True, images=images)
