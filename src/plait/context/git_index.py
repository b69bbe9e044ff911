"""git's index: which files are tracked, and which of them look otherwise now.

Floor: 3. Owns: reading the file, within bounds; never: the content of a tracked file beyond a hash of it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Final

from plait.context.git_folder import at_once
from plait.core.values import dataclass

ENTRIES_MAX: Final = 5_000
"""A larger index is counted and not read: what follows from it would take too long."""
_BYTES_MAX: Final = 8 << 20
_HASHED_BYTES_MAX: Final = 1 << 20
_FIXED: Final = 62
"""Bytes of an entry before its path, with a hash of 20."""
_LINK: Final = 0o120000
_FILE: Final = 0o100000
_ASSUMED: Final = 0x8000
_EXTENDED: Final = 0x4000
_SKIPPED: Final = 0x4000
_STAGE: Final = 0x3000


@dataclass(frozen=True, slots=True)
class Tracked:
    """A tracked file as the index knows it."""

    path: str
    mode: int
    mtime_ns: int
    size: int
    hash: bytes
    is_conflict: bool


@dataclass(frozen=True, slots=True)
class Index:
    """What is tracked."""

    count: int
    entries: tuple[Tracked, ...]
    """Empty where there are too many; without what is not looked at: submodules, files that are not checked out."""
    others: frozenset[str] = frozenset()
    """The names of these."""

    @property
    def is_large(self) -> bool:
        """True where it was counted and not read."""
        return self.count > ENTRIES_MAX


EMPTY: Final = Index(0, ())


def read_index(path: Path) -> Index | None:
    """Return what an index holds; None where it cannot be understood. A missing one is empty."""
    try:
        with open(path, "rb", opener=at_once) as file:
            status = os.fstat(file.fileno())
            head = file.read(12) if stat.S_ISREG(status.st_mode) else b""
            version, count = int.from_bytes(head[4:8], "big"), int.from_bytes(head[8:12], "big")
            if head[:4] != b"DIRC" or version not in (2, 3, 4):
                return None
            if count > ENTRIES_MAX or status.st_size > _BYTES_MAX:
                return Index(max(count, ENTRIES_MAX + 1), ())
            data = head + file.read(_BYTES_MAX)
    except FileNotFoundError:
        return EMPTY
    except OSError:
        return None
    try:
        return _parsed(data, version, count)
    except (IndexError, ValueError):
        return None


def _parsed(data: bytes, version: int, count: int) -> Index:
    found: list[Tracked] = []
    others: set[str] = set()
    at, before = 12, b""
    for _ in range(count):
        start = at
        numbers = [int.from_bytes(data[start + 4 * field : start + 4 * field + 4], "big") for field in range(10)]
        flags = int.from_bytes(data[start + 60 : start + 62], "big")
        at = start + _FIXED
        more = 0
        if version >= 3 and flags & _EXTENDED:
            more = int.from_bytes(data[at : at + 2], "big")
            at += 2
        if version == 4:
            cut, at = _varint(data, at)
            end = data.index(b"\0", at)
            name = before[: len(before) - cut] + data[at:end]
            at = end + 1
        else:
            end = data.index(b"\0", at)
            name = data[at:end]
            at = start + (end - start + 8) // 8 * 8
        before = name
        path = os.fsdecode(name)
        if not _is_inside(path):
            raise ValueError("git tracks no such path")
        is_plain = numbers[6] & 0o170000 in (_FILE, _LINK)
        if is_plain and not flags & _ASSUMED and not more & _SKIPPED:
            mtime_ns = numbers[2] * 1_000_000_000 + numbers[3]
            entry_hash = data[start + 40 : start + 60]
            found.append(Tracked(path, numbers[6], mtime_ns, numbers[9], entry_hash, bool(flags & _STAGE)))
        else:
            others.add(path)
    return Index(count, tuple(found), frozenset(others))


def _is_inside(path: str) -> bool:
    """Say whether git would ever track such a path; an index is a file that anybody may have written."""
    parts = path.removesuffix("/").split("/")  # a folder of a sparse index ends in one
    return bool(path) and not any(part in ("", ".", "..") or part.lower() == ".git" for part in parts)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, at + 1


def change_of(root: str, entry: Tracked) -> str:
    """Return `M`, `D` or `U` for a tracked file that is not as the index has it, empty for one that is."""
    if entry.is_conflict:
        return "U"
    path = os.path.join(root, entry.path)
    try:
        status = os.lstat(path)
    except OSError:
        return "D"
    is_link = stat.S_ISLNK(status.st_mode)
    if is_link != (entry.mode & 0o170000 == _LINK) or not (is_link or stat.S_ISREG(status.st_mode)):
        return "M"
    if status.st_size == entry.size and status.st_mtime_ns == entry.mtime_ns:
        return ""
    return "" if _hash(path, status, is_link=is_link) == entry.hash else "M"


def _hash(path: str, status: os.stat_result, *, is_link: bool) -> bytes | None:
    """Return the name that git gives to what a file holds; None for a large one."""
    if status.st_size > _HASHED_BYTES_MAX:
        return None
    try:
        if is_link:
            data = os.fsencode(os.readlink(path))
        else:
            with open(path, "rb", opener=at_once) as file:
                data = file.read(_HASHED_BYTES_MAX + 1)
    except OSError:
        return None
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).digest()
