"""Requests to Anthropic Messages endpoints.

Floor: 1. Owns: what a message, a tool and a parameter look like on this wire; never: what may be sent when.

Two cache markers stand in the head, after the tools and after the system prompt; two more move with the end of the
conversation (`Prefix.tail_marks`), so that a request never holds more than four.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from plait.core.messages import Image, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult
from plait.wire.encoding import (
    NO_IMAGES,
    NO_OUTPUT,
    ToolEntry,
    arguments_text,
    function_of,
    own_reasoning,
    parameters_of,
    tail_of,
    to_bytes,
    tool_names_of,
)
from plait.wire.names import Alphabet, wire_id, wire_name
from plait.wire.profile import Effort, Encoded, RequestParams, WireProfile
from plait.wire.schema import without_keywords

PATH: Final = "/messages"
COUNT_PATH: Final = "/messages/count_tokens"
HEAD_MARKS: Final = 2
"""Cache markers that the head holds at most."""
OUTPUT_TOKENS: Final = 8_192
"""This wire wants a limit of output tokens; this one is sent where none was set, in a small window not a quarter."""
_HEAD: Final = ("messages", "tools", "system", "model")
_CACHE: Final[Mapping[str, object]] = {"cache_control": {"type": "ephemeral"}}
_THINKING_TOKENS: Final[Mapping[Effort, int]] = {"low": 1_024, "medium": 4_096, "high": 8_192}
_THINKING_TOKENS_MIN: Final = 1_024


class AnthropicEncoder:
    """Encodes the messages of one conversation."""

    def __init__(self, profile: WireProfile) -> None:
        self._profile = profile

    def __call__(self, message: Message) -> Encoded:
        """Return the message as it is sent; empty bytes for one that says nothing."""
        return encode_message(message, self._profile)


def encode_message(message: Message, profile: WireProfile) -> Encoded:
    """Return the message as it is sent; a cache marker fits into its last block, unless that is a thought."""
    if message.role == "assistant":
        role, blocks = "assistant", list(_assistant(message, profile))
    elif message.role == "tool":
        role, blocks = "user", [_result(result, profile) for result in message.tool_results]
    else:
        role, blocks = "user", list(_content(message.content, message.images, profile))
    if not blocks:
        return Encoded(b"")
    data = b'{"role":"' + role.encode() + b'","content":[' + b",".join(blocks) + b"]}"
    takes_marker = not blocks[-1].startswith((b'{"type":"thinking"', b'{"type":"redacted'))
    return Encoded(data, len(data) - len(b"}]}") if takes_marker else None)


def head(model: str, tools: Sequence[ToolEntry], system: str, profile: WireProfile) -> bytes:
    """Return the request up to where its messages begin, with cache markers after the tools and the system prompt."""
    members: dict[str, object] = {"model": model}
    if tools:
        declared = [dict(tool_dict(tool, profile)) for tool in tools]
        # A tool that is not loaded yet is no part of what is cached.
        kept = [index for index, tool in enumerate(declared) if not tool.get("defer_loading")] or [len(declared) - 1]
        declared[kept[-1]] |= _CACHE
        members["tools"] = declared
    if system:
        members["system"] = [{"type": "text", "text": system, **_CACHE}]
    return to_bytes(members)[:-1] + b',"messages":['


def tail(params: RequestParams, profile: WireProfile, *, has_tools: bool = False) -> bytes:
    """Return the request after its messages: every parameter.

    A choice of `none` is not sent: it would throw the cache of the messages away. Ask in the text instead.

    Raises:
        ConfigError: an extra parameter would replace the model, the tools, the system prompt or the messages.
    """
    limit, window = params.max_output_tokens, params.context_window
    if limit is None:
        limit = OUTPUT_TOKENS if window is None else min(OUTPUT_TOKENS, window // 4 - window // 64)
    members: dict[str, object] = {"max_tokens": limit}
    thinking = _thinking(params.reasoning, limit, profile)
    if thinking is not None:
        members["thinking"] = thinking
    elif params.temperature is not None and profile.temperature:  # with thinking none but the usual one is taken
        members["temperature"] = params.temperature
    choice = _tool_choice(params, profile, thinks=thinking is not None or profile.thinking == "always")
    if choice and has_tools:
        members["tool_choice"] = choice
    if params.response_schema is not None:
        schema = without_keywords(params.response_schema, profile.schema_keywords_refused)
        members["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    if params.reasoning is not None and profile.thinking != "budget":
        config = members.get("output_config")
        members["output_config"] = {**(config if isinstance(config, dict) else {}), "effort": params.reasoning}
    if params.stream:
        members["stream"] = True
    return tail_of(members, params.extra, _HEAD)


def count_tail() -> bytes:
    """Return what follows the messages in a request that only counts tokens (`COUNT_PATH`)."""
    return b"]}"


def thinking_budget(effort: Effort | None, max_output_tokens: int) -> int | None:
    """Return how many tokens a model may think, None where there is no room for thinking and an answer."""
    room = max_output_tokens - _THINKING_TOKENS_MIN
    if effort is None or room < _THINKING_TOKENS_MIN:
        return None
    return min(_THINKING_TOKENS[effort], room)


def _thinking(effort: Effort | None, max_output_tokens: int, profile: WireProfile) -> Mapping[str, object] | None:
    if profile.thinking != "budget":
        return None if effort is None else {"type": "adaptive"}
    budget = thinking_budget(effort, max_output_tokens)
    return None if budget is None else {"type": "enabled", "budget_tokens": budget}


def tool_dict(tool: ToolEntry, profile: WireProfile) -> Mapping[str, object]:
    """Return a tool as it is declared."""
    schema = function_of(tool)
    if schema is None:
        return tool if isinstance(tool, Mapping) else {}
    declared: dict[str, object] = {
        "name": wire_name(schema.name),
        "description": schema.description,
        "input_schema": parameters_of(schema, profile),
    }
    if schema.deferred:
        declared["defer_loading"] = True
    return declared


def _content(text: str, images: Sequence[Image], profile: WireProfile) -> Iterator[bytes]:
    if images and not profile.images:
        text = "\n".join(filter(None, [text, *[NO_IMAGES] * len(images)]))
        images = ()
    if text.strip():
        yield to_bytes({"type": "text", "text": text})
    for image in images:
        yield to_bytes({"type": "image", "source": _source(image)})


def _source(image: Image) -> Mapping[str, object]:
    if image.kind == "url":
        return {"type": "url", "url": image.data}
    return {"type": "base64", "media_type": image.media_type, "data": image.data}


def _assistant(message: Message, profile: WireProfile) -> Iterator[bytes]:
    """Yield the blocks in their order; thoughts alone are nothing to send."""
    echoes = own_reasoning(message, profile) is not None
    is_own = message.origin == profile.origin
    if not any(_is_spoken(part, is_own=is_own) for part in message.parts):
        return
    for part in message.parts:
        if isinstance(part, Reasoning):
            block = _thought(part) if echoes else None
            if block is not None:
                yield to_bytes(block)
        elif isinstance(part, ToolCall):
            yield _call(part, profile)
        elif isinstance(part, Text) and part.text.strip():
            yield to_bytes({"type": "text", "text": part.text})
        elif isinstance(part, Opaque) and _is_spoken(part, is_own=is_own):
            yield to_bytes(part.payload)


def _is_spoken(part: Part, *, is_own: bool) -> bool:
    if isinstance(part, Text):
        return part.text.strip() != ""
    return isinstance(part, ToolCall) or (isinstance(part, Opaque) and part.wire == "anthropic" and is_own)


def _thought(part: Reasoning) -> Mapping[str, object] | None:
    """Return a thought as it came; one whose signature never came would be refused."""
    opaque = part.opaque or {}
    if opaque.get("data"):
        return {"type": "redacted_thinking", "data": opaque["data"]}
    if opaque.get("signature"):
        return {"type": "thinking", "thinking": part.text, "signature": opaque["signature"]}
    return None


def _call(call: ToolCall, profile: WireProfile) -> bytes:
    """Return a call with the provider's own text as its input: a number that is read and written is another number."""
    names = {"type": "tool_use", "id": wire_id(call.id, _ids(profile)), "name": wire_name(call.name)}
    return to_bytes(names)[:-1] + b',"input":' + arguments_text(call).encode("utf-8", "replace") + b"}"


def _result(result: ToolResult, profile: WireProfile) -> bytes:
    text = result.content if result.content.strip() else NO_OUTPUT
    names = {"type": "tool_result", "tool_use_id": wire_id(result.call_id, _ids(profile))}
    start = to_bytes(names)[:-1] + b',"content":'
    loaded = tool_names_of(result) if profile.tool_references else ()
    if loaded:
        content = to_bytes([{"type": "tool_reference", "tool_name": wire_name(name)} for name in loaded])
    elif result.images:
        content = b"[" + b",".join(_content(text, result.images, profile)) + b"]"
    else:
        content = to_bytes(text)
    return start + content + (b',"is_error":true}' if result.is_error else b"}")


def _ids(profile: WireProfile) -> Alphabet:
    """This wire takes ids of letters, digits and `_-` only, whoever made them."""
    return "word" if profile.call_ids == "any" else profile.call_ids


def _tool_choice(params: RequestParams, profile: WireProfile, *, thinks: bool) -> Mapping[str, object]:
    choice = params.tool_choice
    chosen: dict[str, object] = {}
    if choice == "required" and not thinks:
        chosen = {"type": "any"}
    elif choice not in (None, "auto", "none", "required") and not thinks:
        chosen = {"type": "tool", "name": wire_name(str(choice))}
    elif choice == "auto":
        chosen = {"type": "auto"}
    if profile.parallel_tool_calls is False:
        chosen = {"type": "auto", **chosen, "disable_parallel_tool_use": True}
    return chosen
