"""What of a repository would run code, or say where keys and requests go: the parts that wait for trust.

Floor: 2. Owns: which files those are, and what they hold, byte for byte; never: whether they are trusted (`trust`).

Nothing here follows a link, starts a program or reads git's own configuration: looking at a hostile clone does nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Final

from plait.core.errors import TrustRequired
from plait.core.values import dataclass

FILES: Final = (
    ".mcp.json",
    "plait.toml",
    ".plait/hooks.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".codex/hooks.json",
    ".codex/config.toml",
    ".agentknit/hooks.json",
)
FOLDERS: Final = (
    ".plait/hooks",
    ".plait/plugins",
    ".plait/skills",
    ".plait/loops",
    ".plait/profiles",
    ".claude/skills",
    ".agents/skills",
    ".agentknit/hooks",
)
PARTS_MAX: Final = 2_000
PART_BYTES_MAX: Final = 4_000_000
TEXT_BYTES_MAX: Final = 64_000
"""Of a part's content so much is kept, to show later what has changed in it."""
_DEPTH_MAX: Final = 12


@dataclass(frozen=True, slots=True)
class Part:
    """One file."""

    path: str
    """From the repository's root, with `/`."""
    sha256: str
    is_executable: bool
    text: str | None = None
    """Its content, where it is short and text."""


@dataclass(frozen=True)
class Parts:
    """All files of a repository that wait for trust, as they are now."""

    root: Path
    """The repository, by its real path."""
    parts: tuple[Part, ...] = ()
    faults: tuple[str, ...] = ()
    """What cannot be trusted as it stands, in words: a link, a device, somebody else's file."""

    @cached_property
    def digest(self) -> str:
        """Changes with every byte, name and right of the parts."""
        told = [[part.path, part.sha256, part.is_executable] for part in self.parts]
        return hashlib.sha256(json.dumps([told, self.faults]).encode()).hexdigest()

    def __bool__(self) -> bool:
        return bool(self.parts or self.faults)

    def read(self, path: str | os.PathLike[str]) -> bytes:
        """Return the content of a part, which is what was looked at.

        Raises:
            TrustRequired: it is no part, or has changed since.
        """
        name = _name_in(self.root, Path(path))
        known = next((part for part in self.parts if part.path == name), None)
        try:
            data, is_executable = _read_plain(self.root, name)
        except _Fault as fault:
            raise _changed(self.root, f"{name} {fault}") from None
        if known is None or (known.sha256, known.is_executable) != (hashlib.sha256(data).hexdigest(), is_executable):
            raise _changed(self.root, f"{name} is not what was trusted")
        return data


def parts_of(root: str | os.PathLike[str]) -> Parts:
    """Look at a repository; nothing is raised for what stands in it."""
    place = Path(os.path.realpath(root))
    parts: list[Part] = []
    faults: list[str] = []
    for name in _names(place, faults):
        if len(parts) >= PARTS_MAX:
            faults.append(f"there are more than {PARTS_MAX:,} files that would have to be looked at")
            break
        try:
            data, is_executable = _read_plain(place, name)
        except _Fault as fault:
            faults.append(f"{name} {fault}")
            continue
        parts.append(Part(name, hashlib.sha256(data).hexdigest(), is_executable, _text_of(data)))
    return Parts(place, tuple(sorted(parts, key=lambda part: part.path)), tuple(sorted(faults)))


class _Fault(Exception):
    """Why a file cannot be trusted, in words that follow its name."""


def _names(root: Path, faults: list[str]) -> Iterator[str]:
    for name in FILES:
        if os.path.lexists(root / name):
            yield name
    for name in FOLDERS:
        yield from _below(root, name, faults, 0)


def _below(root: Path, name: str, faults: list[str], depth: int) -> Iterator[str]:
    path = root / name
    if not os.path.lexists(path):
        return
    if (link := _link_in(root, name)) is not None:
        faults.append(f"{link} is a link")
        return
    if depth > _DEPTH_MAX:
        faults.append(f"{name} has too many folders inside each other")
        return
    try:
        entries = sorted(os.scandir(path), key=lambda entry: entry.name)
    except OSError as error:
        faults.append(f"{name} cannot be read: {error.strerror}")
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if entry.name != "__pycache__":
                yield from _below(root, f"{name}/{entry.name}", faults, depth + 1)
        else:
            yield f"{name}/{entry.name}"


def _link_in(root: Path, name: str) -> str | None:
    """Return the first part of a path that is a link."""
    names = name.split("/")
    steps = ("/".join(names[: count + 1]) for count in range(len(names)))
    return next((step for step in steps if (root / step).is_symlink()), None)


def _read_plain(root: Path, name: str) -> tuple[bytes, bool]:
    """Return the content of a regular file, and whether it may be run."""
    if (link := _link_in(root, name)) is not None:
        raise _Fault("is a link" if link == name else f"lies behind the link {link}")
    try:
        fd = os.open(root / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _Fault(f"cannot be read: {error.strerror}") from None
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise _Fault("is no ordinary file")
        if status.st_uid not in (0, os.geteuid()):
            raise _Fault("belongs to another user")
        if status.st_mode & stat.S_IWOTH:
            raise _Fault("can be written by everybody")
        data = file.read(PART_BYTES_MAX + 1)
    if len(data) > PART_BYTES_MAX:
        raise _Fault(f"is larger than {PART_BYTES_MAX:,} bytes")
    return data, bool(status.st_mode & 0o111)


def _text_of(data: bytes) -> str | None:
    if len(data) > TEXT_BYTES_MAX:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _name_in(root: Path, path: Path) -> str:
    absolute = path if path.is_absolute() else root / path
    try:
        return os.path.normpath(absolute).removeprefix(f"{root}/") if absolute.is_relative_to(root) else str(path)
    except ValueError:
        return str(path)


def _changed(root: Path, what: str) -> TrustRequired:
    return TrustRequired(f"{what} (in {str(root)!r})", hint=f"look at it, then: plait trust {root}")
