"""What the encoders of all wires share.

Floor: 1. Owns: words that stand in for what a wire cannot carry, joining JSON; never: a wire's shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from plait.core.errors import ConfigError
from plait.core.exchange import TOOLS_LOADED, ToolSchema
from plait.core.messages import Message, Reasoning, ToolCall, ToolResult
from plait.core.strict_json import dump
from plait.wire.profile import WireProfile
from plait.wire.schema import is_strict, without_keywords

NO_OUTPUT: Final = "(no output)"
NO_IMAGES: Final = "[an image was left out: this model takes none]"
TOOL_IMAGES: Final = "[images that the tools above returned]"
ERROR_PREFIX: Final = "ERROR: "
TEXT_INPUT: Final[Mapping[str, object]] = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}
"""Parameters of a free-text tool at an endpoint that takes no such tools."""

ToolEntry = ToolSchema | Mapping[str, object]
"""A tool, or its entry in the endpoint's own form, sent as it is."""


def function_of(tool: ToolEntry) -> ToolSchema | None:
    """Return a tool in plait's shape, also one that is written as chat completions have it; None for any other."""
    if isinstance(tool, ToolSchema):
        return tool
    body = tool.get("function", tool.get("custom", tool))
    if not isinstance(body, Mapping) or tool.get("type") not in ("function", "custom"):
        return None
    parameters, grammar = body.get("parameters"), body.get("format", {})
    return ToolSchema(
        name=str(body.get("name", "")),
        description=str(body.get("description", "")),
        parameters=parameters if isinstance(parameters, Mapping) else {"type": "object", "properties": {}},
        custom_format=grammar if tool["type"] == "custom" and isinstance(grammar, Mapping) else None,
        deferred=bool(body.get("defer_loading")),
    )


def parameters_of(tool: ToolSchema, profile: WireProfile) -> Mapping[str, object]:
    """Return the schema of a tool's arguments as this endpoint takes it."""
    schema = TEXT_INPUT if tool.custom_format is not None else tool.parameters
    return without_keywords(schema, profile.schema_keywords_refused)


def answer_format(schema: Mapping[str, object], profile: WireProfile) -> Mapping[str, object]:
    """Return the schema of answers under its name; strict where every model of the field could be held to it."""
    sent = without_keywords(schema, profile.schema_keywords_refused)
    return {"name": "answer", "schema": sent, "strict": is_strict(sent)}


def grammar_of(custom_format: Mapping[str, object], *, is_nested: bool) -> Mapping[str, object]:
    """Return the format of a free-text tool with its grammar inside an object of its own, or beside its type."""
    inner = custom_format.get("grammar")
    if is_nested and custom_format.get("type") == "grammar" and inner is None:
        rest = {key: value for key, value in custom_format.items() if key != "type"}
        return {"type": "grammar", "grammar": rest}
    if not is_nested and isinstance(inner, Mapping):
        return {"type": "grammar", **inner}
    return custom_format


def to_bytes(value: object) -> bytes:
    """Return compact JSON in UTF-8; the same value always gives the same bytes."""
    return dump(value).encode()


def join(items: Iterable[object]) -> bytes:
    """Return array elements, joined by commas."""
    return b",".join(map(to_bytes, items))


def tail_of(members: Mapping[str, object], extra: Mapping[str, object], head: Sequence[str]) -> bytes:
    """Close the array of messages and add every other member of the request.

    Raises:
        ConfigError: `extra` sets a member that belongs to the head.
    """
    for name in head:
        if name in extra:
            raise ConfigError(
                f"the body parameter {name!r} cannot be set: it is made from the conversation",
                hint="remove it from the parameters of this endpoint or model",
            )
    members = {**members, **extra}
    return b"]," + to_bytes(members)[1:] if members else b"]}"


def result_text(result: ToolResult) -> str:
    """Return the words of a result for a wire that has no field for failure."""
    text = result.content if result.content.strip() else NO_OUTPUT
    return ERROR_PREFIX + text if result.is_error and not text.lower().startswith("error") else text


def tool_names_of(result: ToolResult) -> tuple[str, ...]:
    """Return the names of the tools that a result has loaded."""
    told = (result.data or {}).get(TOOLS_LOADED) if result.status == "ok" else None
    names = told.get("names") if isinstance(told, Mapping) else None
    return tuple(map(str, names)) if isinstance(names, (list, tuple)) else ()


INVALID: Final = "invalid_arguments"
"""What stands in the arguments of a call for a text that is no JSON object."""


def arguments_text(call: ToolCall) -> str:
    """Return the arguments of a call as JSON text, also for a free-text tool, and for what a model wrote amiss.

    Endpoints that read the arguments of earlier calls refuse a whole conversation for one that was cut off.
    """
    if call.custom:
        return dump({"input": call.raw})
    return call.raw if call.is_valid else dump({INVALID: call.raw})


def own_reasoning(message: Message, profile: WireProfile) -> Sequence[Reasoning] | None:
    """Return the thoughts to echo to this endpoint, None where it gets none: it wants none, or made none of it."""
    if profile.reasoning_echo == "never" or message.origin != profile.origin:
        return None
    return [part for part in message.parts if isinstance(part, Reasoning)]
