"""`.gitignore` files, by git's own rules: which entries of a directory a search passes over.

Floor: 2. Owns: the meaning of their lines; never: reading them, or git's other sources (`info/exclude`, the user's
own file), which differ from machine to machine.
Source: gitignore(5), checked against `git check-ignore` in the tests.
"""

from __future__ import annotations

import re
from typing import Final

from plait.core.values import dataclass
from plait.hands.searching.globs import split_names, translate_name

_LINES_MAX: Final = 5_000
_LINE_CHARS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Group:
    """Neighbouring lines that all ignore or all re-include, as one pattern for names and one for paths."""

    ignores: bool
    names: re.Pattern[str] | None
    paths: re.Pattern[str] | None

    def fits(self, name: str, path: str) -> bool:
        return (self.names is not None and self.names.fullmatch(name) is not None) or (
            self.paths is not None and self.paths.fullmatch(path) is not None
        )


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The rules of one `.gitignore`, for entries at any depth below its directory."""

    groups: tuple[_Group, ...]
    """The last line first: the first that fits decides."""

    def verdict(self, path: str, *, is_directory: bool) -> bool | None:
        """True: ignored, False: included again, None: nothing is said about it. `path` is relative to the file."""
        full = f"{path}/" if is_directory else path
        name = full[full.rfind("/", 0, len(full) - 1) + 1 :]
        return next((group.ignores for group in self.groups if group.fits(name, full)), None)


def parse_ignore(text: str) -> IgnoreFile:
    """Read the text of a `.gitignore`; a line that git would not understand matches nothing."""
    groups: list[_Group] = []
    names: list[str] = []
    paths: list[str] = []
    current: bool | None = None
    for line in reversed(text.removeprefix("\ufeff").split("\n")[:_LINES_MAX]):
        rule = _parse_line(line.removesuffix("\r"))
        if rule is None:
            continue
        ignores, is_name, pattern = rule
        if current is not None and ignores != current:
            groups.append(_group(current, names, paths))
            names, paths = [], []
        current = ignores
        (names if is_name else paths).append(pattern)
    if current is not None:
        groups.append(_group(current, names, paths))
    return IgnoreFile(tuple(groups))


def _group(ignores: bool, names: list[str], paths: list[str]) -> _Group:
    return _Group(ignores, _any_of(names), _any_of(paths))


def _any_of(patterns: list[str]) -> re.Pattern[str] | None:
    return re.compile(f"(?s:{'|'.join(patterns)})") if patterns else None


def _parse_line(line: str) -> tuple[bool, bool, str] | None:
    """Return (ignores, is about a name at any depth, pattern), or None for a line without a rule.

    The pattern is for a name or path that ends in `/` when it is a directory.
    """
    line = _without_trailing_blanks(line)
    if not line or line.startswith("#") or len(line) > _LINE_CHARS_MAX:
        return None
    ignores = not line.startswith("!")
    line = line if ignores else line[1:]
    only_directories = line.endswith("/")
    line = line.removesuffix("/")
    if not line or _ends_in_escape(line):
        return None
    end = "/" if only_directories else "/?"
    if "/" not in line:
        return ignores, True, translate_name(line, escapes=True) + end
    return ignores, False, _translate_path(line.removeprefix("/")) + end


def _translate_path(line: str) -> str:
    names = split_names(line)
    pieces: list[str] = []
    for at, name in enumerate(names):
        is_last = at == len(names) - 1
        if name == "**" and not is_last:
            if not pieces or pieces[-1] != "(?:[^/]+/)*":
                pieces.append("(?:[^/]+/)*")
        elif name == "**":
            pieces.append("[^/]+(?:/[^/]+)*")
        else:
            pieces.append(f"(?=[^/]){translate_name(name, escapes=True)}{'' if is_last else '/'}")
    return "".join(pieces)


def _without_trailing_blanks(line: str) -> str:
    while line.endswith(" ") and not _ends_in_escape(line[:-1]):
        line = line[:-1]
    return line


def _ends_in_escape(line: str) -> bool:
    """Say whether the last character is a backslash that escapes what would follow."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1
