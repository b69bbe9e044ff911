"""Which files and folders may hold hooks.

Floor: 3. Owns: their names, plait's and other programs'; never: opening one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from plait.config.places import config_home, home, project_root
from plait.core.errors import ConfigError
from plait.core.values import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A file or a folder that may hold hooks."""

    path: Path
    is_settings: bool = False
    """Hooks are one of many things in it."""


_OTHERS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = MappingProxyType(
    {
        "claude": (
            (".claude/settings.local.json", ".claude/settings.json"),
            (".claude/settings.json",),
        ),
        "codex": ((".codex/hooks.json",), (".codex/hooks.json",)),
        "agentknit": ((".agentknit/hooks.json", ".agentknit/hooks"), (".agentknit/hooks.json", ".agentknit/hooks")),
    }
)
"""Another program's files: in the project, and in the user's home."""
_OWN: Final = ("hooks.json", "hooks")


def check_compat(names: object) -> tuple[str, ...]:
    """Return the programs whose hook files are read as well; raise `ConfigError` for one that is not known."""
    given = (names,) if isinstance(names, str) else names
    if given is None:
        return ()
    if not isinstance(given, Iterable):
        raise ConfigError(f"hooks_compat={names!r} names no programs", hint=_hint())
    chosen = tuple(given)
    for name in chosen:
        if name not in _OTHERS:
            raise ConfigError(f"hooks_compat names {name!r}, whose hook files are not known", hint=_hint())
    return chosen


def user_places(environ: Mapping[str, str], compat: Iterable[str] = ()) -> list[Place]:
    """Return what of the user's own holds hooks, in the order in which it counts."""
    own = config_home(environ)
    places = [Place(own / name) for name in _OWN]
    return [*places, *_others(home(environ), compat, is_users=True)]


def project_places(folder: str | os.PathLike[str], compat: Iterable[str] = ()) -> list[Place]:
    """Return what of the repository around a folder holds hooks, in the order in which it counts."""
    root = project_root(folder)
    places = [Place(root / ".plait" / name) for name in _OWN]
    return [*places, *_others(root, compat, is_users=False)]


def there(places: Iterable[Place]) -> list[Place]:
    """Return the places where something stands, whatever it is."""
    return [place for place in places if os.path.lexists(place.path)]


def _others(root: Path, compat: Iterable[str], *, is_users: bool) -> list[Place]:
    names = [(kind, name) for kind in compat for name in _OTHERS[kind][is_users]]
    return [Place(root / name, is_settings=kind == "claude") for kind, name in names]


def _hint() -> str:
    return f"it is a list of {', '.join(map(repr, _OTHERS))}"
