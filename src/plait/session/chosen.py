"""Which tools of a session were taken away, and which were added, since it was opened.

Floor: 5. Owns: that memory; never: a change of it (`tool_choice`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final

from plait.core.facts import TOOLS_CHOSEN, Fact, Observation
from plait.core.values import dataclass
from plait.kernel.tools import Tool

ASKING: Final = frozenset({"t_ask_user", "t_ask_user_question", "t_clarify"})
"""Functions of tools that ask the user: not shown where nobody can be asked."""


@dataclass(frozen=True, slots=True)
class PutAway:
    """A tool that was taken away, with its other names behind it, and where it stood."""

    at: int
    tools: tuple[Tool, ...]


@dataclass
class Chosen:
    """Tools by their own names."""

    put_away: dict[str, PutAway] = field(default_factory=dict)
    added: set[str] = field(default_factory=set)

    def to_dict(self) -> dict[str, object]:
        """Return the names as plain JSON."""
        return {"removed": sorted(self.put_away), "added": sorted(self.added)}


def chosen_in(facts: Iterable[Fact]) -> Mapping[str, object] | None:
    """Return what was chosen last in a session, None where nothing ever was."""
    told = (fact.data for fact in facts if isinstance(fact, Observation) and fact.type == TOOLS_CHOSEN)
    last = None
    for each in told:
        last = each
    return last
