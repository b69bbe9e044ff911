"""What is told of hooks.

Floor: 1. Owns: the two events; never: when one happens.
"""

from __future__ import annotations

from plait.core.values import dataclass
from plait.events.named_event import NamedEvent


@dataclass(frozen=True, slots=True, eq=False)
class HookWarning(NamedEvent):
    """A hook has something to say to the user, or something is wrong with one."""

    type = "hook_warning"
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class HookStatus(NamedEvent):
    """A hook that is waited for begins."""

    type = "hook_status"
    text: str
    """What it says of itself (`statusMessage`); empty for most."""
    source: str
    """Where it comes from: a file with the place in it, or who registered it."""


HookEvent = HookWarning | HookStatus
