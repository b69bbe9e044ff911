"""The system prompt of a session.

Floor: 5. Owns: plait's own sentence and the order of the sections; never: anything that changes between two requests.

What every session of a spec says alike comes first, so that an endpoint's cache holds it for all of them; what belongs
to one folder comes after that. What belongs to one moment is in no prompt at all (`sensing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final

from plait.context.sections import Section, joined
from plait.context.senses import Senses, attribution, standing_sections
from plait.core.exchange import ToolSchema
from plait.core.values import dataclass
from plait.engine.agent_spec import specs_of
from plait.tools.spec import tool_from_entry
from plait.wire.inline_calls import inline_instructions

_BASE: Final = (
    "You are a careful coding agent. Use the tools to look before you change anything and to check what you did. "
    "When the task is done, or cannot be done, say so in plain text."
)


@dataclass(frozen=True, slots=True)
class Wording:
    """What a system prompt is made of, beside the tools."""

    supplement: str = ""
    """The caller's own words."""
    bare: bool = False
    """Nothing but these, and what a model without structured calls has to know of its tools."""
    profile: str = ""
    """The words of the profile that was chosen."""
    structured: bool = True
    """The endpoint takes tools as data."""
    model: str = ""
    """Named where work is signed; empty signs nothing."""
    senses: Senses = field(default_factory=Senses)
    instructions: tuple[Section, ...] = ()
    """What instructions files say."""


def sections_of(wording: Wording, tools: Iterable[ToolSchema]) -> tuple[Section, ...]:
    """Return the sections of a system prompt in their order; some say nothing."""
    is_bare = wording.bare
    return (
        Section("base", "stable", "" if is_bare else _BASE),
        Section("tools in words", "stable", "" if wording.structured else inline_instructions(tools)),
        *(() if is_bare else standing_sections(wording.senses)),
        Section("attribution", "stable", "" if is_bare or not wording.model else attribution(wording.model)),
        Section("profile", "stable", wording.profile.strip()),
        Section("supplement", "stable", wording.supplement.strip()),
        *(() if is_bare else wording.instructions),
    )


def compose(wording: Wording, tools: Iterable[ToolSchema]) -> str:
    """Return the system prompt."""
    return joined(sections_of(wording, tools))


def inline_system_prompt(schema: Mapping[str, Any]) -> str:
    """Return what a model without structured calls is told of the tools of an agent spec: one example of each."""
    return inline_instructions(tool_from_entry(entry, str, {}).schema for entry in specs_of(schema))


def told_anew(content: object, before: Iterable[ToolSchema], now: Iterable[ToolSchema]) -> str | None:
    """Return the prompt that tells a model in words of other tools than before; None for one of somebody else's."""
    told = inline_instructions(before)
    if not isinstance(content, str) or not told or told not in content:
        return None
    return content.replace(told, inline_instructions(now), 1)
