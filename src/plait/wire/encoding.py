"""What the encoders of all wires share.

Floor: 1. Owns: words that stand in for what a wire cannot carry, joining JSON; never: a wire's shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from plait.core.errors import ConfigError
from plait.core.exchange import ToolSchema
from plait.core.messages import Message, Reasoning, ToolCall, ToolResult
from plait.core.strict_json import dump
from plait.wire.profile import WireProfile

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


def arguments_text(call: ToolCall) -> str:
    """Return the arguments of a call as JSON text, also for a free-text tool."""
    return dump({"input": call.raw}) if call.custom else call.raw


def own_reasoning(message: Message, profile: WireProfile) -> Sequence[Reasoning] | None:
    """Return the thoughts to echo to this endpoint, None where it gets none: it wants none, or made none of it."""
    if profile.reasoning_echo == "never" or message.origin != profile.origin:
        return None
    return [part for part in message.parts if isinstance(part, Reasoning)]
