"""Profiles: ways of working, chosen for a run or a session.

Floor: 4. Owns: what a profile holds; never: where files of them are found (`engine.profile_files`), or what a run
makes of one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from plait.core.values import dataclass

ReasoningEffort = Literal["low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class Profile:
    """A way of working, chosen for one run."""

    name: str = ""
    system_prompt: str | None = None
    """Stands before the agent's own system text."""
    tool_filter: Sequence[str] | None = None
    """Names of the tools that may be used, under any of their names; None for all, empty for none."""
    model_override: str | None = None
    rubric: str | None = None
    """What an evaluation of the run looks for; not used by the run itself."""
    reasoning: ReasoningEffort | None = None

    def to_dict(self) -> dict[str, object]:
        """Return what is recorded of it: what it permits holds for the session whenever it goes on."""
        known = {"name": self.name, "reasoning": self.reasoning, "system_prompt": self.system_prompt}
        told: dict[str, object] = {name: value for name, value in known.items() if value}
        return told if self.tool_filter is None else {**told, "tool_filter": list(self.tool_filter)}

    @classmethod
    def told(cls, recorded: object) -> Profile | None:
        """Return the profile that was recorded; None where there was none."""
        if not isinstance(recorded, Mapping):
            return None
        names, reasoning = recorded.get("tool_filter"), recorded.get("reasoning")
        return cls(
            str(recorded.get("name") or ""),
            recorded["system_prompt"] if isinstance(recorded.get("system_prompt"), str) else None,
            tuple(map(str, names)) if isinstance(names, list) else None,
            reasoning=reasoning if reasoning in get_args(ReasoningEffort) else None,
        )


def as_profile(wanted: Profile | str | None) -> Profile | None:
    """Return a profile as it is, or the one of a name; raise `ConfigError` where there is none."""
    if not isinstance(wanted, str):
        return wanted
    from plait.engine.profile_files import profile_of  # most runs have none

    return profile_of(wanted, os.getcwd())
