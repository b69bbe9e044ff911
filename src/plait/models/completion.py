"""Answers in the shape that programs written for OpenAI's client expect.

Floor: 2. Owns: the attribute names of a completion; never: how one is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from plait.core.exchange import Reply
from plait.core.messages import ToolCall
from plait.core.usage import Usage
from plait.core.values import dataclass


@dataclass(frozen=True, slots=True)
class Function:
    """What a call names, and its arguments as text."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class CompletionToolCall:
    """One call."""

    id: str
    function: Function
    type: str = "function"
    custom_input: str | None = None
    """Text of a free-text tool; `function.arguments` repeats it."""


@dataclass(frozen=True, slots=True)
class CompletionMessage:
    """What the model said."""

    content: str | None
    tool_calls: tuple[CompletionToolCall, ...] | None = None
    role: str = "assistant"
    reasoning: str | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the answers; there is only ever the first."""

    message: CompletionMessage
    finish_reason: str | None = None
    index: int = 0


@dataclass(frozen=True, slots=True)
class CompletionUsage:
    """Token counts; what was not reported is 0, and `has_cache_proof` says whether the cache numbers were."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int = 0
    cache_creation_tokens: int = 0
    has_cache_proof: bool = False


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole answer."""

    choices: tuple[Choice, ...]
    usage: CompletionUsage | None = None
    id: str | None = None
    model: str | None = None
    provider: str | None = None
    """The provider that a router chose, where it says so."""
    reasoning: str | None = None
    details: Mapping[str, object] = field(default_factory=dict)


def completion_of(reply: Reply) -> Completion:
    """Put a reply into this shape."""
    message, details = reply.message, reply.details or {}
    calls = tuple(_call(call) for call in message.tool_calls)
    reasoning = message.reasoning or None
    said = CompletionMessage(message.content or None, calls or None, reasoning=reasoning)
    return Completion(
        (Choice(said, reply.raw_stop),),
        _usage(reply.usage),
        _text(details.get("id")),
        _text(details.get("model")),
        _text(details.get("provider")),
        reasoning,
        details,
    )


def _call(call: ToolCall) -> CompletionToolCall:
    function = Function(call.name, call.raw)
    if call.custom:
        return CompletionToolCall(call.id, function, "custom", call.raw)
    return CompletionToolCall(call.id, function)


def _usage(usage: Usage) -> CompletionUsage | None:
    if usage == Usage.UNAVAILABLE:
        return None
    return CompletionUsage(
        usage.input_tokens,
        usage.output_tokens,
        usage.input_tokens + usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.cache_read is not None or usage.cache_write is not None,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
