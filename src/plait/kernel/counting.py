"""How many tokens messages have by an exact counter, where a program has one for its model.

Floor: 1. Owns: which texts are counted, and what a request has beside them; never: a tokenizer, a window.

A counter knows the tokens of a text, and not what a provider wraps around it: names of roles, the form in which tools
are declared. What is certain is therefore told apart from what is likely.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from plait.core.exchange import ToolSchema
from plait.core.messages import Image, Message, Reasoning, Text, ToolCall, ToolResult
from plait.kernel.gauge import IMAGE_TOKENS

TokenCounter = Callable[[str], int]
"""Returns the tokens of a text. Pure, quick, and never raises for any text."""

_MESSAGE_TOKENS: Final = 4
_CALL_TOKENS: Final = 8


class Counted(NamedTuple):
    """Tokens of a part of a request."""

    least: int
    """Of texts that every provider sends as they are."""
    likely: int
    """With what goes around them, pictures, and reasoning that may be sent back."""

    def __add__(self, other: object) -> Counted:
        if not isinstance(other, Counted):
            return NotImplemented
        return Counted(self.least + other.least, self.likely + other.likely)


NOTHING: Final = Counted(0, 0)


def count_messages(messages: Iterable[Message], count: TokenCounter) -> Counted:
    """Return the tokens of messages."""
    least = around = 0
    for message in messages:
        around += _MESSAGE_TOKENS
        for part in message.parts:
            if isinstance(part, ToolResult):
                least += count(part.content)
                around += _CALL_TOKENS + IMAGE_TOKENS * len(part.images)
            elif isinstance(part, ToolCall):
                least += count(part.raw)
                around += _CALL_TOKENS + count(part.name)
            elif isinstance(part, Text):
                least += count(part.text)
            elif isinstance(part, Reasoning):
                around += count(part.text)
            elif isinstance(part, Image):
                around += IMAGE_TOKENS
    return Counted(least, least + around)


def count_system(system: str, count: TokenCounter) -> Counted:
    """Return the tokens of a system prompt."""
    tokens = count(system) if system else 0
    return Counted(tokens, tokens + (_MESSAGE_TOKENS if system else 0))


def count_tools(tools: Iterable[ToolSchema], count: TokenCounter) -> Counted:
    """Return the tokens of the declarations of tools; providers write the parameters in ways of their own."""
    total = NOTHING
    for tool in tools:
        told = tool.parameters if tool.custom_format is None else tool.custom_format
        words = count(tool.description)
        total += Counted(words, words + _CALL_TOKENS + count(tool.name) + count(json.dumps(told, default=str)))
    return total
