"""Requests to chat-completions endpoints.

Floor: 1. Owns: what a message, a tool and a parameter look like on this wire; never: what may be sent when.

A request is `head`, the messages joined by commas, and `tail`; encoding a message depends on the message and the
profile, and for results on the calls they answer, never on where the message stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from plait.core.exchange import TOOLS_MARK, ToolSchema
from plait.core.messages import Image, Message, Opaque, ToolCall, ToolResult
from plait.wire.encoding import (
    NO_IMAGES,
    TOOL_IMAGES,
    ToolEntry,
    answer_format,
    arguments_text,
    grammar_of,
    join,
    own_reasoning,
    parameters_of,
    result_text,
    tail_of,
    to_bytes,
    tool_names_of,
)
from plait.wire.inline_calls import inline_call_text, inline_results_text
from plait.wire.names import wire_id, wire_name
from plait.wire.opaque import is_signed
from plait.wire.profile import Encoded, RequestParams, WireProfile

PATH: Final = "/chat/completions"
HEAD_MARKS: Final = 1
"""Cache markers that the head holds at most, where the endpoint takes any."""
_HEAD: Final = ("messages", "tools", "model")
_SEALED: Final = ("reasoning_opaque", "extra_content")
"""Members of a message that only its endpoint can read, sent back as they came beside the readable thought."""


class ChatEncoder:
    """Encodes the messages of one conversation; remembers the names of calls for the results that answer them."""

    def __init__(self, profile: WireProfile) -> None:
        self._profile = profile
        self._names: dict[str, str] = {}

    def __call__(self, message: Message) -> Encoded:
        """Return the message as it is sent; empty bytes for one that says nothing."""
        if self._profile.calls == "inline":
            self._names.update((call.id, call.name) for call in message.tool_calls)
        return encode_message(message, self._profile, self._names)


def encode_message(message: Message, profile: WireProfile, names: Mapping[str, str] | None = None) -> Encoded:
    """Return the message as it is sent.

    Args:
        names: tool names by call id, for results in a conversation whose calls are text.
    """
    items = list(message_dicts(message, profile, names or {}))
    data = join(items)
    takes_marker = bool(items) and profile.cache_markers and isinstance(items[-1].get("content"), list)
    has_content_last = takes_marker and next(reversed(items[-1])) == "content"
    return Encoded(data, len(data) - len(b"}]}") if has_content_last else None)


def head(model: str, tools: Sequence[ToolEntry], system: str, profile: WireProfile) -> bytes:
    """Return the request up to where its messages begin; the system prompt is part of it."""
    members: dict[str, object] = {"model": model}
    if tools and profile.calls == "structured":
        members["tools"] = [tool_dict(tool, profile) for tool in tools]
    start = to_bytes(members)[:-1] + b',"messages":['
    if not system:
        return start
    content: object = system
    if profile.cache_markers:
        content = [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]
    return start + to_bytes({"role": profile.system_role, "content": content})


def tail(params: RequestParams, profile: WireProfile, *, has_tools: bool = False) -> bytes:
    """Return the request after its messages: every parameter.

    Raises:
        ConfigError: an extra parameter would replace the model, the tools or the messages.
    """
    members: dict[str, object] = {}
    structured_tools = has_tools and profile.calls == "structured"
    if params.tool_choice is not None and structured_tools:
        members["tool_choice"] = _tool_choice(params.tool_choice)
    if profile.parallel_tool_calls is not None and structured_tools:
        members["parallel_tool_calls"] = profile.parallel_tool_calls
    if params.max_output_tokens is not None:
        members[profile.max_tokens_field] = params.max_output_tokens
    if params.temperature is not None and profile.temperature:
        members["temperature"] = params.temperature
    if params.reasoning is not None:
        members["reasoning_effort"] = params.reasoning
    if params.response_schema is not None:
        answer = answer_format(params.response_schema, profile)
        members["response_format"] = {"type": "json_schema", "json_schema": answer}
    if params.cache_key is not None:
        members["prompt_cache_key"] = params.cache_key
    if params.stream:
        members["stream"] = True
        if profile.stream_usage:
            members["stream_options"] = {"include_usage": True}
    return tail_of(members, params.extra, _HEAD)


def tool_dict(tool: ToolEntry, profile: WireProfile) -> Mapping[str, object]:
    """Return a tool as it is declared."""
    if not isinstance(tool, ToolSchema):
        return tool
    if tool.custom_format is not None and profile.custom_tools:
        grammar = grammar_of(tool.custom_format, is_nested=True)
        custom = {"name": wire_name(tool.name), "description": tool.description, "format": grammar}
        return {"type": "custom", "custom": custom}
    function: dict[str, object] = {
        "name": wire_name(tool.name),
        "description": tool.description,
        "parameters": parameters_of(tool, profile),
    }
    if tool.deferred:
        function["defer_loading"] = True
    return {"type": "function", "function": function}


def message_dicts(
    message: Message, profile: WireProfile, names: Mapping[str, str] | None = None
) -> Iterator[dict[str, object]]:
    """Yield the message as this wire has it: none for one that says nothing, several for several results."""
    if message.role == "assistant":
        yield from _assistant(message, profile)
    elif message.role == "tool" and profile.calls == "inline":
        yield from _user(inline_results_text(message.tool_results, names or {}), (), profile)
    elif message.role == "tool":
        for result in message.tool_results:
            yield _result(result, profile)
        images = [image for result in message.tool_results for image in result.images]
        if images:
            yield from _user(TOOL_IMAGES, images, profile)
    elif not message.marked(TOOLS_MARK) or profile.tool_messages:
        yield from (dict(part.payload) for part in message.parts if isinstance(part, Opaque) and part.wire == "chat")
        yield from _user(message.content, message.images, profile)


def _user(text: str, images: Sequence[Image], profile: WireProfile) -> Iterator[dict[str, object]]:
    if images and not profile.images:
        text = "\n".join(filter(None, [text, *[NO_IMAGES] * len(images)]))
        images = ()
    if images or profile.cache_markers:
        parts: list[object] = [{"type": "text", "text": text}] if text.strip() else []
        parts += [{"type": "image_url", "image_url": {"url": image.as_data_uri()}} for image in images]
        if parts:
            yield {"role": "user", "content": parts}
    elif text.strip():
        yield {"role": "user", "content": text}


def _assistant(message: Message, profile: WireProfile) -> Iterator[dict[str, object]]:
    text, calls = message.content, message.tool_calls
    if profile.calls == "inline":
        text = "\n".join(filter(None, [text, *(inline_call_text(call, text) for call in calls)]))
        calls = ()
    if not calls and not text.strip():
        return
    item: dict[str, object] = {"role": "assistant", "content": text if text.strip() or not calls else None}
    thoughts = own_reasoning(message, profile)
    if thoughts is not None:
        opaque = {key: value for part in thoughts for key, value in _signed(part.opaque).items()}
        if opaque.keys() <= {"reasoning_opaque", "extra_content"}:
            item[profile.reasoning_field] = "".join(part.text for part in thoughts)
        item.update(opaque)
    if calls:
        is_own = message.origin == profile.origin
        item["tool_calls"] = [_call(call, profile, is_own=is_own) for call in calls]
    yield item


def _signed(opaque: Mapping[str, object] | None) -> Mapping[str, object]:
    """Return the records that can be sent back."""
    kept: dict[str, object] = {}
    for name in ("thinking_blocks", "reasoning_details"):
        records = opaque.get(name) if opaque else None
        if not isinstance(records, list):
            continue
        whole = list(filter(is_signed, records))
        if whole:
            kept[name] = whole
    return {**kept, **{name: opaque[name] for name in _SEALED if opaque and opaque.get(name)}}


def _call(call: ToolCall, profile: WireProfile, *, is_own: bool) -> dict[str, object]:
    item: dict[str, object] = {"id": wire_id(call.id, profile.call_ids)}
    if call.custom and profile.custom_tools:
        item |= {"type": "custom", "custom": {"name": wire_name(call.name), "input": call.raw}}
    else:
        function = {"name": wire_name(call.name), "arguments": arguments_text(call)}
        item |= {"type": "function", "function": function}
    if is_own:
        return {**item, **(call.extra or {})}
    return {**item, "extra_content": dict(profile.call_extra)} if profile.call_extra is not None else item


def _result(result: ToolResult, profile: WireProfile) -> dict[str, object]:
    names = tool_names_of(result) if profile.tool_references else ()
    text = result_text(result)
    content: object = [{"type": "text", "text": text}] if profile.cache_markers else text
    if names:
        content = [{"type": "tool_reference", "name": wire_name(name)} for name in names]
    return {"role": "tool", "tool_call_id": wire_id(result.call_id, profile.call_ids), "content": content}


def _tool_choice(choice: str) -> object:
    if choice in ("auto", "none", "required"):
        return choice
    return {"type": "function", "function": {"name": wire_name(choice)}}
