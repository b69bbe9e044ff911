"""The descent through a directory tree, only through directories that were opened, in one fixed order.

Floor: 2. Owns: order, limits, what is passed over; never: what is looked for, the content of a file.

Entries come sorted by name, directories and files together, each directory directly followed by what is in it.
Links are seen but never followed. Passed over: noise directories (`NOISE`), what `.gitignore` files say, what the
host's `admit` refuses, secret places. A directory that was asked for by its own name is never noise.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Final, Literal

from plait.core.cancel import Cancel
from plait.core.values import dataclass
from plait.hands import beneath
from plait.hands.searching.ignore import IgnoreFile, parse_ignore
from plait.hands.workspace import OpenDirectory

NOISE: Final = frozenset(
    ".git .hg .svn .venv __pycache__ node_modules .plait .pytest_cache .mypy_cache .ruff_cache .tox .nox".split()
)
_IGNORE_BYTES_MAX: Final = 1 << 20
_LEVELS_MAX: Final = 200
_CHECKED_EVERY: Final = 64
_SORTED_AT_ONCE: Final = 4_096

Kind = Literal["file", "directory", "link", "other"]
Stopped = Literal["", "entries", "deadline", "cancelled"]
"""What ended a descent early, if anything did."""
Ignores = tuple[tuple[int, IgnoreFile], ...]
"""Ignore files that hold in a directory, the nearest first, each with the length of its own path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkRules:
    """What a descent passes over and when it stops."""

    admit: Callable[[str, bool], bool] | None = None
    """Asked with the path below the base and whether it is a directory, before that is opened or reported."""
    respects_ignore_files: bool = True
    noise: frozenset[str] = NOISE
    forbidden: frozenset[tuple[int, int]] = frozenset()
    """Device and inode of what may not be entered or read."""
    entries_max: int = 200_000
    deadline_s: float | None = 30.0
    cancel: Cancel | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """One entry; `directory_fd` is the opened directory that holds it, valid until the next entry is asked for."""

    path: str
    """Relative to where the descent began."""
    name: str
    kind: Kind
    directory_fd: int


@dataclass(slots=True)
class _Level:
    fd: int
    prefix: str
    entries: Iterator[tuple[str, Kind, int]]
    ignores: Ignores


@dataclass(slots=True)
class Walk:
    """One descent below an opened directory: iterate once, then read the counts."""

    base: OpenDirectory
    rules: WalkRules = field(default_factory=WalkRules)
    ignores: Ignores = ()
    """From the directories above the base; their path lengths count from the workspace, see `lead`."""
    lead: str = ""
    """The path of the base below the directory whose ignore files hold for it; empty or ending in `/`."""
    skipped_directories: int = 0
    ignored: int = 0
    stopped: Stopped = ""
    _seen: int = 0
    _started_at: float = field(default_factory=time.monotonic)
    _forbidden_inodes: frozenset[int] = frozenset()

    def __iter__(self) -> Iterator[Found]:
        levels: list[_Level] = []
        self._forbidden_inodes = frozenset(inode for _, inode in self.rules.forbidden)
        try:
            self._enter(levels, os.open(".", os.O_RDONLY | beneath.DIRECTORY, dir_fd=self.base.fd), "", self.ignores)
            while levels and not self.stopped:
                entry = next(levels[-1].entries, None)
                if entry is None:
                    os.close(levels.pop().fd)
                else:
                    yield from self._visit(levels, entry)
        finally:
            for level in levels:
                os.close(level.fd)

    def _visit(self, levels: list[_Level], entry: tuple[str, Kind, int]) -> Iterator[Found]:
        name, kind, inode = entry
        level = levels[-1]
        path = level.prefix + name
        self._check_limits()
        if self.stopped or self._is_passed_over(level, path, name, kind):
            return
        if inode in self._forbidden_inodes and self._is_forbidden(level.fd, name):
            return
        yield Found(path, name, kind, level.fd)
        if kind == "directory":
            self._descend(levels, level, name, path)

    def _check_limits(self) -> None:
        self._seen += 1
        if self._seen > self.rules.entries_max:
            self.stopped = "entries"
        elif self._seen % _CHECKED_EVERY == 0:
            if self.rules.cancel is not None and self.rules.cancel.reason is not None:
                self.stopped = "cancelled"
            elif self.rules.deadline_s is not None and time.monotonic() - self._started_at > self.rules.deadline_s:
                self.stopped = "deadline"

    def _is_passed_over(self, level: _Level, path: str, name: str, kind: Kind) -> bool:
        is_directory = kind == "directory"
        if is_directory and name in self.rules.noise:
            self.skipped_directories += 1
            return True
        if is_ignored(level.ignores, self.lead + path, is_directory=is_directory):
            self.ignored += 1
            return True
        return self.rules.admit is not None and not self.rules.admit(path, is_directory)

    def _is_forbidden(self, directory_fd: int, name: str) -> bool:
        try:
            status = os.stat(name, dir_fd=directory_fd, follow_symlinks=False)
        except OSError:
            return True
        return (status.st_dev, status.st_ino) in self.rules.forbidden

    def _descend(self, levels: list[_Level], level: _Level, name: str, path: str) -> None:
        if len(levels) >= _LEVELS_MAX:
            self.skipped_directories += 1
            return
        try:
            fd = os.open(name, os.O_RDONLY | beneath.DIRECTORY | beneath.NO_LINK, dir_fd=level.fd)
        except OSError:  # gone, replaced by a link, or not ours to read
            self.skipped_directories += 1
            return
        self._enter(levels, fd, f"{path}/", level.ignores)

    def _enter(self, levels: list[_Level], fd: int, prefix: str, ignores: Ignores) -> None:
        try:
            # Nothing behind the last entry that may be seen is kept: a directory of a million names costs no more.
            entries, left_out = sorted_entries(fd, max(1, self.rules.entries_max - self._seen + 1))
        except OSError:
            os.close(fd)
            self.skipped_directories += 1
            return
        except BaseException:
            os.close(fd)
            raise
        may_ignore = left_out > 0 or any(name == ".gitignore" for name, _, _ in entries)
        if self.rules.respects_ignore_files and may_ignore:
            ignores = (*read_ignore(fd, len(self.lead + prefix)), *ignores)
        levels.append(_Level(fd, prefix, iter(entries), ignores))


def is_ignored(ignores: Ignores, path: str, *, is_directory: bool) -> bool:
    """Say what the nearest ignore file that knows `path` says; the path counts from where their lengths do."""
    for length, file in ignores:
        verdict = file.verdict(path[length:], is_directory=is_directory)
        if verdict is not None:
            return verdict
    return False


def sorted_entries(
    fd: int,
    entries_max: int,
    *,
    admit: Callable[[str, bool], bool] | None = None,
    directories_first: bool = False,
) -> tuple[list[tuple[str, Kind, int]], int]:
    """List an opened directory: name, kind and inode of its first entries by name, and how many there are besides.

    Memory grows with `entries_max`, not with the directory. `admit` is asked with the name and whether it is a
    directory; what it refuses is not there.
    """

    order = _directories_first if directories_first else None
    room = entries_max + max(entries_max // 8, _SORTED_AT_ONCE)
    first: list[tuple[str, Kind, int]] = []
    total = 0
    with os.scandir(fd) as found:
        for entry in found:
            kind = _kind(entry)
            if admit is not None and not admit(entry.name, kind == "directory"):
                continue
            total += 1
            first.append((entry.name, kind, entry.inode()))
            if len(first) >= room:
                first.sort(key=order)
                del first[entries_max:]
    first.sort(key=order)
    del first[entries_max:]
    return first, total - len(first)


def read_ignore(directory_fd: int, length: int) -> Ignores:
    """Read the `.gitignore` of an opened directory whose path is `length` characters long; () when there is none."""
    try:
        fd = os.open(".gitignore", os.O_RDONLY | beneath.NO_LINK | os.O_NONBLOCK, dir_fd=directory_fd)
    except OSError:
        return ()
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _IGNORE_BYTES_MAX:
            return ()
        text = os.read(fd, _IGNORE_BYTES_MAX).decode("utf-8", "surrogateescape")
    finally:
        os.close(fd)
    return ((length, parse_ignore(text)),)


def _directories_first(entry: tuple[str, Kind, int]) -> tuple[bool, str]:
    return entry[1] != "directory", entry[0]


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    return "file" if entry.is_file(follow_symlinks=False) else "other"
