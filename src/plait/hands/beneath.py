"""The walk from an opened root to a name below it, which no swapped link can lead outside.

Floor: 2. Owns: openat2 where the kernel has it, and the same walk name by name elsewhere; never: path text, policy.

Both walks end at a `Spot`: an opened directory and a final name in it that was no link when it was looked at. What
is done there is done by descriptor and without following links, so a swap that comes later changes nothing.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ctypes

DIRECTORY: Final[int] = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
NO_LINK: Final[int] = getattr(os, "O_NOFOLLOW", 0)
LOOK: Final[int] = getattr(os, "O_PATH", os.O_RDONLY)
"""Open a directory only to go on from it: needs no read permission where the system knows such a mode."""

_LINKS_MAX: Final = 40
_AGAIN_MAX: Final = 16
_SYS_OPENAT2: Final = 437
_RESOLVE_NO_MAGICLINKS: Final = 0x02
_RESOLVE_NO_SYMLINKS: Final = 0x04
_RESOLVE_BENEATH: Final = 0x08
_RESOLVE_IN_ROOT: Final = 0x10


class Escaped(Exception):
    """The way leads outside the root."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a path ends: an opened directory, a name in it, and the directories that are missing in between.

    The holder closes `fd`. `name` is `.` when the path ends at the directory itself.
    """

    fd: int
    name: str
    missing: tuple[str, ...] = ()


def is_supported() -> bool:
    """Say whether this platform can open, rename, remove and list relative to an opened directory."""
    calls = (os.open, os.stat, os.mkdir, os.rename, os.unlink, os.rmdir, os.readlink)
    return bool(NO_LINK) and all(call in os.supports_dir_fd for call in calls) and os.scandir in os.supports_fd


def _nothing(_call: str) -> None:
    """Do nothing before a system call."""


class NameByName:
    """The walk in plain system calls: each directory is opened without following a link and kept open.

    A link is read and its text walked by the same rules, from the directory that holds it; `..` in it goes back to
    the directory that was opened before, never to what the file system calls the parent now.
    """

    def __init__(
        self,
        root_fd: int,
        spellings: tuple[str, ...],
        *,
        follows_links: bool,
        before: Callable[[str], None] | None = None,
    ) -> None:
        """Walk below `root_fd`, whose absolute names are `spellings`.

        `before` is called ahead of every system call with its name: the place from which a test moves files.
        """
        self._root_fd = root_fd
        self._spellings = spellings
        self._follows_links = follows_links
        self._is_top = "/" in spellings
        self._before = before or _nothing

    def find(self, segments: tuple[str, ...]) -> Spot:
        """Go to the end of `segments`. Raises `Escaped`, or the `OSError` of the step that failed."""
        trail = [os.dup(self._root_fd)]
        try:
            return self._go(trail, deque(segments))
        finally:
            for fd in trail:
                os.close(fd)

    def _go(self, trail: list[int], todo: deque[str]) -> Spot:
        turns = 0  # links followed, and names that changed under our eyes
        linked = 0  # how many of the next names come from a link, not from the path itself
        while todo:
            name = todo.popleft()
            from_link, linked = linked > 0, max(0, linked - 1)
            if name == "..":
                self._go_up(trail)
                continue
            try:
                kind = self._kind(name, trail[-1])
            except FileNotFoundError:
                if from_link:
                    raise  # a link that leads nowhere names nothing that could be created
                return Spot(trail.pop(), (name, *todo)[-1], (name, *todo)[:-1])
            if not stat.S_ISLNK(kind) and not todo:
                return Spot(trail.pop(), name)
            length = len(todo)
            turns += self._step(name, kind, trail, todo)
            linked += len(todo) - length
            if turns > _LINKS_MAX:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return Spot(trail.pop(), ".")

    def _step(self, name: str, kind: int, trail: list[int], todo: deque[str]) -> int:
        """Enter a directory or follow a link; return 1 when that was no plain step down."""
        try:
            if stat.S_ISLNK(kind):
                self._redirect(trail, name, todo)
                return 1
            trail.append(self._open(name, trail[-1]))
        except OSError as error:
            changed = error.errno in {errno.ELOOP, errno.ENOTDIR, errno.EINVAL} and self._follows_links
            if not changed or self._kind(name, trail[-1]) == kind:
                raise
            todo.appendleft(name)
            return 1
        return 0

    def _kind(self, name: str, parent_fd: int) -> int:
        self._before("stat")
        return os.stat(name, dir_fd=parent_fd, follow_symlinks=False).st_mode

    def _open(self, name: str, parent_fd: int) -> int:
        self._before("open")
        return os.open(name, LOOK | DIRECTORY | NO_LINK, dir_fd=parent_fd)

    def _go_up(self, trail: list[int]) -> None:
        if len(trail) > 1:
            os.close(trail.pop())
        elif not self._is_top:
            raise Escaped

    def _redirect(self, trail: list[int], name: str, todo: deque[str]) -> None:
        """Put the names of a link's target in front of what is left to walk."""
        if not self._follows_links:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        self._before("readlink")
        target = os.readlink(name, dir_fd=trail[-1])
        if target.startswith("/"):
            target = self._below_root(target)
            while len(trail) > 1:
                os.close(trail.pop())
        todo.extendleft(part for part in reversed(target.split("/")) if part not in {"", "."})

    def _below_root(self, target: str) -> str:
        for root in self._spellings:
            prefix = root.rstrip("/")
            if target == root or target.startswith(f"{prefix}/"):
                return target[len(prefix) :]
        raise Escaped


class ByKernel:
    """The walk in one system call, where the kernel has openat2 and no filter forbids it."""

    def __init__(self, libc: ctypes.CDLL, *, follows_links: bool, is_top: bool) -> None:
        self._libc = libc
        self._resolve = _RESOLVE_NO_MAGICLINKS | (_RESOLVE_IN_ROOT if is_top else _RESOLVE_BENEATH)
        if not follows_links:
            self._resolve |= _RESOLVE_NO_SYMLINKS

    @classmethod
    def probe(cls, root_fd: int, *, follows_links: bool, is_top: bool) -> ByKernel | None:
        """Try it on the root itself; None when this kernel, machine or sandbox does not let us."""
        if sys.platform != "linux" or os.uname().machine == "alpha":  # the one machine with another number
            return None
        import ctypes

        found = cls(ctypes.CDLL(None, use_errno=True), follows_links=follows_links, is_top=is_top)
        try:
            os.close(found.open_directory(root_fd, "."))
        except OSError:
            return None
        return found

    def open_directory(self, root_fd: int, path: str) -> int:
        """Open a directory below `root_fd`. Raises the `OSError` of the call; EXDEV says that it leads outside."""
        import ctypes

        how = (ctypes.c_uint64 * 3)(LOOK | DIRECTORY, 0, self._resolve)
        name = os.fsencode(path)
        code = 0
        for _ in range(_AGAIN_MAX):
            fd = self._libc.syscall(_SYS_OPENAT2, root_fd, name, ctypes.byref(how), ctypes.sizeof(how))
            if fd >= 0:
                return int(fd)
            code = ctypes.get_errno()
            if code not in {errno.EAGAIN, errno.EINTR}:
                break
        raise OSError(code, os.strerror(code))


def find(root_fd: int, segments: tuple[str, ...], kernel: ByKernel | None, by_name: NameByName) -> Spot:
    """Go to the end of `segments` by the kernel's walk, and name by name when it does not simply succeed.

    The second walk knows what the first one cannot say: what is missing, where a last link leads, and that an
    absolute link stays inside. Both are safe on their own.
    """
    if kernel is None or not segments:
        return by_name.find(segments)
    try:
        parent_fd = kernel.open_directory(root_fd, "/".join(segments[:-1]) or ".")
    except OSError:
        return by_name.find(segments)
    try:
        kind = os.stat(segments[-1], dir_fd=parent_fd, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return Spot(parent_fd, segments[-1])
    except BaseException:
        os.close(parent_fd)
        raise
    if not stat.S_ISLNK(kind):
        return Spot(parent_fd, segments[-1])
    os.close(parent_fd)
    return by_name.find(segments)
