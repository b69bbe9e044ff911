"""Reading a conversation that is written as Responses input items.

Floor: 1. Owns: the way back from `encode`; never: a request.

`decode_messages(encoded) == messages` but for what this wire has no place for: plait's own marks, a result's status
(an error is told from its words) and its data, the origin of a message, reasoning that is not encrypted, the role
`summary`, which comes back as `user`, and the border between two assistant messages that follow each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from plait.core.messages import Image, Message, Opaque, Part, Reasoning, Role, Text, ToolCall, ToolResult
from plait.wire.calls import text_of_arguments
from plait.wire.encoding import ERROR_PREFIX


def decode_messages(items: Iterable[Mapping[str, object]], *, origin: str = "") -> list[Message]:
    """Return the conversation in Responses items; what a model said in a row is one message, results in a row too.

    Args:
        origin: the endpoint that is said to have made the assistant messages.
    """
    messages: list[Message] = []
    for item in items:
        role, parts = _read(item)
        if not parts:
            continue
        if messages and messages[-1].role == role != "user":
            messages[-1] = Message(role, messages[-1].parts + parts, messages[-1].origin)
        else:
            messages.append(Message(role, parts, origin if role == "assistant" else ""))
    return messages


def _read(item: Mapping[str, object]) -> tuple[Role, tuple[Part, ...]]:
    kind, role = item.get("type", "message"), item.get("role")
    if kind == "message":
        content = tuple(_content(item.get("content")))
        return ("assistant", content) if role == "assistant" else ("user", content if role == "user" else ())
    call_id, name = str(item.get("call_id", "")), str(item.get("name", ""))
    if kind == "function_call":
        raw, _ = text_of_arguments(item.get("arguments"))
        return "assistant", (ToolCall(call_id, name, raw or "{}"),)
    if kind == "custom_tool_call":
        return "assistant", (ToolCall(call_id, name, str(item.get("input", "")), custom=True),)
    if kind in ("function_call_output", "custom_tool_call_output"):
        return "tool", (_result(call_id, item.get("output")),)
    if kind == "reasoning":
        text = "".join(part.text for part in _content(item.get("summary")) if isinstance(part, Text))
        return "assistant", (Reasoning(text, {"item": dict(item)} if item.get("encrypted_content") else None),)
    return "assistant", (Opaque("responses", dict(item)),)


def _content(content: object) -> Iterator[Text | Image]:
    if isinstance(content, str):
        yield from [Text(content)] if content else []
        return
    for part in content if isinstance(content, Sequence) else ():
        if not isinstance(part, Mapping):
            continue
        text, url = part.get("text", part.get("refusal")), part.get("image_url")
        if isinstance(text, str) and text:
            yield Text(text)
        elif isinstance(url, str):
            yield Image.from_url(url)


def _result(call_id: str, output: object) -> ToolResult:
    parts = list(_content(output))
    text = "".join(part.text for part in parts if isinstance(part, Text))
    images = tuple(part for part in parts if isinstance(part, Image))
    return ToolResult(call_id, text, is_error=text.startswith(ERROR_PREFIX), images=images)
