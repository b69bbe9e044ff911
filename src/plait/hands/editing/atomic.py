"""A file replaced as a whole: after a crash at any moment it holds the old content or the new.

Floor: 2. Owns: the order of system calls that makes it so; never: what is written.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from plait.core.errors import Refusal
from plait.hands import beneath
from plait.hands.refusals import refusal_from
from plait.hands.workspace import Pinned, is_same

_NEW: Final[int] = os.O_WRONLY | os.O_CREAT | os.O_EXCL | beneath.NO_LINK | getattr(os, "O_CLOEXEC", 0)
_LINKS_UNKNOWN: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES})
_SYNC_UNKNOWN: Final = frozenset({errno.EINVAL, errno.EACCES, errno.EOPNOTSUPP})

_TEMPORARY: Final = re.compile(r"\.plait-[0-9a-f]{16}\.tmp")

Mode = Callable[[int], int]
"""Gives the permissions of a new file from those it would have."""

Before = Callable[[str], None]
"""Called ahead of each step with its name: the place at which a test lets the step fail or the process die."""


def temporary_name() -> str:
    """Return a fresh name for the file that is written first; it says whose it is and fits every file system."""
    return f".plait-{os.urandom(8).hex()}.tmp"


def is_temporary(name: str) -> bool:
    """Say whether a name is one that `temporary_name` gives."""
    return _TEMPORARY.fullmatch(name) is not None


def _nothing(_step: str) -> None:
    """Do nothing before a step."""


class AtomicWrite:
    """One replacement: directories made, a temporary file written and synced, then renamed over the target.

    Durability: when `run` returns, the content and its name are on disk. When it raises, the target holds what it
    held before (unless only the last step failed, the sync of its directory), and the temporary file and the
    directories that were made are gone again. A crash may leave the temporary file, under the name that was given.
    """

    def __init__(
        self,
        target: Pinned,
        data: bytes,
        old: os.stat_result | None,
        temporary: str,
        *,
        mode: Mode | None = None,
        before: Before | None = None,
    ) -> None:
        """Replace `target`, which must still be what `old` says (None: not exist), by `data`."""
        self._mode = mode
        self._target = target
        self._data = data
        self._old = old
        self._temporary = temporary
        self._before = before or _nothing
        self._opened: list[int] = [target.fd]
        self._made: list[tuple[int, str]] = []

    def run(self) -> os.stat_result:
        """Do it and return the status of the new file. Raises `Refusal`."""
        try:
            try:
                return self._run()
            except BaseException:
                self._take_back()
                raise
        except OSError as error:
            raise refusal_from(error, self._target.shown, "write") from error
        finally:
            for fd in self._opened[1:]:
                os.close(fd)

    def _run(self) -> os.stat_result:
        self._make_directories()
        self._write_temporary()
        self._check_unchanged()
        self._take_the_name()
        status = os.stat(self._target.name, dir_fd=self._directory, follow_symlinks=False)
        for fd in reversed(self._opened):
            self._sync_directory(fd)
        self._made.clear()
        return status

    @property
    def _directory(self) -> int:
        return self._opened[-1]

    def _make_directories(self) -> None:
        for name in self._target.missing:
            self._before("mkdir")
            try:
                os.mkdir(name, dir_fd=self._directory)
                self._made.append((self._directory, name))
            except FileExistsError:
                pass  # somebody else made it; whether it is a directory is seen when it is opened
            self._opened.append(
                os.open(name, beneath.LOOK | beneath.DIRECTORY | beneath.NO_LINK, dir_fd=self._directory)
            )

    def _write_temporary(self) -> None:
        self._before("create")
        mode = 0o666 if self._old is None else 0o600  # a new file honours the umask; an old one's mode comes below
        fd = os.open(self._temporary, _NEW, mode, dir_fd=self._directory)
        try:
            rest = memoryview(self._data)
            while rest:
                self._before("write")
                rest = rest[os.write(fd, rest) :]
            if self._old is not None:
                self._keep_attributes(fd, self._old)
            if self._mode is not None:
                os.fchmod(fd, self._mode(os.fstat(fd).st_mode & 0o7777))
            self._before("fsync")
            os.fsync(fd)
        finally:
            os.close(fd)

    def _keep_attributes(self, fd: int, old: os.stat_result) -> None:
        """Give the new file the owner, extended attributes and mode of the old one, as far as this user may."""
        mode = old.st_mode & 0o7777
        mine = os.fstat(fd)
        if (mine.st_uid, mine.st_gid) != (old.st_uid, old.st_gid):
            try:
                os.fchown(fd, old.st_uid, old.st_gid)
            except OSError:
                mode &= 0o1777  # set-user-id under another owner would be another thing
                with suppress(OSError):
                    os.fchown(fd, -1, old.st_gid)
        self._copy_extended(fd)
        self._before("fchmod")
        os.fchmod(fd, mode)

    def _copy_extended(self, fd: int) -> None:
        if not hasattr(os, "listxattr"):
            return
        with suppress(OSError):
            source = os.open(self._target.name, os.O_RDONLY | beneath.NO_LINK | os.O_NONBLOCK, dir_fd=self._directory)
            try:
                for name in os.listxattr(source):
                    with suppress(OSError):  # some attributes are the system's alone
                        os.setxattr(fd, name, os.getxattr(source, name))
            finally:
                os.close(source)

    def _check_unchanged(self) -> None:
        """Refuse when the directory has moved, or the file is not the one that was read."""
        self._before("check")
        if not self._target.is_in_place(self._directory):
            raise self._conflict("was moved while it was being written")
        try:
            now = os.stat(self._target.name, dir_fd=self._directory, follow_symlinks=False)
        except FileNotFoundError:
            now = None
        if (now is None) != (self._old is None):
            raise self._conflict("was removed meanwhile" if now is None else "was created by somebody else meanwhile")
        if now is not None and self._old is not None and not is_unchanged(self._old, now):
            raise self._conflict("was changed by somebody else meanwhile")

    def _conflict(self, what: str) -> Refusal:
        return _conflict(self._target.shown, what)

    def _take_the_name(self) -> None:
        """Rename over the target; a target that must not exist yet is linked, which fails when it does."""
        self._before("rename")
        here, name = self._directory, self._target.name
        if self._old is not None or not self._link(here, name):
            os.rename(self._temporary, name, src_dir_fd=here, dst_dir_fd=here)

    def _link(self, here: int, name: str) -> bool:
        """Give the temporary file the name, unless that is taken; False where the file system has no hard links."""
        try:
            os.link(self._temporary, name, src_dir_fd=here, dst_dir_fd=here)
        except FileExistsError:
            raise self._conflict("was created by somebody else meanwhile") from None
        except OSError as error:
            if error.errno in _LINKS_UNKNOWN:
                return False
            raise
        self._before("unlink")
        with suppress(OSError):  # the file is in place; a second name for it does no harm
            os.unlink(self._temporary, dir_fd=here)
        return True

    def _sync_directory(self, fd: int) -> None:
        self._before("fsync directory")
        sync_directory(fd)

    def _take_back(self) -> None:
        with suppress(OSError):
            os.unlink(self._temporary, dir_fd=self._directory)
        for parent, name in reversed(self._made):
            with suppress(OSError):  # not empty any more: then it is somebody else's too
                os.rmdir(name, dir_fd=parent)


def remove(target: Pinned, old: os.stat_result, *, before: Before | None = None) -> None:
    """Remove a file that must still be what `old` says. Raises `Refusal`; it is then still there.

    Durability: when it returns, the name is gone from the disk (unless only the sync of its directory failed).
    """
    step = before or _nothing
    try:
        step("check")
        now = os.stat(target.name, dir_fd=target.fd, follow_symlinks=False)
        if not is_unchanged(old, now) or not target.is_in_place():
            raise _conflict(target.shown, "was changed by somebody else meanwhile")
        step("remove")
        os.unlink(target.name, dir_fd=target.fd)
        step("fsync directory")
        sync_directory(target.fd)
    except FileNotFoundError:
        raise _conflict(target.shown, "was removed meanwhile") from None
    except OSError as error:
        raise refusal_from(error, target.shown, "remove") from error


def _conflict(shown: str, what: str) -> Refusal:
    return Refusal("CONFLICT", f"{shown!r} {what}", hint="read it again, then repeat", details={"path": shown})


def sync_directory(fd: int) -> None:
    """Make the names in a directory durable, where its file system can; `fd` may be one that only looks."""
    try:
        readable = os.open(".", os.O_RDONLY | beneath.DIRECTORY, dir_fd=fd)
        try:
            os.fsync(readable)
        finally:
            os.close(readable)
    except OSError as error:
        if error.errno not in _SYNC_UNKNOWN:  # not every file system syncs directories
            raise


def is_unchanged(one: os.stat_result, other: os.stat_result) -> bool:
    """Say whether two looks saw the same file with the same content, as far as a look can tell."""
    return is_same(one, other) and (one.st_size, one.st_mtime_ns) == (other.st_size, other.st_mtime_ns)
