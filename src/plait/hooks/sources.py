"""Hooks from wherever they stand: files, folders, dicts, lists, and what is left when one stands there twice.

Floor: 3. Owns: reading a source and joining them; never: which places are looked at (`places`).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import tomllib
from collections.abc import Iterable, Mapping
from json import JSONDecodeError
from pathlib import Path
from typing import Final

from plait.core.errors import ConfigError
from plait.core.strict_json import JsonInvalid, parse
from plait.hooks.entry import HookEntry
from plait.hooks.folders import discover_hook_dir
from plait.hooks.parsing import Parsing
from plait.hooks.places import Place

_BYTES_MAX: Final = 1 << 20
_SHELL_MARKS: Final = re.compile(r"[|&;<>()$`\\\"'*?\[#\n=%{}!]")


def read_source(source: object, base: str | os.PathLike[str], name: str = "") -> tuple[list[HookEntry], list[str]]:
    """Return the hooks of a source and what is doubtful about it.

    Args:
        source: a JSON or TOML file, a folder, a dict with or without its outer `hooks`, an entry, or a list of them.
        base: where relative paths start.
        name: what hooks of a dict say that they come from.

    Raises:
        ConfigError: it is none of these, or cannot be read; names the file and the place in it.
    """
    if isinstance(source, HookEntry):
        return [source], []
    if isinstance(source, Place):
        return read_place(source)
    if isinstance(source, (str, os.PathLike)):
        path = Path(os.path.expanduser(os.path.join(base, os.path.expanduser(os.fspath(source)))))
        if not os.path.lexists(path):
            return [], [f"{path}: it is not there, so it holds no hooks"]
        return read_place(Place(path))
    entries: list[HookEntry] = []
    warnings: list[str] = []
    if isinstance(source, Mapping):
        return Parsing(name, warnings).entries(source), warnings
    if not isinstance(source, (list, tuple)):
        raise ConfigError(
            f"hooks cannot be read from {source!r}", hint="give a file, a folder, a dict as in hooks.json, or a list"
        )
    for index, each in enumerate(source):
        found, doubts = read_source(each, base, f"{name}[{index}]" if name else "")
        entries += found
        warnings += doubts
    return entries, warnings


def read_place(place: Place) -> tuple[list[HookEntry], list[str]]:
    """Return the hooks of a file or a folder; see `read_source`."""
    path = place.path
    if path.is_dir():
        return discover_hook_dir(path)
    warnings: list[str] = []
    data = _data(path)
    return Parsing(str(path), warnings).entries(data, is_settings=place.is_settings), warnings


def dedupe_entries(entries: Iterable[HookEntry], cwd: str | os.PathLike[str] = ".") -> list[HookEntry]:
    """Return hooks without repeats: of commands for the same event and matcher that lead to one file, the first.

    Lines for the shell that are more than a program and its words, and functions, are never taken for the same.
    """
    seen: set[object] = set()
    kept: list[HookEntry] = []
    for entry in entries:
        program = _program(entry, cwd)
        key = None if program is None else (entry.event, entry.matcher, program)
        if key is None or key not in seen:
            seen.add(key)
            kept.append(entry)
    return kept


def _program(entry: HookEntry, cwd: str | os.PathLike[str]) -> tuple[str, ...] | None:
    """Return the file that a command leads to, and its arguments; None where that is not to be told."""
    if entry.command is None:
        return None
    if entry.args is not None:
        words = [entry.command, *entry.args]
    elif _SHELL_MARKS.search(entry.command):
        return None
    else:
        words = shlex.split(entry.command)
    found = shutil.which(words[0]) if "/" not in words[0] else None
    path = found or os.path.join(cwd, os.path.expanduser(words[0]))
    return (os.path.realpath(path), *words[1:])


def _data(path: Path) -> object:
    text = _bytes(path)
    if path.suffix == ".toml":
        try:
            return tomllib.loads(text.decode("utf-8-sig"))
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"the hooks in {str(path)!r} are no TOML: {error}", hint=_MEND) from error
    try:
        return parse(text)
    except JsonInvalid as error:
        cause = error.__cause__
        where = f":{cause.lineno}:{cause.colno}" if isinstance(cause, JSONDecodeError) else ""
        what = cause.msg if isinstance(cause, JSONDecodeError) else str(error)
        raise ConfigError(f"the hooks in {f'{path}{where}'!r} are no JSON: {what}", hint=_MEND) from error


_MEND: Final = "mend the file, or run without hooks (--no-hooks, hooks_enabled=False)"


def _bytes(path: Path) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise ConfigError(f"the hooks in {str(path)!r} are no file", hint="put a file or a folder there")
            text = file.read(_BYTES_MAX + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"the hooks in {str(path)!r} cannot be read: {reason}", hint=_MEND) from error
    if len(text) > _BYTES_MAX:
        raise ConfigError(f"the hooks in {str(path)!r} are more than {_BYTES_MAX:,} bytes", hint="shorten the file")
    return text
