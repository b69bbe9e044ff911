"""One directory that file tools may touch, held open, and what can be reached beneath it.

Floor: 2. Owns: the opened root and the handles below it; never: what is outside, what a tool may do with a handle.
"""

from __future__ import annotations

import os
import stat
import weakref
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Protocol, Self

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands import beneath
from plait.hands.paths import Location, PathStyle, lenient_location, strict_location
from plait.hands.refusals import refusal_from

_FILE: Final[int] = os.O_RDONLY | beneath.NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)

Purpose = Literal["read", "write"]


class Handle:
    """Something that holds a descriptor until it is closed; closing twice is fine."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def close(self) -> None:
        """Let go of the descriptor."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class OpenFile(Handle):
    """A regular file, open for reading; `status` is what it was when it was opened."""

    __slots__ = ("shown", "status")

    def __init__(self, fd: int, status: os.stat_result, shown: str) -> None:
        super().__init__(fd)
        self.status = status
        self.shown = shown


class OpenDirectory(Handle):
    """A directory, open for listing; `shown` is its path as the caller may see it."""

    __slots__ = ("shown",)

    def __init__(self, fd: int, shown: str) -> None:
        super().__init__(fd)
        self.shown = shown


class Pinned(Handle):
    """A name in an opened directory: what a write, an edit or a read is about to touch.

    `missing` are directories that stand between the two and do not exist yet; nothing was created.
    """

    __slots__ = ("_again", "missing", "name", "shown")

    def __init__(self, spot: beneath.Spot, shown: str, again: Callable[[], beneath.Spot]) -> None:
        super().__init__(spot.fd)
        self.name = spot.name
        self.missing = spot.missing
        self.shown = shown
        self._again = again

    def status(self) -> os.stat_result | None:
        """Return what stands at the name now, a link as a link, or None."""
        if self.missing:
            return None
        try:
            return os.stat(self.name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise refusal_from(error, self.shown, "look at") from error

    def is_in_place(self, directory_fd: int | None = None) -> bool:
        """Say whether the path still leads to this directory and this name.

        `directory_fd` is the directory of the name when the missing ones have been made since.
        """
        missing = self.missing if directory_fd is None else ()
        try:
            spot = self._again()
        except (OSError, beneath.Escaped):
            return False
        try:
            here = os.fstat(self.fd if directory_fd is None else directory_fd)
            return (spot.name, spot.missing) == (self.name, missing) and is_same(os.fstat(spot.fd), here)
        finally:
            os.close(spot.fd)

    def open_file(self) -> OpenFile:
        """Open the regular file at this name. Raises `Refusal` for anything else; a pipe or device is not opened."""
        before = self.status()
        if before is None:
            raise Refusal(
                "NOT_FOUND",
                f"not a file: {self.shown!r} does not exist",
                hint="list the directory, or search for the name",
                details={"path": self.shown},
            )
        refuse_unless_regular(before, self.shown)
        try:
            fd = os.open(self.name, _FILE, dir_fd=self.fd)
        except OSError as error:
            raise refusal_from(error, self.shown, "read") from error
        now = os.fstat(fd)
        if not is_same(before, now):
            os.close(fd)
            raise Refusal("CONFLICT", f"{self.shown!r} was replaced while it was opened", hint="try again")
        return OpenFile(fd, now, self.shown)

    def open_directory(self) -> OpenDirectory:
        """Open the directory at this name for listing."""
        if self.missing:
            raise Refusal("NOT_FOUND", f"not a directory: {self.shown!r} does not exist", hint="list the one above it")
        try:
            fd = os.open(self.name, os.O_RDONLY | beneath.DIRECTORY | beneath.NO_LINK, dir_fd=self.fd)
        except NotADirectoryError as error:
            raise Refusal("INVALID_INPUT", f"not a directory: {self.shown!r}", hint="read it as a file") from error
        except FileNotFoundError as error:
            raise Refusal(
                "NOT_FOUND", f"not a directory: {self.shown!r} does not exist", hint="list the one above it"
            ) from error
        except OSError as error:
            raise refusal_from(error, self.shown, "list") from error
        return OpenDirectory(fd, self.shown)


class Files(Protocol):
    """What file tools need of a place: names turned into handles, or a `Refusal`."""

    def pin(self, path: str, purpose: Purpose = "read") -> Pinned:
        """Find where `path` ends; nothing is created. The caller closes the result."""
        ...

    def forbidden(self) -> frozenset[tuple[int, int]]:
        """Device and inode of what a descent may neither enter nor read."""
        ...

    def open_file(self, path: str) -> OpenFile:
        """Open a regular file for reading."""
        with self.pin(path) as pinned:
            return pinned.open_file()

    def open_directory(self, path: str) -> OpenDirectory:
        """Open a directory for listing."""
        with self.pin(path) as pinned:
            return pinned.open_directory()


@dataclass(frozen=True, slots=True)
class WorkspaceOptions:
    """How a workspace reads paths."""

    style: PathStyle = "lenient"
    home: str = field(default_factory=lambda: os.path.expanduser("~"))
    """What `~` means; used by the lenient style only."""
    uses_openat2: bool = True
    """Let the kernel walk where it can; the walk name by name is there for the rest."""
    before: Callable[[str], None] | None = None
    """Called ahead of each system call of the walk name by name: for tests that move files."""


class Workspace(Files):
    """A root directory that is opened once; everything below is reached from that descriptor.

    Safe in any thread. Raises `Refusal` when the platform has no calls relative to a directory
    (`UNSUPPORTED_PLATFORM`) or the root is no directory.
    """

    def __init__(self, root: str | os.PathLike[str], options: WorkspaceOptions | None = None) -> None:
        if not beneath.is_supported():
            raise Refusal(
                "UNSUPPORTED_PLATFORM",
                "file tools need calls relative to an opened directory, which this platform lacks",
                hint="run plait on Linux or macOS",
            )
        options = options or WorkspaceOptions()
        given = os.path.abspath(root)
        real = os.path.realpath(given)
        try:
            self._fd = os.open(real, beneath.LOOK | beneath.DIRECTORY)
        except OSError as error:
            raise refusal_from(error, given, "open the workspace") from error
        self.root = Path(real)
        self._close = weakref.finalize(self, os.close, self._fd)
        self._spellings = tuple(dict.fromkeys((real, given)))
        self._style: PathStyle = options.style
        self._home = options.home
        follows_links = options.style == "lenient"
        self._by_name = beneath.NameByName(
            self._fd, self._spellings, follows_links=follows_links, before=options.before
        )
        self._kernel = (
            beneath.ByKernel.probe(self._fd, follows_links=follows_links, is_top=real == "/")
            if options.uses_openat2
            else None
        )

    @property
    def style(self) -> PathStyle:
        """How paths are read here."""
        return self._style

    def close(self) -> None:
        """Let go of the root; handles that were given out stay usable."""
        self._close()

    def locate(self, path: str) -> Location:
        """Read a path as text; the lenient style may find that it is outside. Raises `Refusal`."""
        if self._style == "strict":
            return strict_location(path, self._spellings)
        return lenient_location(path, self._spellings, self._home)

    def pin(self, path: str, purpose: Purpose = "read") -> Pinned:
        """Find where `path` ends, beneath the root or not at all; nothing is created."""
        location = self.locate(path)
        if not location.is_inside:
            raise escape(path)
        try:
            return self.pin_names(location.segments, location.shown)
        except beneath.Escaped:
            raise escape(path) from None
        except OSError as error:
            raise refusal_from(error, path, purpose) from error

    def pin_names(self, names: tuple[str, ...], shown: str) -> Pinned:
        """Find where `names` end. Raises `Escaped` or `OSError`, not `Refusal`."""
        return Pinned(self._find(names), shown, lambda: self._find(names))

    def forbidden(self) -> frozenset[tuple[int, int]]:
        """Nothing: what is beneath the root may be read."""
        return frozenset()

    def _find(self, names: tuple[str, ...]) -> beneath.Spot:
        return beneath.find(self._fd, names, self._kernel, self._by_name)


def escape(path: str) -> Refusal:
    """The refusal of a path that leads outside."""
    return Refusal(
        "FORBIDDEN",
        f"path escapes working directory: {path!r}",
        hint="use a path inside the workspace",
        details={"path": path},
    )


def is_same(one: os.stat_result, other: os.stat_result) -> bool:
    """Say whether two looks saw the same file."""
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


def refuse_unless_regular(status: os.stat_result, shown: str) -> None:
    """Raise `Refusal` for whatever is not a regular file, with what it is instead."""
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise Refusal("INVALID_INPUT", f"not a file: {shown!r} is a directory", hint="list it, or name a file in it")
    if stat.S_ISLNK(mode):
        raise Refusal("FORBIDDEN", f"not a file: {shown!r} is a symbolic link", hint="name the file it leads to")
    kinds = ((stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket"))
    kind = next((name for test, name in kinds if test(mode)), "a device")
    raise Refusal("UNSUPPORTED_CONTENT", f"not a file: {shown!r} is {kind}", hint="only regular files are read")
