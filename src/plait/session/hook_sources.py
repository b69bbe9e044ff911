"""Where a session's hooks stand: what the caller and the spec name, the user's own files, a trusted repository's.

Floor: 5. Owns: which of them count, and that the others are told of; never: reading one. Most sessions have none, and
load nothing else for it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plait.engine.trusting import Vouched, vouched
from plait.hooks.places import Place, check_compat, project_places, there, user_places


@dataclass(frozen=True, slots=True)
class Sources:
    """What holds hooks."""

    named: Sequence[tuple[object, str]] = ()
    """What the caller and the spec name, each with who does."""
    places: Sequence[Place] = ()
    """Files and folders, the project's before the user's."""
    untrusted: Sequence[Place] = ()
    """Those of the repository that nobody vouches for."""
    trust: Vouched | None = None
    """How far those of the repository are trusted that are among the places."""

    def __bool__(self) -> bool:
        return bool(self.named or self.places)

    @property
    def notice(self) -> str:
        """What is said of those that are skipped; empty for nothing."""
        if not self.untrusted:
            return ""
        names = ", ".join(str(place.path) for place in self.untrusted)
        return f"the repository's own hooks are not run, because it is not trusted (plait trust): {names}"


def sources_of(schema: Mapping[str, Any], given: Mapping[str, Any], cwd: str) -> Sources:
    """Return what holds hooks for a session in `cwd`; none where they are switched off.

    Raises:
        ConfigError: `hooks_compat` names a program that is not known, or the list of trusted repositories is damaged.
    """
    compat = check_compat(given.get("hooks_compat"))
    if not _are_on(schema, given):
        return Sources()
    named = [(given.get("hooks"), "hooks"), (_of_spec(schema), "behaviour.hooks")]
    users, own = there(user_places(os.environ, compat)), there(project_places(cwd, compat))
    # In a home that is a repository, the user's files are the user's.
    own = [place for place in own if place not in users]
    trust = vouched(cwd, given.get("trust")) if own else None
    is_trusted = trust is not None and trust.is_trusted
    return Sources(
        [(source, name) for source, name in named if source],
        [*(own if is_trusted else ()), *users],
        () if is_trusted or trust is None or not trust.is_asked else own,
        trust if is_trusted else None,
    )


def _are_on(schema: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    wish = given.get("hooks_enabled")
    return bool(schema.get("hooks_enabled") is not False if wish is None else wish)


def _of_spec(schema: Mapping[str, Any]) -> object:
    behaviour = schema.get("behaviour")
    return behaviour.get("hooks") if isinstance(behaviour, Mapping) else None
