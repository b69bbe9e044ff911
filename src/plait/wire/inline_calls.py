"""Tool calls that a model writes as JSON into its text.

Floor: 1. Owns: finding them, and how they and their results look in a conversation; never: running them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from plait.core.exchange import ToolSchema
from plait.core.messages import ToolCall, ToolResult
from plait.core.strict_json import JsonInvalid, dump
from plait.wire.encoding import result_text

_DECODER = json.JSONDecoder(strict=False)


def extract_inline_calls(text: str) -> list[ToolCall]:
    """Return the calls in a text, in order, without ids.

    A call is a JSON object with a `name` or `function_name` and an object of `arguments` or `parameters`, which may
    be written as text (none is an empty one); it may stand anywhere, also in a list or a fence. An object inside
    another is not a call.
    """
    calls: list[ToolCall] = []
    at = text.find("{")
    while at >= 0:
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            call = _call_of(value)
            if call is not None:
                calls.append(call)
        at = text.find("{", end)
    return calls


def _call_of(value: object) -> ToolCall | None:
    if not isinstance(value, Mapping):
        return None
    name = value.get("name") or value.get("function_name")
    arguments = value.get("arguments", value.get("parameters", {}))
    if isinstance(arguments, str):
        arguments = _object_in(arguments)
    if not isinstance(name, str) or not isinstance(arguments, Mapping):
        return None
    try:
        return ToolCall("", name, dump(arguments))
    except JsonInvalid:
        return ToolCall("", name, json.dumps(arguments))


def _object_in(text: str) -> object:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def inline_instructions(tools: Iterable[ToolSchema]) -> str:
    """Return what a model without structured calls is told about its tools: one example of each."""
    lines = ["To use a tool, write one JSON object a call, and nothing else on its line:"]
    for tool in tools:
        properties = tool.parameters.get("properties")
        names = list(properties) if isinstance(properties, Mapping) else []
        arguments = {"input": "<text>"} if tool.custom_format is not None else {name: f"<{name}>" for name in names}
        lines.append(f"{dump({'name': tool.name, 'arguments': arguments})}  {tool.description}".rstrip())
    lines.append("Answer in plain text, without such an object, when you are done.")
    return "\n".join(lines)


def inline_call_text(call: ToolCall, text: str) -> str:
    """Return a call as a model would have written it, nothing where the text holds it already."""
    written = [(item.name, item.raw) for item in extract_inline_calls(text)]
    try:
        arguments = call.arguments
    except JsonInvalid:
        return dump({"name": call.name, "arguments": {"invalid": call.raw}})
    if (call.name, dump(arguments)) in written:
        return ""
    return dump({"name": call.name, "arguments": arguments})


def inline_results_text(results: Iterable[ToolResult], names: Mapping[str, str]) -> str:
    """Return the results of a step as one text, each under the name of its tool."""
    blocks = [f"[{names.get(result.call_id, result.call_id)}] {result_text(result)}" for result in results]
    return "\n".join(["Tool results:", *blocks])
