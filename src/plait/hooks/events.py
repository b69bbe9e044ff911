"""The moments at which hooks are asked, and what a hook can say at each.

Floor: 3. Owns: the events and their traits; never: a hook, or when an event happens.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from plait.core.values import dataclass

DEFAULT_TIMEOUT_S: Final = 60.0
TIMEOUT_MAX_S: Final = 3_600.0
"""What a timeout of 0 comes to as well: nothing waits for ever."""
_LAST_WORDS_S: Final = 1.0
_LAST_WORDS_MAX_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Trait:
    """What hooks of one event can do."""

    can_block: bool = False
    """Exit code 2, and `decision: block`, say no."""
    takes_context: bool = False
    """`additionalContext` reaches the model."""
    text_is: str = "ignored"
    """What plain text on stdout means: `context`, `error` or `ignored`."""
    has_matcher: bool = True
    timeout_s: float = DEFAULT_TIMEOUT_S
    timeout_max_s: float = TIMEOUT_MAX_S


_AT_AN_END: Final = Trait(timeout_s=_LAST_WORDS_S, timeout_max_s=_LAST_WORDS_MAX_S)
EVENTS: Final[Mapping[str, Trait]] = MappingProxyType(
    {
        "SessionStart": Trait(takes_context=True, text_is="context"),
        "SessionEnd": _AT_AN_END,
        "UserPromptSubmit": Trait(can_block=True, takes_context=True, text_is="context", has_matcher=False),
        "PreToolUse": Trait(can_block=True, takes_context=True),
        "PermissionRequest": Trait(can_block=True),
        "PostToolUse": Trait(can_block=True, takes_context=True),
        "Notification": Trait(),
        "Stop": Trait(can_block=True, takes_context=True, text_is="error", has_matcher=False),
        "SubagentStart": Trait(takes_context=True, text_is="context"),
        "SubagentStop": Trait(can_block=True, takes_context=True, text_is="error"),
        "PreCompact": Trait(can_block=True, takes_context=True),
        "PostCompact": Trait(takes_context=True),
        "Interrupt": replace(_AT_AN_END, has_matcher=False),
    }
)
"""Every event that a hook can be for."""

_BY_LETTERS: Final = MappingProxyType({name.lower(): name for name in EVENTS})
_OTHER: Final = re.compile(r"[^a-z0-9]+")


def event_named(stem: str) -> str | None:
    """Return the event that a file's name means: `stop`, `Pre-Tool-Use`, or any name that ends like one."""
    letters = _OTHER.sub("", stem.lower())
    if letters in _BY_LETTERS:
        return _BY_LETTERS[letters]
    ends = [name for name in _BY_LETTERS if letters.endswith(name)]
    return _BY_LETTERS[max(ends, key=len)] if ends else None
