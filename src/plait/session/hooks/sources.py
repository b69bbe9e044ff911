"""Where a session's hooks stand: what the caller and the spec name, the user's own files, a trusted repository's.

Floor: 5. Owns: which of them count, and that the others are told of; never: reading one. Most sessions have none, and
load nothing else for it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plait.config.settings import settings_in, user_settings
from plait.core.errors import ConfigError
from plait.core.values import dataclass
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
    settings = settings_here(user_settings(os.environ))
    compat = (*check_compat(given.get("hooks_compat")), *settings.compat)
    if not _are_on(schema, given, settings):
        return Sources()
    named = [(given.get("hooks"), "hooks"), (_of_spec(schema), "behaviour.hooks"), *settings.sources]
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


@dataclass(frozen=True, slots=True)
class Settings:
    """The table `[hooks]` of a `plait.toml`."""

    is_on: bool = True
    compat: tuple[str, ...] = ()
    sources: Sequence[tuple[object, str]] = ()


def settings_here(path: Path) -> Settings:
    """Return what a `plait.toml` says of hooks: `enabled`, `compat`, `files`, and events as in `hooks.json`.

    Raises:
        ConfigError: the file cannot be read, or the table says what means nothing; names the place.
    """
    table = settings_in(path).get("hooks") if path.exists() else None
    if table is None:
        return Settings()
    if not isinstance(table, dict):
        raise ConfigError(f"'hooks' in {str(path)!r} is no table", hint="write [hooks] above it")
    is_on, compat, files = table.pop("enabled", True), table.pop("compat", ()), table.pop("files", [])
    if not isinstance(is_on, bool):
        raise ConfigError(f"'hooks.enabled' in {str(path)!r} is {is_on!r}", hint="it is true or false")
    if not isinstance(files, list) or not all(isinstance(file, str) for file in files):
        raise ConfigError(f"'hooks.files' in {str(path)!r} is {files!r}", hint="it is a list of files and folders")
    own = [os.path.join(path.parent, os.path.expanduser(file)) for file in files]
    return Settings(is_on, check_compat(compat), [(table, f"{path}: hooks"), (own, str(path))])


def _are_on(schema: Mapping[str, Any], given: Mapping[str, Any], settings: Settings) -> bool:
    for wish in (given.get("hooks_enabled"), schema.get("hooks_enabled")):
        if wish is not None:
            return bool(wish)
    return settings.is_on


def _of_spec(schema: Mapping[str, Any]) -> object:
    behaviour = schema.get("behaviour")
    return behaviour.get("hooks") if isinstance(behaviour, Mapping) else None
