"""The system prompt of a session.

Floor: 5. Owns: plait's own sentence and the order of the parts; never: anything that changes between two requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from plait.core.exchange import ToolSchema
from plait.engine.spec import specs_of
from plait.tools.spec import tool_from_entry
from plait.wire.inline_calls import inline_instructions

_BASE: Final = (
    "You are a careful coding agent. Use the tools to look before you change anything and to check what you did. "
    "When the task is done, or cannot be done, say so in plain text."
)


def compose(supplement: str, tools: Iterable[ToolSchema], *, bare: bool, structured: bool) -> str:
    """Return the system prompt.

    Args:
        supplement: the caller's own words.
        tools: described in words where the model has no structured calls.
        bare: leave plait's own sentence out.
        structured: the endpoint takes tools as data.
    """
    parts = ["" if bare else _BASE, "" if structured else inline_instructions(tools), supplement.strip()]
    return "\n\n".join(part for part in parts if part)


def inline_system_prompt(schema: Mapping[str, Any]) -> str:
    """Return what a model without structured calls is told of the tools of an agent spec: one example of each."""
    return inline_instructions(tool_from_entry(entry, str, {}).schema for entry in specs_of(schema))


def told_anew(
    content: object, supplement: str, before: Iterable[ToolSchema], now: Iterable[ToolSchema], *, bare: bool
) -> str | None:
    """Return the prompt that tells a model in words of other tools than before; None for one of somebody else's."""
    if content != compose(supplement, before, bare=bare, structured=False):
        return None
    return compose(supplement, now, bare=bare, structured=False)
