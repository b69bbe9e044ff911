"""The configuration that holds in a folder: the user's file, a trusted repository's, the environment.

Floor: 4. Owns: which files are read, in which order, and that a repository's waits for trust; never: what a setting
does. Chosen profiles and options come above all of these, and are their command's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from plait.config.keys import TABLES
from plait.config.layers import Layer, Settings, layer_of_environment, layer_of_file, merged
from plait.config.places import project_root
from plait.config.settings import BYTES_MAX, CONFIG_FILE, read_settings, settings_of, user_settings
from plait.core.errors import ConfigError
from plait.core.values import dataclass

_ELSEWHERE: Final = frozenset(TABLES) - {"models"}
"""Tables that others read, each with a word of its own about trust."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file that may say something."""

    path: Path
    state: str
    """`read`, `missing`, or `untrusted`: it waits for its user's trust."""
    tables: tuple[str, ...] = ()
    """What it says besides settings: rules, a sandbox, hooks, servers."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """What holds, and what it was put together from."""

    found: Settings
    root: Path
    """The project's root."""
    sources: tuple[Source, ...] = ()

    def get(self, name: str) -> Any:
        """Return a setting's value, None where nobody says."""
        return self.found.get(name)

    @property
    def notice(self) -> str:
        """What is said of a file that is not used; empty for nothing."""
        paths = [str(source.path) for source in self.sources if source.state == "untrusted"]
        if not paths:
            return ""
        return f"the repository's own settings are not used, because it is not trusted (plait trust): {paths[0]}"


def configuration(
    cwd: str | os.PathLike[str],
    environ: Mapping[str, str],
    *,
    file: str | os.PathLike[str] | None = None,
    trust: bool | None = None,
) -> Configuration:
    """Return the configuration of a folder.

    Args:
        file: read in place of the user's and the project's.
        trust: whether the repository's file counts: True and False are the caller's word, None its user's.

    Raises:
        ConfigError: a file cannot be read, or says what means nothing; names file and line.
    """
    root = project_root(os.path.abspath(cwd))
    if file is not None:
        place = Path(os.path.abspath(os.path.expanduser(file)))
        data = _named(place)
        layers, sources = [_layer(place, data)], [Source(place, "read", _tables_of(data))]
    else:
        layers, sources = _usual(root, environ, trust)
    return Configuration(merged(*layers, layer_of_environment(environ)), root, tuple(sources))


def _usual(root: Path, environ: Mapping[str, str], trust: bool | None) -> tuple[list[Layer], list[Source]]:
    own, projects = user_settings(environ), root / CONFIG_FILE
    layers: list[Layer] = []
    sources: list[Source] = []
    if own.exists():
        data = read_settings(own)
        layers.append(_layer(own, data))
        sources.append(Source(own, "read", _tables_of(data)))
    else:
        sources.append(Source(own, "missing"))
    if projects == own:
        return layers, sources
    if not os.path.lexists(projects):
        return layers, [*sources, Source(projects, "missing")]
    theirs = _trusted(root, projects, trust)
    if theirs is not None:
        layers.append(_layer(projects, theirs))
        sources.append(Source(projects, "read", _tables_of(theirs)))
    elif trust is None and _says_something(projects):
        sources.append(Source(projects, "untrusted"))
    return layers, sources


def _trusted(root: Path, path: Path, trust: bool | None) -> bytes | None:
    """Return the content of a repository's file as it was trusted, None where it is not."""
    if trust is not None:
        return read_settings(path) if trust else None
    from plait.engine.trusting import trust_store  # most folders bring nothing along

    standing = trust_store().look(root)
    return standing.now.read(path) if standing.is_trusted else None


def _says_something(path: Path) -> bool:
    """Say whether an untrusted file has settings; that it is no TOML is not worth a word before it is trusted."""
    try:
        return not settings_of(read_settings(path), "").keys() <= _ELSEWHERE
    except (ConfigError, FileNotFoundError):
        return True


def _tables_of(data: bytes) -> tuple[str, ...]:
    """Return the names of the tables that others read, of a file that has been understood."""
    told = settings_of(data, "")
    return tuple(name for name in TABLES if name in _ELSEWHERE and isinstance(told.get(name), (dict, list)))


def _named(path: Path) -> bytes:
    """Return the content of a file that somebody named, which may be a pipe."""
    try:
        with open(path, "rb") as file:
            return file.read(BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {str(path)!r}: {error.strerror}", hint="mend or remove it") from error


def _layer(path: Path, data: bytes) -> Layer:
    return layer_of_file(data, str(path))
