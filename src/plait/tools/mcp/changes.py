"""How the tools that a model is shown of a server differ from those of an earlier turn, by their digests.

Floor: 3. Owns: that comparison and its words; never: what may change (`agreed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plait.core.values import dataclass
from plait.tools.mcp.shown import clean

_NAMES_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class Change:
    """How a server's tools differ from those of an earlier time."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """The same name with other words or another schema."""

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    @property
    def words(self) -> str:
        """The change as a part of a sentence."""
        parts = [
            f"{what} {_listed(names)}"
            for what, names in (("new:", self.added), ("gone:", self.removed), ("changed:", self.changed))
            if names
        ]
        return "; ".join(parts)


def change_between(before: Mapping[str, str], now: Mapping[str, str]) -> Change:
    """Return how two lists differ; both are digests by name."""
    return Change(
        tuple(sorted(now.keys() - before.keys())),
        tuple(sorted(before.keys() - now.keys())),
        tuple(sorted(name for name in now.keys() & before.keys() if now[name] != before[name])),
    )


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(clean(name, 100) for name in names[:_NAMES_MAX])
    return f"{shown} and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else shown
