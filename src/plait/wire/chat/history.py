"""Reading a conversation that is written as chat-completions messages.

Floor: 1. Owns: the way back from `encode`; never: a request.

`decode_messages(encoded) == messages` but for what this wire has no place for: plait's own marks, a result's status
(an error is told from its words) and its data but for the tools that it has loaded, the order of text and calls inside
one message, where text is cut into parts, the origin of a message, reasoning that is not echoed, and the role
`summary`, which comes back as `user` unless the message says `compacted_summary`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from plait.core.exchange import loaded_receipt
from plait.core.messages import (
    PINNED,
    Control,
    Image,
    Message,
    Opaque,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from plait.wire.calls import text_of_arguments
from plait.wire.encoding import ERROR_PREFIX

_REASONING = ("reasoning_content", "reasoning", "reasoning_text")
_OPAQUE = ("thinking_blocks", "reasoning_details", "reasoning_opaque", "extra_content")


def decode_messages(items: Iterable[Mapping[str, object]], *, origin: str = "") -> list[Message]:
    """Return the conversation in chat messages; a system prompt at its start is left out.

    Args:
        origin: the endpoint that is said to have made the assistant messages.

    Raises:
        ValueError: a message has a role that no conversation has.
    """
    messages: list[Message] = []
    for item in items:
        message = _message(item, origin)
        if message.role == "tool" and messages and messages[-1].role == "tool":
            messages[-1] = Message("tool", messages[-1].parts + message.parts)
        elif message.parts or message.role == "assistant":
            messages.append(message)
    return messages


def _message(item: Mapping[str, object], origin: str) -> Message:
    role = item.get("role")
    if role in ("system", "developer"):
        is_prompt = isinstance(item.get("content"), (str, list)) and "tools" not in item
        return Message("user", () if is_prompt else (Opaque("chat", dict(item)),))
    pins = (Control(PINNED),) if item.get("pinned") is True else ()
    if role == "assistant":
        return Message("assistant", (*_assistant_parts(item), *pins), origin)
    if role in ("tool", "function"):
        return Message("tool", (_result(item),))
    if role != "user":
        raise ValueError(f"no message of a conversation has the role {role!r}")
    own: Role = "summary" if item.get("compacted_summary") else "user"
    return Message(own, (*_content_parts(item.get("content")), *pins))


def _assistant_parts(item: Mapping[str, object]) -> Iterator[Part]:
    opaque = {name: item[name] for name in _OPAQUE if item.get(name)}
    text = _first_text(item, _REASONING)
    if text or opaque:
        yield Reasoning(text or _readable(opaque), opaque or None)
    yield from (part for part in _content_parts(item.get("content")) if isinstance(part, Text))
    refusal = item.get("refusal")
    if isinstance(refusal, str) and refusal:
        yield Text(refusal)
    calls = item.get("tool_calls")
    for call in calls if isinstance(calls, Sequence) else ():
        if isinstance(call, Mapping):
            yield _call(call)
    legacy = item.get("function_call")
    if isinstance(legacy, Mapping):
        yield ToolCall(str(legacy.get("name", "")), str(legacy.get("name", "")), _arguments(legacy.get("arguments")))


def _content_parts(content: object) -> Iterator[Part]:
    if isinstance(content, str):
        if content:
            yield Text(content)
        return
    for part in content if isinstance(content, Sequence) else ():
        if not isinstance(part, Mapping):
            continue
        text, image = part.get("text"), part.get("image_url")
        url = image.get("url") if isinstance(image, Mapping) else image
        if isinstance(text, str) and text:
            yield Text(text)
        elif isinstance(url, str):
            yield Image.from_url(url)


def _call(call: Mapping[str, object]) -> ToolCall:
    extra = {"extra_content": call["extra_content"]} if call.get("extra_content") else None
    custom, function = call.get("custom"), call.get("function")
    call_id = str(call.get("id", ""))
    if isinstance(custom, Mapping):
        return ToolCall(call_id, str(custom.get("name", "")), str(custom.get("input", "")), custom=True, extra=extra)
    body = function if isinstance(function, Mapping) else {}
    return ToolCall(call_id, str(body.get("name", "")), _arguments(body.get("arguments")), extra=extra)


def _result(item: Mapping[str, object]) -> ToolResult:
    parts = list(_content_parts(item.get("content")))
    text = "".join(part.text for part in parts if isinstance(part, Text))
    images = tuple(part for part in parts if isinstance(part, Image))
    call_id = str(item.get("tool_call_id") or item.get("name") or "")
    names = list(_references(item.get("content")))
    if names and not text:
        return ToolResult(call_id, f"Loaded: {', '.join(names)}", data=loaded_receipt(names))
    return ToolResult(call_id, text, is_error=text.startswith(ERROR_PREFIX), images=images)


def _references(content: object) -> Iterator[str]:
    """Yield the names of tools that a search has loaded by reference."""
    for part in content if isinstance(content, (list, tuple)) else ():
        if isinstance(part, Mapping) and part.get("type") == "tool_reference" and isinstance(part.get("name"), str):
            yield part["name"]


def _first_text(item: Mapping[str, object], names: Iterable[str]) -> str:
    for name in names:
        value = item.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


def _arguments(value: object) -> str:
    text, _ = text_of_arguments(value)
    return text or "{}"


def _readable(opaque: Mapping[str, object]) -> str:
    texts = []
    for records in opaque.values():
        for record in records if isinstance(records, Sequence) else ():
            if isinstance(record, Mapping):
                texts += [text for name in ("text", "thinking", "summary") if isinstance(text := record.get(name), str)]
    return "".join(texts)
