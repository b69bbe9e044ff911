"""What a probe asks, and how an answer is read.

Floor: 2. Owns: the words, the one tool and the one schema of a probe; never: a request.

The questions are such that a right answer comes from the capability and not from the words: a call is ordered where
none is needed, and the schema allows one value that nothing in its question hints at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from plait.core.exchange import ToolSchema
from plait.core.messages import Message, ToolCall, ToolResult, assistant, user
from plait.kernel.ports import Options
from plait.models.probes.asking import OUTPUT_TOKENS, Question
from plait.wire.inline_calls import extract_inline_calls
from plait.wire.profile import WireName, WireProfile

THINKING_TOKENS: Final = 2_304
"""Limit of the answer about effort on the anthropic wire, which wants 1,024 tokens of room for thoughts alone."""
TOOL: Final = ToolSchema(
    "get_temperature",
    "Returns the temperature of a city now.",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
)
COLOUR: Final = "zorp-17"
"""The one answer that the schema allows, and that no model would think of."""
SCHEMA: Final[Mapping[str, object]] = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": [COLOUR]}},
    "required": ["colour"],
    "additionalProperties": False,
}

_CITIES: Final = "What is the temperature in Oslo and in Lima? Look both up at the same time."
_OPTIONS: Final = Options(max_output_tokens=OUTPUT_TOKENS)


def answer_question() -> Question:
    """Ask for anything at all."""
    return Question(messages=[user("Reply with the word ready.")], options=_OPTIONS)


def stream_question() -> Question:
    """Ask for an answer of more than one word."""
    return Question(messages=[user("Count from one to ten in words.")], options=_OPTIONS, streams=True)


def call_question(*, is_forced: bool) -> Question:
    """Ask for two calls at once; forced, at least one is ordered."""
    options = Options(max_output_tokens=OUTPUT_TOKENS, tool_choice="required" if is_forced else None)
    return Question(messages=[user(_CITIES)], tools=(TOOL,), options=options)


def results_question(asked: Message | None) -> Question:
    """Give results for the calls of an answer, or for a call that is put into the model's mouth."""
    called = asked or assistant(calls=[ToolCall.of("call_probe01", TOOL.name, {"city": "Oslo"})])
    results = tuple(ToolResult(call.id, "12 degrees") for call in called.tool_calls)
    return Question(messages=[user(_CITIES), called, Message("tool", results)], tools=(TOOL,), options=_OPTIONS)


def effort_question(wire: WireProfile) -> Question:
    """Ask for a little thinking."""
    limit = THINKING_TOKENS if wire.wire == "anthropic" else OUTPUT_TOKENS
    options = Options(max_output_tokens=limit, reasoning="low")
    return Question(messages=[user("Which is larger, 9.11 or 9.8? Answer with the number.")], options=options)


def grammar_question(wire: WireName) -> Question:
    """Ask for an answer that only the schema can dictate."""
    options = Options(max_output_tokens=OUTPUT_TOKENS, extra=_schema_members(wire))
    return Question(messages=[user("Name a colour, as a JSON object.")], options=options)


def follows_schema(text: str) -> bool:
    """Say whether an answer is what the schema dictates."""
    try:
        parsed: object = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return parsed == {"colour": COLOUR}


def writes_call_as_text(text: str) -> bool:
    """Say whether a text holds a call of the tool that was offered."""
    return any(call.name == TOOL.name for call in extract_inline_calls(text))


def _schema_members(wire: WireName) -> Mapping[str, object]:
    """Return the members of a request that ask for the schema."""
    if wire == "anthropic":
        return {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}
    named = {"name": "answer", "schema": SCHEMA, "strict": True}
    if wire == "responses":
        return {"text": {"format": {"type": "json_schema", **named}}}
    return {"response_format": {"type": "json_schema", "json_schema": named}}
