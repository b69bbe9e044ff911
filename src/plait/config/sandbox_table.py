"""The table `[sandbox]` of a `plait.toml`: what it may say, and what of a repository's own counts.

Floor: 2. Owns: its keys, their faults, and how two of them come together; never: a fence (`hands.fence`).

A repository that is not trusted may make its user's sandbox tighter and never wider: less network, less to write, more
that stays as it is, `on` in place of `auto`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final, Literal

from plait.config.keys import nearest
from plait.config.settings import settings_in
from plait.core.errors import ConfigError
from plait.core.values import dataclass

TABLE: Final = "sandbox"
Mode = Literal["auto", "on", "off"]
MODES: Final[tuple[Mode, ...]] = ("off", "auto", "on")
"""From the widest to the tightest."""
_OF_RUNTIME: Final = ("local", "docker")
"""As a text the key is another one, of programs that make a runtime of their settings."""
_TEXTS_MAX: Final = 500
_CHARS_MAX: Final = 60_000
"""More could not be told bubblewrap: a repository would be without a sandbox by saying too much of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxTable:
    """What one place says; None where it says nothing."""

    mode: Mode | None = None
    network: tuple[str, ...] | None = None
    """Hosts that can be reached."""
    writable: tuple[str, ...] | None = None
    """Paths of the workspace that can be changed."""
    read_only: tuple[str, ...] | None = None
    """Paths that stay as they are; those elsewhere become visible."""
    environment: Mapping[str, str] | None = None
    landlock_alone: bool | None = None

    def over(self, weaker: SandboxTable) -> SandboxTable:
        """Return both together; what this one says counts, key by key."""
        said = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(weaker, **{name: value for name, value in said.items() if value is not None})

    def tightened_by(self, other: SandboxTable) -> tuple[SandboxTable, tuple[str, ...]]:
        """Return this one as far as the other makes it tighter, and the keys of the other that are not used for that.

        Paths of both are absolute, or mean the same folder.
        """
        unused: list[str] = []
        mode, network, writable, kept = self.mode or "auto", self.network or (), self.writable, self.read_only or ()
        if other.mode is not None:
            unused += ["mode"] if MODES.index(other.mode) < MODES.index(mode) else []
            mode = max(mode, other.mode, key=MODES.index)
        if other.network is not None:
            unused += ["network"] if set(other.network) - set(network) else []
            network = tuple(host for host in network if host in other.network)
        if other.writable is not None:
            writable = _common((".",) if self.writable is None else self.writable, other.writable)
        if other.read_only is not None:
            inside = [path for path in other.read_only if not _leads_out(path)]
            unused += ["read_only"] if len(inside) < len(other.read_only) else []
            kept = tuple(dict.fromkeys((*kept, *inside)))
        unused += [name for name in ("environment", "landlock_alone") if getattr(other, name)]
        more = replace(self, mode=mode, network=network, writable=writable, read_only=kept)
        return more, tuple(unused)

    def seen_from(self, folder: str, workspace: str) -> SandboxTable:
        """Return a table whose paths were meant from `folder`, with paths as they are meant from a workspace in it.

        What is writable elsewhere alone leaves nothing to write here.
        """
        if os.path.realpath(folder) == os.path.realpath(workspace):
            return self

        def moved(path: str) -> str:
            text = os.path.expanduser(path)
            return text if os.path.isabs(text) else os.path.relpath(os.path.join(folder, text), workspace)

        return replace(
            self,
            writable=None if self.writable is None else tuple(_seen(map(moved, self.writable))),
            read_only=None if self.read_only is None else tuple(_seen(map(moved, self.read_only))),
        )


def table_in(path: Path) -> SandboxTable | None:
    """Return the table of a file, None where it has none.

    Raises:
        ConfigError: the file cannot be read, or the table says what means nothing; names the file and the line.
    """
    told = settings_in(path).get(TABLE) if os.path.lexists(path) else None
    if told is None or told in _OF_RUNTIME:
        return None
    if not isinstance(told, dict):
        raise ConfigError(f"{TABLE!r} in {str(path)!r} is no table", hint=f"write [{TABLE}] above it")
    for name in told:
        if name not in _READERS:
            raise ConfigError(
                f"{_place(path, name)}: [{TABLE}] knows no {name!r}",
                hint=nearest(str(name), _READERS, otherwise=f"it knows {', '.join(_READERS)}"),
            )
    read: dict[str, Any] = {}
    for name, value in told.items():
        try:
            read[name] = _READERS[name](value)
        except ValueError as error:
            raise ConfigError(f"{_place(path, name)}: {name!r} is {value!r:.200}", hint=str(error)) from None
    return SandboxTable(**read)


def _mode(value: object) -> Mode:
    for mode in MODES:
        if value == mode:
            return mode
    raise ValueError(nearest(str(value), MODES, otherwise="it is 'auto', 'on' or 'off'"))


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) and text for text in value):
        raise ValueError('it is a list of texts, such as ["one", "two"]')
    if any("\0" in text for text in value):
        raise ValueError("no path and no host has a zero byte in it")
    if len(value) > _TEXTS_MAX or sum(map(len, value)) > _CHARS_MAX:
        raise ValueError(f"it has more than {_TEXTS_MAX} texts or {_CHARS_MAX:,} characters; name folders above them")
    return tuple(value)


def _hosts(value: object) -> tuple[str, ...]:
    return () if value == "none" else _texts(value)


def _variables(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise ValueError('it is a table of texts, such as { CI = "1" }')
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("it is true or false")
    return value


_READERS: Final[Mapping[str, Callable[[object], object]]] = {
    "mode": _mode,
    "network": _hosts,
    "writable": _texts,
    "read_only": _texts,
    "environment": _variables,
    "landlock_alone": _flag,
}


def _place(path: Path, name: str) -> str:
    """Return `FILE:LINE` of a key."""
    from plait.config.layers import lines_of  # most tables are right

    return lines_of(path.read_bytes(), str(path)).at(TABLE, name)


def _common(ours: Iterable[str], theirs: Iterable[str]) -> tuple[str, ...]:
    """Return the paths that lie in one of both."""
    found = [
        one if _is_in(one, other) else other
        for one in map(os.path.normpath, ours)
        for other in map(os.path.normpath, theirs)
        if _is_in(one, other) or _is_in(other, one)
    ]
    return tuple(dict.fromkeys(found))


def _is_in(path: str, folder: str) -> bool:
    if folder == ".":
        return not _leads_out(path)
    return path == folder or path.startswith(f"{folder}/")


def _leads_out(path: str) -> bool:
    text = os.path.normpath(os.path.expanduser(path))
    return os.path.isabs(text) or text == ".." or text.startswith("../")


def _seen(paths: Iterable[str]) -> Iterator[str]:
    """Yield what of paths lies in the workspace: all of it for one above it, nothing for one beside it."""
    for path in map(os.path.normpath, paths):
        if os.path.isabs(path) or not _leads_out(path):
            yield path
        elif set(path.split("/")) == {".."}:
            yield "."
