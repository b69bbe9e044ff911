"""Requests to Responses endpoints.

Floor: 1. Owns: what a message, a tool and a parameter look like on this wire; never: what may be sent when.

Nothing is stored at the provider: every request carries the whole conversation, and reasoning goes back as the
encrypted items that came.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from plait.core.messages import Image, Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from plait.wire.encoding import (
    NO_IMAGES,
    ToolEntry,
    answer_format,
    arguments_text,
    function_of,
    grammar_of,
    join,
    own_reasoning,
    parameters_of,
    result_text,
    tail_of,
    to_bytes,
)
from plait.wire.names import wire_id, wire_name
from plait.wire.profile import Encoded, RequestParams, WireProfile

PATH: Final = "/responses"
_HEAD: Final = ("input", "tools", "instructions", "model")


class ResponsesEncoder:
    """Encodes the messages of one conversation; remembers which calls were free text, for their results."""

    def __init__(self, profile: WireProfile) -> None:
        self._profile = profile
        self._custom_ids: set[str] = set()

    def __call__(self, message: Message) -> Encoded:
        """Return the message as it is sent; empty bytes for one that says nothing."""
        self._custom_ids.update(call.id for call in message.tool_calls if call.custom)
        return encode_message(message, self._profile, self._custom_ids)


def encode_message(message: Message, profile: WireProfile, custom_ids: Collection[str] = ()) -> Encoded:
    """Return the message as it is sent.

    Args:
        custom_ids: ids of calls whose input was free text; their results have a type of their own.
    """
    return Encoded(join(message_items(message, profile, custom_ids)))


def head(model: str, tools: Sequence[ToolEntry], system: str, profile: WireProfile) -> bytes:
    """Return the request up to where its input begins; the system prompt is part of it."""
    members: dict[str, object] = {"model": model}
    if tools:
        members["tools"] = [tool_dict(tool, profile) for tool in tools]
    if system:
        members["instructions"] = system
    return to_bytes(members)[:-1] + b',"input":['


def tail(params: RequestParams, profile: WireProfile, *, has_tools: bool = False) -> bytes:
    """Return the request after its input: every parameter.

    Raises:
        ConfigError: an extra parameter would replace the model, the tools, the system prompt or the input.
    """
    members: dict[str, object] = {"store": False}
    if params.tool_choice is not None and has_tools:
        members["tool_choice"] = _tool_choice(params.tool_choice)
    if profile.parallel_tool_calls is not None and has_tools:
        members["parallel_tool_calls"] = profile.parallel_tool_calls
    if params.max_output_tokens is not None:
        members["max_output_tokens"] = params.max_output_tokens
    if params.temperature is not None and profile.temperature:
        members["temperature"] = params.temperature
    if params.reasoning is not None:
        members["reasoning"] = {"effort": params.reasoning, "summary": "auto"}
    if profile.reasoning_echo == "always":
        members["include"] = ["reasoning.encrypted_content"]
    if params.response_schema is not None:
        members["text"] = {"format": {"type": "json_schema", **answer_format(params.response_schema, profile)}}
    if params.cache_key is not None:
        members["prompt_cache_key"] = params.cache_key
    if params.stream:
        members["stream"] = True
    return tail_of(members, params.extra, _HEAD)


def tool_dict(tool: ToolEntry, profile: WireProfile) -> Mapping[str, object]:
    """Return a tool as it is declared."""
    schema = function_of(tool)
    if schema is None:
        return tool if isinstance(tool, Mapping) else {}
    names = {"name": wire_name(schema.name), "description": schema.description}
    if schema.custom_format is not None and profile.custom_tools:
        return {"type": "custom", **names, "format": grammar_of(schema.custom_format, is_nested=False)}
    return {"type": "function", **names, "parameters": parameters_of(schema, profile), "strict": False}


def message_items(
    message: Message, profile: WireProfile, custom_ids: Collection[str] = ()
) -> Iterator[Mapping[str, object]]:
    """Yield the message as this wire has it: none for one that says nothing, an item for each call and result."""
    if message.role == "assistant":
        yield from _assistant(message, profile)
    elif message.role == "tool":
        for result in message.tool_results:
            yield _result(result, profile, is_custom=result.call_id in custom_ids and profile.custom_tools)
    else:
        yield from _user(message, profile)


def _user(message: Message, profile: WireProfile) -> Iterator[Mapping[str, object]]:
    content = _content(message.content, message.images, profile)
    if content:
        yield {"type": "message", "role": "user", "content": content}


def _content(text: str, images: Sequence[Image], profile: WireProfile) -> list[object]:
    if images and not profile.images:
        text = "\n".join(filter(None, [text, *[NO_IMAGES] * len(images)]))
        images = ()
    content: list[object] = [{"type": "input_text", "text": text}] if text.strip() else []
    return [
        *content,
        *({"type": "input_image", "detail": "auto", "image_url": image.as_data_uri()} for image in images),
    ]


def _assistant(message: Message, profile: WireProfile) -> Iterator[Mapping[str, object]]:
    """Yield the items in their order; a thought goes only before something that it led to."""
    echoes = own_reasoning(message, profile) is not None
    thoughts: list[Mapping[str, object]] = []
    for part in message.parts:
        if isinstance(part, Reasoning):
            item = part.opaque.get("item") if part.opaque and echoes else None
            thoughts += [item] if isinstance(item, Mapping) else []
            continue
        spoken = _spoken(part, profile, is_own=message.origin == profile.origin)
        if spoken is not None:
            yield from thoughts
            yield spoken
            thoughts = []


def _spoken(part: object, profile: WireProfile, *, is_own: bool) -> Mapping[str, object] | None:
    if isinstance(part, Text) and part.text.strip():
        # A plain text is allowed by the reference and refused by servers that imitate it (llama.cpp).
        words = {"type": "output_text", "text": part.text, "annotations": ()}
        return {"type": "message", "role": "assistant", "content": [words]}
    if isinstance(part, ToolCall):
        return _call(part, profile)
    return part.payload if isinstance(part, Opaque) and part.wire == "responses" and is_own else None


def _call(call: ToolCall, profile: WireProfile) -> Mapping[str, object]:
    names = {"call_id": wire_id(call.id, profile.call_ids), "name": wire_name(call.name)}
    if call.custom and profile.custom_tools:
        return {"type": "custom_tool_call", **names, "input": call.raw}
    return {"type": "function_call", **names, "arguments": arguments_text(call)}


def _result(result: ToolResult, profile: WireProfile, *, is_custom: bool) -> Mapping[str, object]:
    text = result_text(result)
    output: object = _content(text, result.images, profile) if result.images else text
    kind = "custom_tool_call_output" if is_custom else "function_call_output"
    return {"type": kind, "call_id": wire_id(result.call_id, profile.call_ids), "output": output}


def _tool_choice(choice: str) -> object:
    return choice if choice in ("auto", "none", "required") else {"type": "function", "name": wire_name(choice)}
